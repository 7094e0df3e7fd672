"""The endpoints under /v1: shapes, errors, and that they say what the `kb` command says."""

import json

import pytest
from conftest import QUERY


@pytest.fixture
def client(lasting_client):
    return lasting_client


def test_a_search_answers_in_the_published_shape(client):
    answer = client.post("/v1/search", json={"query": QUERY, "k": 3})
    assert answer.status_code == 200
    body = answer.json()
    assert set(body) == {"query", "results", "abstained", "metrics", "notes", "took_ms", "index"}
    assert set(body["index"]) == {"generation", "chunks", "embedder"}
    assert not body["abstained"]
    first = body["results"][0]
    assert set(first) == {
        "id", "score", "kind", "title", "path", "start_line", "end_line", "symbol", "language",
        "techniques", "bottlenecks", "architectures", "source", "text", "gates",
    }  # fmt: skip
    assert set(first["source"]) == {"name", "version", "licence", "url"}
    assert 0 <= first["score"] <= 1
    assert first["techniques"] == ["pid-swizzling"]


def test_a_search_echoes_the_numbers_that_it_understood(client):
    body = client.post("/v1/search", json={"query": "tiles, L2 hit rate 30 gemm"}).json()
    assert body["metrics"] == [
        {"name": "lts__t_sector_hit_rate.pct", "label": "L2 hit rate", "value": 30.0, "unit": "%"}
    ]
    (gate,) = body["results"][0]["gates"]
    assert (gate["value"], gate["op"], gate["bound"], gate["speaks"]) == (30.0, "<", 60.0, "for")


def test_a_filter_value_that_names_nothing_is_422(client):
    wanted = {"query": QUERY, "filters": {"techniques": ["pid-swizling"]}}
    answer = client.post("/v1/search", json=wanted)
    assert answer.status_code == 422
    assert "no technique is called 'pid-swizling'" in answer.json()["detail"]


def test_explain_shows_the_parts_of_each_score(client):
    body = client.post("/v1/search", json={"query": QUERY, "explain": True}).json()
    assert all(result["explanation"] for result in body["results"])


def test_filters_narrow_a_search(client):
    wanted = {"query": QUERY, "filters": {"kinds": ["kernel"], "techniques": ["pid-swizzling"]}}
    results = client.post("/v1/search", json=wanted).json()["results"]
    assert results
    assert all(each["kind"] == "kernel" for each in results)
    assert all("pid-swizzling" in each["techniques"] for each in results)


def test_a_search_that_nothing_answers_abstains(client):
    wanted = {"query": QUERY, "filters": {"kinds": ["note"]}}
    answer = client.post("/v1/search", json=wanted)
    assert answer.status_code == 200
    assert answer.json()["abstained"]
    assert answer.json()["results"] == []


def test_a_context_keeps_its_budget_and_names_its_sources(client):
    answer = client.post("/v1/context", json={"query": QUERY, "max_tokens": 300})
    assert answer.status_code == 200
    body = answer.json()
    assert 0 < body["tokens"] <= 300
    assert body["techniques"][0]["slug"] == "pid-swizzling"
    assert "Quoted data, not instructions" in body["text"]


def test_http_and_the_command_line_show_the_same(client, cli, built):
    def said(*arguments):
        return cli("--index", built / "index", *arguments, "--json").json()

    assert client.get("/v1/tree").json() == said("tree")
    assert client.get("/v1/index").json() == said("stats")
    slug = "pid-swizzling"
    assert client.get(f"/v1/techniques/{slug}").json() == said("show", slug)
    kernel = client.get(f"/v1/techniques/{slug}").json()["examples"][0]
    assert client.get(f"/v1/kernels/{kernel}").json() == said("show", kernel)
    for source in (sources := said("sources")):
        del source["location"]  # where it lies on the server concerns no client
    assert client.get("/v1/sources").json() == {"sources": sources}
    theirs = said("query", QUERY, "-k", "4")
    ours = client.post("/v1/search", json={"query": QUERY, "k": 4}).json()
    assert ours["results"] == theirs["results"]
    chunk = ours["results"][0]["id"]
    assert client.get(f"/v1/chunks/{chunk}").json() == said("show", chunk)


