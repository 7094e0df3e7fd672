"""The pages as they are sent: structure, what they show, and that it is what the API answers."""

import json
import re

import pytest
from conftest import QUERY
from markup_checks import assert_confined, assert_well_made, by_id, links, parsed, text_of, texts
from test_endpoints import assert_problem

from kb.records import Chunk
from kb.search.explanation import explain_score
from server.tokens import TokenFile
from server.web.excerpts import excerpt

BROWSER = {"Accept": "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"}
ADDRESSES = [
    "/",
    "/search",
    f"/search?q={QUERY}",
    f"/search?q={QUERY}&kind=kernel&technique=pid-swizzling&architecture=sm_90a&k=3",
    "/search?q=how+to+bake+bread&kind=note",
    "/search?q=x&k=nonsense",
    "/technique/pid-swizzling",
    "/technique/software-pipelining",
    "/technique/no-such",
    "/kernel/swizzled",
    "/kernel/plain",
    "/kernel/no-such",
    "/chunk/no-such",
    "/sources",
    "/docs",
    "/context",
    f"/context?query={QUERY}&profile=%7B%22l2_hit_rate%22%3A30,%22nope%22%3A1%7D&budget=300",
    "/context?query=&budget=2000",
]  # fmt: skip
VERIFIED = (
    "[{gpu: NVIDIA H200, torch: 2.11.0, triton: 3.6.0, date: 2026-11-01, shape: 4096x4096, "
    "dtype: float32, baseline: plain, baseline_ms: 3.0, measured_ms: 2.0, speedup: 1.5, "
    "floor_fraction: 0.8}, "
    "{gpu: NVIDIA H200, torch: 2.11.0, triton: 3.6.0, date: 2026-11-01, shape: 64x64, "
    "dtype: float32, baseline: eager, baseline_ms: 1.0, measured_ms: 1.25, speedup: 0.8}, "
    "{gpu: NVIDIA A100, date: 2026-11-02, shape: 64x64, dtype: float32, baseline: eager, "
    "baseline_ms: 1.0, measured_ms: 0.5, speedup: 2.0}]"
)


@pytest.fixture
def client(lasting_client):
    return lasting_client


def result_ids(document):
    """Ids of the results in their order, each from the link to its place."""
    places = [e for e in document.iter("p") if e.get("class") == "place"]
    return [links(place)[0].removeprefix("/chunk/") for place in places]


def chosen(document, name):
    boxes = [each for each in document.iter("input") if each.get("name") == name]
    return [each.get("value") for each in boxes if each.get("checked") is not None]


def error_line(document):
    return text_of(by_id(document, "error")).strip()


@pytest.mark.parametrize("address", ADDRESSES)
def test_every_page_is_valid_well_made_and_confined(client, address):
    document = parsed(client.get(address))
    assert_well_made(document)
    assert_confined(document)


