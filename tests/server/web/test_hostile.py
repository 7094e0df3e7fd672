"""Whatever a source says, its pages run nothing, load nothing and link only to the web."""

import html5lib
import pytest
from conftest import opened
from hypothesis import given, settings
from hypothesis import strategies as st
from markup_checks import assert_confined, assert_well_made, links, parsed, text_of
from support import TinyCorpus

from ingest.pipeline import Request, ingest
from kb.embedders import load_embedder
from server.web.markup import code_block, highlighted, render_markdown, web_url

ATTACK = "<script>window.hit = 1</script><img src=x onerror=alert(1)>\"'</p>{{7*7}}"
YAML = "'" + ATTACK.replace("'", "''") + "'"
BODY = f"""\
{ATTACK}

<script>alert(1)</script>

<iframe src="https://evil.example"></iframe>

[click](javascript:alert(1)) [click](JaVaScRiPt:alert(1)) [click](data:text/html,x)
[click](vbscript:x) [click](//evil.example) [click](/v1/tree) [click](\x01javascript:alert(1))
[click](java&#115;cript:alert(1)) <javascript:alert(1)> [ref] ![image](https://evil.example/x.png)
[good](https://example.org/?a=<b>&"c")

[ref]: javascript:alert(1)

```"><script>alert(1)</script>
{ATTACK}
```

| a | {ATTACK} |
|:-:|--:|
| 1 | [x](javascript:alert(1)) |

### {ATTACK}
"""
CODE = f'''\
def layer_norm(x):
    """{ATTACK}</code></pre><script>alert(1)</script>"""
    mean = x.mean(-1, keepdim=True)  # {ATTACK}
    return (x - mean) * "</textarea><svg onload=alert(1)>"
'''


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """An index of a corpus and a folder of code whose authors mean harm."""
    place = tmp_path_factory.mktemp("hostile")
    corpus = TinyCorpus(place / "corpus")
    gate = f"[{{metric: l2_hit_rate, op: '<', value: 60, because: {YAML}}}]"
    technique = corpus.technique(
        "pid-swizzling", "memory", title=YAML, aliases=f"[{YAML}]", when=gate, avoid_when=gate,
        effect=YAML, risks=f"[{YAML}]", examples="[swizzled]",
        sources=f"[{{title: {YAML}, url: 'https://x.example/\"><script>', licence: {YAML}}}]",
    )  # fmt: skip
    body = technique.read_text().replace("## When it helps\n", f"## When it helps\n\n{BODY}\n")
    technique.write_text(body)
    kernel = corpus.kernel("swizzled", "pid-swizzling", title=YAML)
    kernel.write_text(kernel.read_text().replace("TUNABLES =", f"# {ATTACK}\nTUNABLES ="))
    version = "'1<script>'"
    corpus.write("corpus.yaml", f"name: tiny\nversion: {version}\nlicence: {YAML}\n")
    code = place / "code<script>alert(1)<"
    code.mkdir()
    (code / "<img src=x onerror=alert(1)>.py").write_text(CODE)
    (code / "notes.md").write_text(f"# {ATTACK}\n\nHow rows are normalised.\n\n{BODY}")
    sources = [Request(corpus.root), Request(code, name="code")]
    assert ingest(sources, place / "index", load_embedder()).published
    return place / "index"


@pytest.fixture(scope="module")
def client_on_hostile(tmp_path_factory, hostile):
    with opened(tmp_path_factory.mktemp("client"), index=hostile) as client:
        yield client


def addresses(client):
    """Every page that shows what the hostile sources say."""
    found = ["/", "/sources", "/technique/pid-swizzling", "/kernel/swizzled", "/kernel/streams"]
    for query in ("all about pid swizzling trick", "layer_norm rows normalised", ATTACK):
        body = client.post("/v1/search", json={"query": query, "k": 50}).json()
        found += [f"/chunk/{each['id']}" for each in body["results"]]
    return found


def test_no_page_of_a_hostile_source_is_anything_but_text(client_on_hostile):
    seen = set()
    for address in dict.fromkeys(addresses(client_on_hostile)):
        document = parsed(client_on_hostile.get(address))
        assert_well_made(document)
        assert_confined(document)
        if "window.hit = 1" in text_of(document):
            seen.add(address.split("/")[1])
        assert "49" not in text_of(document).split()
    assert seen >= {"", "technique", "kernel", "chunk"}


@pytest.mark.parametrize("query", ["pid swizzling", "layer_norm rows normalised", ATTACK])
def test_no_results_of_a_hostile_source_are_anything_but_text(client_on_hostile, query):
    for address, name in (("/search", "q"), ("/context", "query"), ("/context", "kernel")):
        answer = client_on_hostile.get(address, params={name: query})
        assert answer.status_code == 200
        document = parsed(answer)
        assert_confined(document)
        assert "window.hit = 1" in text_of(document) or query not in text_of(document)


@pytest.mark.parametrize("name", ["q", "kind", "technique", "language", "source", "k"])
def test_what_was_asked_is_echoed_as_text(client_on_hostile, name):
    answer = client_on_hostile.get("/search", params={"q": "pid swizzling", name: ATTACK})
    document = parsed(answer)
    assert_confined(document)
    values = [each.get("value") for each in document.iter("input")]
    assert ATTACK in values


