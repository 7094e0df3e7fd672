"""The page of the HTTP API: all that the OpenAPI document publishes, and nothing that is not so."""

import httpx2
import pytest
from markup_checks import by_id, links, parsed, text_of, texts
from markupsafe import Markup

from server.web.markup import anchor
from server.web.reference import reference


@pytest.fixture
def document(client):
    return client.get("/openapi.json").json()


def test_the_page_has_every_operation_with_its_parameters_and_every_shape(client, document):
    page = parsed(client.get("/docs"))
    shown = [" ".join(text.split()) for text in texts(page, "h2")]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert f"{method.upper()} {path}" in shown
            by_id(page, anchor(f"{method} {path}"))
            for parameter in operation.get("parameters", ()):
                assert parameter["name"] in texts(page, "code")
    assert set(document["components"]["schemas"]) <= set(texts(page, "h3"))
    assert {href for href in links(page) if href.startswith("#s-shape-")}


def test_every_page_leads_to_it(client):
    for address in ("/", "/search", "/sources", "/nowhere"):
        page = parsed(client.get(address, headers={"Accept": "text/html"}))
        header = next(page.iter("header"))
        assert "/docs" in links(header)


def test_fields_say_what_they_are_and_what_they_take(client, document):
    shapes = {each.name: each for each in reference(document).shapes}
    request = {field.name: field for field in shapes["ContextRequest"].fields}
    assert request["max_tokens"].note == "at least 64, at most 200,000"
    assert request["language"].type == Markup("<code>triton</code>, <code>cuda</code>")
    assert "never run" in request["problem"].description
    assert request["profile"].type == "object: name → number"
    search = {field.name: field for field in shapes["SearchRequest"].fields}
    assert search["query"].note.startswith("required")
    assert search["k"].note == "default 10, at least 1, at most 100"
    inherited = {field.name: field for field in shapes["KernelDetail"].fields}
    assert inherited["derived_from"].description
    published = document["components"]["schemas"]
    for name in ("SearchRequest", "ContextRequest", "Filters"):
        for field, schema in published[name]["properties"].items():
            assert schema.get("description"), (name, field)


def test_the_call_on_the_page_is_answered(live):
    page = parsed(live.get("/docs"))
    call = next(text for text in texts(page, "pre") if text.startswith("curl"))
    address, body = call.split()[2], call.split("-d '")[1].removesuffix("'")
    assert address == live.url + "/v1/search"
    answer = httpx2.post(
        address, content=body, headers={"Content-Type": "application/json"}, timeout=60
    )
    assert answer.status_code == 200
    assert answer.json()["metrics"][0]["value"] == 30


def test_nothing_in_a_document_becomes_markup():
    evil = "<script>alert(1)</script>"
    field = {"type": evil, "description": evil, "default": evil, "enum": [evil]}
    schema = {"type": "object", "description": evil, "properties": {evil: field}}
    got = reference({"info": {}, "paths": {}, "components": {"schemas": {evil: schema}}})
    assert "<script" not in got.shapes[0].fields[0].type


def test_errors_are_listed_once(client):
    errors = text_of(parsed(client.get("/docs"))).split("Every error is a", 1)[1]
    assert errors.index("404") < errors.index("Schemas")