@pytest.mark.parametrize("address", ["/", f"/search?q={QUERY}", "/context", "/nowhere"])
def test_every_page_forbids_all_but_its_own_style_and_script(client, address):
    headers = client.get(address, headers=BROWSER).headers
    policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
    assert policy["default-src"] == policy["base-uri"] == policy["frame-ancestors"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["form-action"] == "'self'"
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"
    assert "no-cache" in headers["cache-control"]


def test_what_a_page_names_as_its_own_is_there_and_changes_its_address_with_its_content(client):
    document = parsed(client.get("/"))
    own = [each.get("href") for each in document.iter("link")]
    own += [each.get("src") for each in document.iter("script")]
    assert len(own) == 3
    for address in own:
        assert client.get(address).status_code == 200
        assert re.search(r"\?v=[0-9a-f]{12}$", address)
    assert client.get("/static/../mount.py").status_code == 404
    assert client.get("/static/%2e%2e/mount.py").status_code == 404


def test_the_tree_shows_every_bottleneck_technique_and_example(client):
    document = parsed(client.get("/"))
    tree = client.get("/v1/tree").json()["bottlenecks"]
    headings = [text.lower() for text in texts(document, "h2")]
    assert headings == [each["bottleneck"] for each in tree]
    shown = [href for href in links(document) if href.startswith(("/technique/", "/kernel/"))]
    expected = []
    for bottleneck in tree:
        for technique in bottleneck["techniques"]:
            expected.append(f"/technique/{technique['slug']}")
            expected += [f"/kernel/{example['slug']}" for example in technique["examples"]]
    assert shown == expected
    assert "Fewer bytes are moved by pid swizzling." in text_of(document)
    assert "Not measured" in text_of(document)


def test_a_search_page_shows_the_results_of_the_api_in_its_order(client):
    document = parsed(client.get("/search", params={"q": QUERY, "k": 4}))
    results = client.post("/v1/search", json={"query": QUERY, "k": 4}).json()["results"]
    assert result_ids(document) == [each["id"] for each in results]
    items = list(document.iter("article"))
    for item, result in zip(items, results, strict=True):
        shown = " ".join(text_of(item).split())
        source = result["source"]
        place = f"{result['path']}:{result['start_line']}–{result['end_line']}"
        assert place in shown
        assert f"{source['name']}{' ' + source['version'] if source['version'] else ''} · " in shown
        assert f"· {source['licence'] or 'licence unknown'}" in shown
        assert f"{result['kind']} · score {result['score']:.2f}" in shown
        assert {f"/technique/{slug}" for slug in result["techniques"]} <= set(links(item))
        if result["kind"] in {"technique", "kernel"}:
            assert "not measured" in shown


@pytest.mark.parametrize(
    "query",
    [
        QUERY,
        "layer_norm",
        "swizzled_kernel triton matmul on H100",
        "L2 hit rate is 95 % in my cuda matmul",
        "l2 hit rate 30%, pid swizzling, persistent kernel",
    ],
)
def test_the_parts_of_every_score_add_up_to_it_and_each_is_explained(client, query):
    results = client.post("/v1/search", json={"query": query, "explain": True}).json()["results"]
    assert results
    for result in results:
        told = explain_score(result["explanation"])
        assert result["score"] == pytest.approx(min(told.total / told.highest, 1), abs=2e-6)
        assert all(part.meaning for part in (*told.ranks, *told.added)), told
        assert len(told.ranks) + len(told.added) == len(result["explanation"]) - 1
    document = parsed(client.get("/search", params={"q": query}))
    for item, result in zip(document.iter("article"), results, strict=True):
        rows = [texts(row, "th")[0] for row in item.iter("tr")][1:]
        assert set(rows) == set(result["explanation"]) - {"relevance"} | {"score"}


def test_the_page_says_what_a_misspelt_query_was_read_as(client):
    page = client.get("/search", params={"q": "pid swizling"}).text
    assert "The query was read as “pid swizzling”." in page
    assert "was read as" not in client.get("/search", params={"q": "pid swizzling"}).text


def test_every_part_that_the_ranking_may_add_is_explained():
    import inspect

    from kb.search import engine, ranking

    source = inspect.getsource(ranking.Ranker) + inspect.getsource(engine.Searcher)
    names = set(re.findall(r'"([a-z ]+)": ', source)) - {"relevance"}
    assert {"fused", "example matches", "kind", "gates", "source quality"} < names
    told = explain_score(dict.fromkeys(names, 0.5))
    assert {part.name for part in told.added if part.meaning} == names


def test_filters_narrow_a_search_and_stay_chosen(client):
    asked = {"q": QUERY, "kind": ["kernel", "code"], "technique": "pid-swizzling", "k": "5"}
    document = parsed(client.get("/search", params=asked))
    filters = {"kinds": ["kernel", "code"], "techniques": ["pid-swizzling"]}
    wanted = {"query": QUERY, "k": 5, "filters": filters}
    expected = [each["id"] for each in client.post("/v1/search", json=wanted).json()["results"]]
    assert result_ids(document) == expected
    assert expected
    assert chosen(document, "kind") == ["kernel", "code"]
    assert chosen(document, "technique") == ["pid-swizzling"]
    assert by_id(document, "k").get("value") == "5"
    assert by_id(document, "q").get("value") == QUERY


def test_filters_offer_what_the_index_holds(client):
    document = parsed(client.get("/search"))
    offered = {
        name: [e.get("value") for e in document.iter("input") if e.get("name") == name]
        for name in ("kind", "bottleneck", "language", "architecture", "technique", "source")
    }
    assert offered["kind"] == ["technique", "kernel", "code", "doc", "note"]
    assert offered["bottleneck"] == ["memory", "latency", "utilization"]
    assert offered["language"] == ["markdown", "python", "triton"]
    assert offered["architecture"][0] == "sm_80"
    assert offered["technique"] == ["pid-swizzling", "software-pipelining", "persistent-kernel"]
    assert offered["source"] == ["code", "tiny"]


def test_a_filter_value_that_the_index_does_not_know_is_refused_and_kept_in_the_form(client):
    answer = client.get("/search", params={"q": QUERY, "source": "elsewhere"})
    assert answer.status_code == 422
    document = parsed(answer)
    assert chosen(document, "source") == ["elsewhere"]
    assert "no source is called 'elsewhere': the index has code, tiny" in answer.text.replace(
        "&#39;", "'"
    )


def test_a_search_page_tells_what_it_understood_and_how_it_stands_to_the_gates(client):
    document = parsed(client.get("/search", params={"q": "tiles, L2 hit rate is 30%"}))
    (said,) = (text_of(each) for each in document.iter("p") if each.get("class") == "understood")
    assert said == "Understood: L2 hit rate 30 % (lts__t_sector_hit_rate.pct)."
    standing = "your 30 %: meets L2 hit rate < 60 %. Tiles are read again."
    assert standing in [text_of(each) for each in document.iter("li")]


def test_a_search_that_nothing_answers_says_so(client):
    answer = client.get("/search", params={"q": QUERY, "kind": "note"})
    assert answer.status_code == 200
    assert "Nothing relevant" in texts(parsed(answer), "h2")


def test_a_technique_page_shows_its_gates_with_labels_and_full_names(client):
    document = parsed(client.get("/technique/pid-swizzling"))
    rows = [[text_of(cell) for cell in row] for row in document.iter("tr")]
    for sign, value, because in (
        ("<", "60", "Tiles are read again."),
        (">", "90", "They stay in L2."),
    ):
        found = [row for row in rows if row[-1] == because]
        assert len(found) == 1
        assert found[0][0] == "L2 hit ratelts__t_sector_hit_rate.pct"
        assert found[0][1] == f"{sign} {value} %"
    text = " ".join(text_of(document).split())
    assert "Fewer bytes are moved by pid swizzling." in text
    assert "pid swizzling trick" in text
    assert "More registers are needed." in text
    assert "Not measured." in text
    assert "A guide MIT" in text
    assert "https://example.org/guide" in links(document)
    assert texts(document, "h2").count("How (Triton)") == 1


def test_a_technique_page_shows_the_first_examples_code_exactly_and_leads_to_the_others(client):
    document = parsed(client.get("/technique/pid-swizzling"))
    blocks = [text_of(each) for each in document.iter("pre")]
    examples = client.get("/v1/techniques/pid-swizzling").json()["examples"]
    assert len(examples) > 1
    for slug in examples:
        kernel = parsed(client.get(f"/kernel/{slug}"))
        (code,) = [text_of(each) for each in kernel.iter("pre")]
        assert (code in blocks) == (slug == examples[0])
        assert "def kernel_function(x, block=64):" in code
        assert f"/kernel/{slug}" in links(document)


def test_all_measurements_are_shown_losses_too(make_client, corpus, index, cli):
    corpus.technique("pid-swizzling", "memory", examples="[swizzled]", verified=VERIFIED)
    corpus.kernel("swizzled", "pid-swizzling", derived_from="plain", verified=VERIFIED)
    assert cli("ingest", corpus.root).status == 0
    client = make_client(index=index)
    document = parsed(client.get("/kernel/swizzled"))
    assert_well_made(document)
    tables = list(document.iter("table"))
    captions = [text_of(each.find("caption")) for each in tables]
    assert captions == [
        "NVIDIA H200, 2026-11-01PyTorch 2.11.0, Triton 3.6.0",
        "NVIDIA A100, 2026-11-02",
    ]
    rows = [
        [" ".join(text_of(cell).split()) for cell in row]
        for table in tables
        for row in table.find("tbody")
    ]
    assert rows == [
        ["eager", "64x64", "0.80× slower", "–", "1.25", "1", "float32"],
        ["plain", "4096x4096", "1.50×", "80 %", "2", "3", "float32"],
        ["eager", "64x64", "2.00×", "–", "0.5", "1", "float32"],
    ]
    assert "/kernel/plain" in links(document)
    # These are the kernel's: of the technique only a pair that differs in it alone tells.
    technique = client.get("/v1/techniques/pid-swizzling").json()
    assert technique["verified"] == []
    page = " ".join(text_of(parsed(client.get("/technique/pid-swizzling"))).split())
    assert "1.50×" not in page
    assert page.count("Not measured alone: its kernels combine it with others") == 2
    found = " ".join(text_of(parsed(client.get("/search", params={"q": QUERY}))).split())
    assert "measured on NVIDIA H200: 0.80x over eager, 1.50x over plain" in found
    assert "not measured alone: its kernels combine it with others" in found


def test_a_kernel_page_links_what_it_improves_on_and_what_improves_on_it(client):
    assert "/kernel/plain" in links(parsed(client.get("/kernel/swizzled")))
    plain = parsed(client.get("/kernel/plain"))
    assert "/kernel/swizzled" in links(plain)
    assert "Improved by" in texts(plain, "dt")
    assert "Not measured." in text_of(plain)


def test_a_chunk_page_shows_the_chunk_of_the_api(client):
    found = client.post("/v1/search", json={"query": "layer_norm", "filters": {"kinds": ["code"]}})
    chunk = found.json()["results"][0]
    document = parsed(client.get(f"/chunk/{chunk['id']}"))
    (code,) = document.iter("pre")
    assert text_of(code) == chunk["text"].rstrip("\n")
    assert f"{chunk['path']}:{chunk['start_line']}–{chunk['end_line']}" in text_of(document)


def test_the_sources_page_names_sources_but_not_where_they_lie(client, built):
    answer = client.get("/sources")
    rows = [" ".join(text_of(cell).strip() for cell in row) for row in parsed(answer).iter("tr")]
    assert any(row.startswith("tiny 1.2.3 Apache-2.0") for row in rows)
    assert str(built) not in answer.text


CONTEXT = {"query": QUERY, "kernel": "@triton.jit\ndef f(x):\n    return x", "gpu": "H200"}


@pytest.mark.parametrize(("unit", "field"), [("tokens", "max_tokens"), ("characters", "max_chars")])
def test_a_context_page_shows_exactly_what_the_api_answers(client, unit, field):
    profile = {"l2_hit_rate": 30.0, "no_such_metric": 1.0}
    asked = {**CONTEXT, "language": "triton", "max_examples": 1}
    expected = client.post("/v1/context", json={**asked, "profile": profile, field: 700}).json()
    form = {**asked, "profile": json.dumps(profile), "budget": "700", "unit": unit}
    documents = [
        parsed(client.get("/context", params=form)),
        parsed(client.post("/context", data=form)),
    ]
    for document in documents:
        assert text_of(by_id(document, "text")) == expected["text"]
        used = len(expected["text"]) if unit == "characters" else expected["tokens"]
        meter = by_id(document, "used")
        assert (meter.get("max"), meter.get("value")) == ("700", str(used))
        shown = " ".join(text_of(document).split())
        assert f"{used} of 700 {unit}" in shown
        assert f"{len(expected['examples'])} of {expected['examples_available']} example" in shown
        assert "not known metrics: no_such_metric" in shown
        for technique in expected["techniques"]:
            assert technique["reason"] in shown
            assert f"{technique['score']:.2f}" in shown
            assert f"/technique/{technique['slug']}" in links(document)
        assert {f"/chunk/{each}" for each in expected["examples"]} <= set(links(document))
        assert {each["url"] for each in expected["citations"] if each["url"]} <= set(
            links(document)
        )
        assert text_of(by_id(document, "kernel")) == CONTEXT["kernel"]


def test_a_posted_kernel_keeps_its_lines_though_browsers_send_cr_lf(client):
    form = {"kernel": CONTEXT["kernel"].replace("\n", "\r\n"), "budget": "300"}
    document = parsed(client.post("/context", data=form))
    assert text_of(by_id(document, "kernel")) == CONTEXT["kernel"]


def test_a_context_can_be_linked_to_unless_its_address_would_be_too_long(client):
    document = parsed(client.post("/context", data={**CONTEXT, "budget": "300"}))
    (address,) = [href for href in links(document) if href.startswith("/context?")]
    again = parsed(client.get(address))
    assert text_of(by_id(again, "text")) == text_of(by_id(document, "text"))
    document = parsed(client.post("/context", data={**CONTEXT, "kernel": "x = 1\n" * 5000}))
    assert not [href for href in links(document) if href.startswith("/context?")]


def test_a_context_page_takes_what_ncu_prints_and_says_what_it_read(client):
    head = '"ID","Kernel Name","Section Name","Metric Name","Metric Unit","Metric Value"'
    rows = [
        '"0","slow","Speed","Duration","us","12.5"', '"0","slow","Memory","L2 Hit Rate","%","30"',
        '"1","fast","Speed","Duration","us","2.5"', '"1","fast","Memory","L2 Hit Rate","%","95"',
        '"1","fast","Memory","Some Odd Thing","%","1"',
    ]  # fmt: skip
    text = "\r\n".join([head, *rows])
    for name, value, said in (("", "30", "slow takes 83% of the time"), ("fast", "95", "Odd")):
        form = {"query": QUERY, "profile": text, "kernel_name": name}
        shown = text_of(parsed(client.post("/context", data=form)))
        assert said in shown
        asked = {"query": QUERY, "profile": {"l2_hit_rate": float(value), "duration": 12500.0}}
        expected = client.post("/v1/context", json=asked).json()
        assert all(each["reason"] in shown for each in expected["techniques"])
    wrong = client.post("/context", data={"profile": text, "kernel_name": "none"})
    assert "no kernel called 'none': it has slow, fast" in error_line(parsed(wrong))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"query": " "}, "give a problem, a query, a kernel or a profile"),
        ({"query": "x", "budget": "63"}, "budget"),
        ({"query": "x", "budget": "-1"}, "budget"),
        ({"query": "x", "budget": "many"}, "budget"),
        ({"query": "x", "budget": "9" * 5000}, "budget"),
        ({"query": "x", "budget": "1٣"}, "budget"),
        ({"query": "x", "budget": "255", "unit": "characters"}, "budget"),
        ({"query": "x", "budget": "200001"}, "budget"),
        ({"query": "x", "unit": "furlongs"}, "unit"),
        ({"query": "x", "max_examples": "21"}, "max_examples"),
        ({"query": "x", "max_examples": "1.5"}, "max_examples"),
        ({"query": "x", "language": "cobol"}, "language"),
        ({"query": "x", "gpu": "Voodoo 2"}, "unknown GPU 'Voodoo 2'"),
        ({"query": "x", "gpu": "sm_x"}, "sm_x"),
        ({"profile": "{"}, "profile is not JSON or `ncu --csv` output"),
        ({"profile": "[1]"}, "profile must hold one JSON object"),
        ({"profile": '{"l2_hit_rate": "high"}'}, "none of its values is a number"),
        ({"profile": '{"l2_hit_rate": NaN}'}, "none of its values is a number"),
        ({"profile": '{"nope": 3}'}, "'nope' is not a known metric"),
        ({"profile": '{"l2_hit_rate": -3}'}, "a metric cannot be negative"),
        ({"profile": '{"l2_hit_rate": ' + "1" * 5000 + "}"}, "profile"),
        ({"profile": "[" * 100_000}, "profile"),
        ({"profile": '"ID","Process ID"\n'}, "ncu's table has no column 'Kernel Name'"),
        ({"profile": "Section: x\nMetric Name\n"}, "ncu's output has no known metric"),
        ({"query": "x" * 20_001}, "query"),
        ({"kernel": "x" * 200_001}, "kernel"),
    ],
)
def test_a_context_form_that_makes_no_sense_is_answered_in_the_page(client, values, said):
    answer = client.post("/context", data=values)
    assert answer.status_code == 422
    document = parsed(answer)
    assert_well_made(document)
    line = error_line(document)
    assert said in line
    assert "\n" not in line
    assert len(line) < 300


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"k": "0"}, "k"),
        ({"k": "1000000000"}, "k"),
        ({"k": "9" * 5000}, "k"),
        ({"k": "ten"}, "k"),
        ({"kind": "recipe"}, "kind"),
        ({"architecture": "x"}, "'x' is not an architecture"),
        ({"q": "x" * 20_001}, "query"),
    ],
)
def test_a_search_that_makes_no_sense_is_answered_in_the_page(client, values, said):
    answer = client.get("/search", params={"q": QUERY, **values})
    assert answer.status_code == 422
    document = parsed(answer)
    assert_well_made(document)
    assert said in error_line(document)