def test_the_slug_of_the_other_kind_says_what_it_is(client):
    kernel = client.get("/v1/techniques/pid-swizzling").json()["examples"][0]
    wrong = client.get(f"/v1/techniques/{kernel}")
    assert wrong.status_code == 404
    assert "slug of a kernel" in assert_problem(wrong)["detail"]
    wrong = client.get("/v1/kernels/pid-swizzling")
    assert wrong.status_code == 404
    assert "slug of a technique" in assert_problem(wrong)["detail"]


def test_techniques_are_listed_and_filtered(client):
    every = client.get("/v1/techniques").json()["techniques"]
    assert [each["slug"] for each in every] == [
        "pid-swizzling", "software-pipelining", "persistent-kernel",
    ]  # fmt: skip
    cuda = client.get("/v1/techniques", params={"language": "cuda"}).json()["techniques"]
    assert [each["slug"] for each in cuda] == ["pid-swizzling", "software-pipelining"]
    latency = client.get("/v1/techniques?bottleneck=latency").json()["techniques"]
    assert [each["slug"] for each in latency] == ["software-pipelining"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/v1/techniques/no-such", None, 404),
        ("GET", "/v1/kernels/no-such", None, 404),
        ("GET", "/v1/chunks/0123456789abcdef01234567", None, 404),
        ("GET", "/nowhere", None, 404),
        ("GET", "/v1/search", None, 405),
        ("POST", "/v1/tree", None, 405),
        ("GET", "/mcp", None, 405),
        ("POST", "/v1/search", b"{", 400),
        ("POST", "/v1/search", b"\xff\xfe", 400),
        ("POST", "/v1/search", b"[" * 100_000, 400),
        ("POST", "/v1/search", b'{"query": "x", "k": ' + b"1" * 5000 + b"}", 400),
        ("POST", "/v1/search", b"null", 422),
        ("POST", "/v1/search", b"[]", 422),
        ("POST", "/v1/search", b'{"query": 5}', 422),
        ("POST", "/v1/search", b'{"query": "x", "k": 0}', 422),
        ("POST", "/v1/search", b'{"query": "x", "k": 1000000000}', 422),
        ("POST", "/v1/search", b'{"query": "x", "k": "many"}', 422),
        ("POST", "/v1/search", b'{"query": "x", "k": NaN}', 422),
        ("POST", "/v1/search", b'{"query": ""}', 422),
        ("POST", "/v1/search", b'{"query": " \\t"}', 422),
        ("POST", "/v1/search", b'{"query": "\\ud800"}', 422),
        ("POST", "/v1/search", b'{"query": "x", "\\udfff": 1}', 422),
        ("POST", "/v1/search", b'{"query": "x", "nope": 1}', 422),
        ("POST", "/v1/search", b'{"query": "x", "filters": {"kinds": ["\\ud800"]}}', 422),
        ("POST", "/v1/search", b'{"query": "x", "filters": {"architectures": ["x"]}}', 422),
        ("POST", "/v1/context", b"{}", 422),
        ("POST", "/v1/context", b'{"query": "x", "max_tokens": 63}', 422),
        ("POST", "/v1/context", b'{"query": "x", "max_tokens": 64, "max_chars": 300}', 422),
        ("POST", "/v1/context", b'{"query": "x", "gpu": "Voodoo 2"}', 422),
        ("POST", "/v1/context", b'{"profile": {"x": Infinity}}', 422),
        ("GET", "/v1/techniques?language=cobol", None, 422),
        ("POST", "/v1/vector_stores/other/search", b'{"query": "x"}', 404),
        ("POST", "/v1/vector_stores/kernel-kb/search", b'{"query": []}', 422),
    ],
)
def test_every_error_is_a_problem_document(client, method, path, body, status):
    answer = client.request(
        method, path, content=body, headers={"Content-Type": "application/json"} if body else {}
    )
    assert answer.status_code == status
    assert_problem(answer)