@pytest.mark.parametrize(
    "name", ["query", "kernel", "profile", "gpu", "language", "budget", "unit", "max_examples"]
)
def test_what_a_context_form_says_is_echoed_as_text(client_on_hostile, name):
    for value in (ATTACK, "</textarea><script>alert(1)</script>", "\n\n<x"):
        answer = client_on_hostile.post("/context", data={"query": "pid swizzling", name: value})
        document = parsed(answer)
        assert_confined(document)
        if name in {"query", "kernel", "profile"}:
            (field,) = [each for each in document.iter("textarea") if each.get("name") == name]
            # A browser drops the first line end within a text area, as the parser does.
            assert text_of(field) in (value, value.removeprefix("\n"))


def test_a_name_in_an_address_is_not_echoed_as_markup(client):
    for address in ("/technique/", "/kernel/", "/chunk/", "/"):
        document = parsed(client.get(address + ATTACK, headers={"Accept": "text/html"}))
        assert_confined(document)


def test_the_body_keeps_what_is_harmless(client_on_hostile):
    document = parsed(client_on_hostile.get("/technique/pid-swizzling"))
    text = text_of(document)
    assert "[click](javascript:alert(1))" in text
    assert '<iframe src="https://evil.example"></iframe>' in text
    outward = [href for href in links(document) if href.startswith("http")]
    assert any(href.startswith("https://example.org/?a=") for href in outward)
    by_rel = [each for each in document.iter("a") if each.get("href").startswith("http")]
    assert all("noopener" in each.get("rel") for each in by_rel)


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)", "JAVASCRIPT:alert(1)", " javascript:alert(1)", "data:text/html,x",
        "vbscript:x", "//evil.example", "/v1/tree", "file:///etc/passwd", "http:evil.example",
        "https://", "https:///x", "java\tscript:alert(1)", "\x00https://x.example", "", None,
    ],
)  # fmt: skip
def test_only_addresses_of_the_web_are_links(url):
    assert web_url(url) is None
    assert "href" not in render_markdown(f"[x]({url}) <{url}>")


_PIECES = st.sampled_from(
    [
        "<script>", "</script>", "<img src=x onerror=y>", "[a](", "](", ")", "javascript:", "http://a",
        "`", "```", "~~~html\n", "\n", "\n\n", "# ", "\n| a |\n|:-:|\n", "> ", "- ", "&lt;",
        "&#x6a;",
        "<!--", "-->", "<![CDATA[", "<a href=", "style=", '"', "'", "*", "_", "\\", "![", "[r]: ",
        "    ", "\x00", "</pre></code></div>", "é",
    ]
)  # fmt: skip
_ALLOWED = {
    "html": set(), "head": set(), "body": set(), "p": {"class"}, "em": set(), "strong": set(),
    "code": set(), "pre": {"tabindex", "role", "aria-label"}, "span": {"class"}, "hr": set(),
    "div": {"class", "tabindex", "role", "aria-label"}, "button": {"type", "class", "hidden"},
    "h1": set(), "h2": set(), "h3": set(), "h4": set(), "h5": set(), "h6": set(), "br": set(),
    "ul": set(), "ol": {"start"}, "li": set(), "blockquote": set(), "a": {"href", "rel", "title"},
    "table": set(), "thead": set(), "tbody": set(), "tr": set(), "th": {"scope"}, "td": set(),
}  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(_PIECES | st.text(max_size=8), max_size=25).map("".join))
def test_no_markdown_makes_an_element_or_attribute_that_is_not_allowed(text):
    for below in (1, 2, None):
        document = html5lib.parse(render_markdown(text, below), namespaceHTMLElements=False)
        for element in document.iter():
            assert element.tag in _ALLOWED, element.tag
            assert set(element.attrib) <= _ALLOWED[element.tag], element.attrib
            if element.get("href"):
                assert element.get("href").lower().startswith(("http://", "https://"))


@settings(max_examples=150, deadline=None)
@given(
    st.lists(_PIECES | st.text(max_size=20), max_size=20).map("".join),
    st.sampled_from(["python", "triton", "cuda", "cpp", "bash", "console", "json", "unheard-of"]),
)
def test_highlighted_code_is_the_code(code, language):
    # Line ends and NUL are what the HTML parser itself changes.
    code = code.replace("\r", "").replace("\x00", "")
    document = html5lib.parse(f"<p>{highlighted(code, language)}</p>", namespaceHTMLElements=False)
    assert text_of(document.find(".//p")) == code
    assert {each.tag for each in document.iter()} <= {"html", "head", "body", "p", "span"}


def test_a_fence_in_a_language_that_is_not_on_the_list_loads_no_lexer():
    import sys

    text = render_markdown("```html+php\n<?php echo 1 ?>\n```")
    assert "<span" not in text
    assert "pygments.lexers.templates" not in sys.modules


def test_very_long_code_is_shown_plain_and_whole():
    code = "x = 1  # a comment\n" * 6_000
    shown = code_block(code, "python")
    assert "<span" not in shown
    assert shown.count("# a comment") == 6_000