ODD_VALUES = [
    "", "%00", "%ff%fe", "%ed%a0%80", "a" * 3000, "%F0%9F%98%80", "../../etc/passwd", "' OR 1=1",
]  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        "/search?q=", f"/search?q={QUERY}&kind=", f"/search?q={QUERY}&technique=",
        f"/search?q={QUERY}&bottleneck=", f"/search?q={QUERY}&language=",
        f"/search?q={QUERY}&architecture=", f"/search?q={QUERY}&source=", f"/search?q={QUERY}&k=",
        f"/search?q={QUERY}&nope=", "/context?query=", "/context?kernel=", "/context?profile=",
        f"/context?query={QUERY}&gpu=", f"/context?query={QUERY}&language=",
        f"/context?query={QUERY}&budget=", f"/context?query={QUERY}&unit=",
        f"/context?query={QUERY}&max_examples=", "/technique/", "/kernel/", "/chunk/",
    ],
)  # fmt: skip
def test_no_value_of_any_parameter_breaks_a_page(client, name):
    for value in ODD_VALUES:
        answer = client.get(name + value, headers=BROWSER)
        assert answer.status_code in (200, 404, 422), value
        document = parsed(answer)
        assert_well_made(document)
        assert_confined(document)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"\xff\xfe=%ff&query=%ed%a0%80", "application/x-www-form-urlencoded"),
        (b"query=x", "text/plain"),
        (b"{}", "application/json"),
        (b"--b\r\nbroken", "multipart/form-data; boundary=b"),
        (
            b'--b\r\nContent-Disposition: form-data; name="query"; filename="f"\r\n\r\nx\r\n--b--',
            "multipart/form-data; boundary=b",
        ),
    ],
)
def test_a_form_of_another_kind_or_broken_is_no_error_of_the_server(client, body, kind):
    answer = client.post("/context", content=body, headers={"Content-Type": kind})
    assert answer.status_code in (200, 400, 422)
    parsed(answer)