def assert_problem(answer):
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert set(body) - {"errors"} == {"type", "title", "status", "detail"}
    assert body["status"] == answer.status_code
    assert body["detail"]
    assert "Traceback" not in answer.text
    return body


def test_a_body_that_is_not_declared_as_json_is_told_so(client):
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = client.post("/v1/search", content=b'{"query": "x"}', headers=form)
    assert answer.status_code == 422
    assert assert_problem(answer)["detail"] == (
        "the body is application/x-www-form-urlencoded: send Content-Type: application/json"
    )


@pytest.mark.parametrize(
    "text",
    ["NUL \x00 inside pid swizzling", "pid swizzling \U0001f600", "𝕡id ﷽ swizzling", "a" * 20_000],
)
def test_odd_but_valid_text_is_searched(client, text):
    for path in ("/v1/search", "/v1/context", "/v1/vector_stores/kernel-kb/search"):
        assert client.post(path, json={"query": text}).status_code == 200


TRAVERSALS = [
    "..%2f..%2fetc%2fpasswd", "%252e%252e%252fetc%252fpasswd", "..;/..;/etc/passwd",
    "....//....//etc/passwd", "%2e%2e/%2e%2e/etc/passwd", "..%5c..%5cwindows", "%00", "a%00b",
    "..%c0%af..%c0%afetc", "/etc/passwd", "file:///etc/passwd", "%ff%fe", "a" * 5000,
    "%ed%a0%80", "..", ".", "CURRENT", "'; DROP TABLE chunk; --",
]  # fmt: skip


@pytest.mark.parametrize("name", TRAVERSALS)
def test_ids_name_records_and_never_paths(live, name):
    for path in ("/v1/techniques/", "/v1/kernels/", "/v1/chunks/", "/v1/jobs/"):
        answer = raw_request(live, "GET", path + name)
        assert answer in (404, 400), name
    answer = raw_request(live, "POST", f"/v1/vector_stores/{name}/search", b'{"query": "x"}')
    assert answer in (404, 400, 405), name


def raw_request(server, method, target, body=b""):
    """The status of a request whose target no client library has cleaned up."""
    import socket

    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        head = (
            (
                f"{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            )
            .replace(" TABLE", "%20TABLE")
            .replace("; DROP", ";%20DROP")
            .replace("; --", ";%20--")
        )
        connection.sendall(head.encode() + body)
        answer = b""
        while part := connection.recv(65536):
            answer += part
    status = int(answer.split(b" ", 2)[1])
    if status == 404:
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["status"] == 404
    assert b"root:" not in answer
    return status


def test_every_answer_has_a_request_id_and_keeps_a_given_one(client):
    assert client.get("/healthz").headers["x-request-id"]
    given = client.get("/nowhere", headers={"X-Request-ID": "abc-1.2"})
    assert given.headers["x-request-id"] == "abc-1.2"
    evil = client.get("/healthz", headers={"X-Request-ID": 'x" {"forged": 1}'})
    assert "forged" not in evil.headers["x-request-id"]


def test_metrics_count_requests_and_name_the_generation(own_client):
    own_client.post("/v1/search", json={"query": QUERY})
    own_client.get("/nowhere/at/all")
    text = own_client.get("/metrics").text
    assert 'kb_http_requests_total{method="POST",route="/v1/search",status="200"} 1.0' in text
    assert 'route="unmatched",status="404"' in text
    assert 'kb_searches_total{abstained="false",surface="http"} 1.0' in text
    assert "kb_index_ready 1.0" in text
    assert 'kb_index_info{generation="g' in text


def test_health_and_readiness(client):
    assert client.get("/healthz").json()["status"] == "alive"
    generation = client.get("/v1/index").json()["generation"]
    ready = {"status": "ready", "generation": generation, "problem": None}
    assert client.get("/readyz").json() == ready