def test_what_is_not_there_is_a_page_for_browsers_and_a_problem_for_programs(client):
    for address in ("/nowhere", "/technique", "/static/nothing.css"):
        answer = client.get(address, headers=BROWSER)
        assert answer.status_code == 404
        document = parsed(answer)
        assert_well_made(document)
        assert {"/", "/sources", "/docs"} <= set(links(document))
        assert_problem(client.get(address))
    for address in ("/v1/nowhere", "/v1/techniques/none"):
        assert_problem(client.get(address, headers=BROWSER))
    answer = client.post("/search", headers=BROWSER)
    assert answer.status_code == 405
    parsed(answer)


@pytest.mark.parametrize("address", ["/technique/none", "/kernel/none", "/chunk/none"])
def test_an_unknown_name_is_a_404_that_says_where_to_look(client, address):
    answer = client.get(address)
    assert answer.status_code == 404
    assert "/" in links(parsed(answer))


def test_once_a_token_exists_every_page_needs_it(own_client, tmp_path):
    _, secret = TokenFile(tmp_path / "tokens.json").create("read")
    addresses = ["/", "/search", "/technique/pid-swizzling", "/context", "/sources", "/nowhere"]
    for address in [*addresses, "/static/style.css"]:
        refused = own_client.get(address, headers=BROWSER)
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"].startswith("Basic")
        assert "token" in refused.json()["detail"]
    assert own_client.get("/", auth=("me", secret)).status_code == 200


def test_a_missing_index_is_a_503_page_that_says_what_to_do(make_client, tmp_path):
    client = make_client(index=tmp_path / "none")
    for address in ("/", "/search", f"/search?q={QUERY}", "/sources", "/technique/x"):
        answer = client.get(address)
        assert answer.status_code == 503
        assert "retry-after" in answer.headers
        document = parsed(answer)
        assert_well_made(document)
        assert "kb ingest" in text_of(document)


def test_a_page_follows_a_new_generation(make_client, filled, tmp_path, cli):
    client = make_client(index=filled)
    assert "zebra" not in client.get("/sources").text
    (tmp_path / "zebra").mkdir()
    (tmp_path / "zebra" / "stripes.md").write_text("# Stripes\n\nHow a zebra got its stripes.\n")
    assert cli("ingest", tmp_path / "zebra").status == 0
    assert "zebra" in client.get("/sources").text


def test_pages_answer_head_requests_and_are_no_part_of_the_api(client):
    assert client.head("/").status_code == 200
    paths = client.get("/openapi.json").json()["paths"]
    assert all(path.startswith(("/v1/", "/healthz", "/readyz", "/metrics")) for path in paths)


def test_searches_and_contexts_of_pages_are_counted(own_client):
    own_client.get("/search", params={"q": QUERY})
    own_client.get("/context", params={"query": QUERY})
    text = own_client.get("/metrics").text
    assert 'kb_searches_total{abstained="false",surface="web"} 2.0' in text
    assert 'route="/technique/{slug}"' not in text


def chunk_of(text, **changed):
    values = {
        "id": "0" * 24, "source": "tiny", "path": "a.md", "kind": "technique", "title": "A",
        "text": text, "language": "markdown", "start_line": 1, "end_line": 2,
    } | changed  # fmt: skip
    return Chunk(**values)


def test_an_excerpt_is_never_a_heading_alone_and_never_ends_with_one():
    long = "word " * 200
    shown = excerpt(chunk_of(f"## When it helps\n\n{long}\n\nMore."))
    assert "word word" in shown.html
    assert not shown.is_whole
    shown = excerpt(chunk_of(f"First.\n\n## When it helps\n\n{long}"))
    assert "First." in shown.html
    assert "When it helps" not in shown.html


def test_code_in_the_description_of_a_kernel_is_shown_as_code():
    card = chunk_of("A\n\nIt shows `tl.swizzle2d` & more.", section="card", kind="kernel")
    assert "<code>tl.swizzle2d</code> &amp; more." in excerpt(card).html
