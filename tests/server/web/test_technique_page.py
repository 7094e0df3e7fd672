"""What a technique's page puts where: what it is first, names as links, metrics that can break."""

import html5lib
import pytest
from markup_checks import assert_well_made, links, parsed, text_of, texts

from kb.corpus.entries import TECHNIQUE_SECTIONS
from server.web.markup import first_section, render_markdown, with_code
from server.web.words import breakable, figures

RECORD = (
    "[{gpu: NVIDIA H200, date: 2026-11-01, shape: swizzled 64x64, dtype: float32, baseline: plain, "
    "baseline_ms: 3.0, measured_ms: 2.0, speedup: 1.5}]"
)
ENTRIES = {"pid-swizzling": "/technique/pid-swizzling"}


@pytest.fixture
def document(make_client, corpus, index, cli):
    path = corpus.technique("pid-swizzling", "memory", examples="[swizzled]", verified=RECORD)
    text = path.read_text("utf-8")
    path.write_text(text.replace("## Pitfalls\n", "## Pitfalls\n\nSee `plain`.\n"), "utf-8")
    corpus.kernel("swizzled", "pid-swizzling", derived_from="plain", verified=RECORD)
    assert cli("ingest", corpus.root).status == 0
    answer = make_client(index=index).get("/technique/pid-swizzling")
    return parsed(answer)


def test_what_it_is_comes_first_and_the_contents_follow_the_page(document):
    assert_well_made(document)
    headings = texts(document, "h2")
    what, *rest = TECHNIQUE_SECTIONS
    gates = ["When it applies", "When to avoid it", "Risks", "Measurements"]
    assert headings == [what, *gates, *rest, "Examples", "Sources"]
    (contents,) = [each for each in document.iter("nav") if each.get("class") == "contents"]
    assert texts(contents, "a") == headings
    ids = {each.get("id") for each in document.iter("h2")}
    assert {address.removeprefix("#") for address in links(contents)} == ids


def test_names_of_entries_and_measured_kernels_lead_to_their_pages(document):
    (said,) = [each for each in document.iter("p") if text_of(each) == "See plain."]
    assert links(said) == ["/kernel/plain"]
    (cell,) = [each for each in document.iter("td") if text_of(each) == "swizzled 64x64"]
    assert links(cell) == ["/kernel/swizzled"]


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("`pid-swizzling`", ["/technique/pid-swizzling"]),
        ("`pid-swizzling2` and pid-swizzling", []),
        ("[`pid-swizzling`](https://example.org)", ["https://example.org"]),
        ("[a](https://example.org) `pid-swizzling`", ["https://example.org", *ENTRIES.values()]),
        ("```\npid-swizzling\n```", []),
    ],
)
def test_only_code_that_is_exactly_a_name_becomes_a_link_and_never_within_one(text, addresses):
    html = render_markdown(text, entries=ENTRIES)
    document = html5lib.HTMLParser(strict=False, namespaceHTMLElements=False).parse(html)
    assert links(document) == addresses


@pytest.mark.parametrize(
    ("text", "opening"),
    [
        ("## A\n\na\n\n## B\n\nb", "## A\n\na\n"),
        ("## A\n\n```\n## not B\n```\n\n## B", "## A\n\n```\n## not B\n```\n"),
        ("## A\n\n### a\n", "## A\n\n### a\n"),
        ("no heading", "no heading"),
    ],
)
def test_the_first_section_ends_at_the_second_heading_and_nothing_is_lost(text, opening):
    first, rest = first_section(text)
    assert first == opening
    assert "\n".join(filter(None, (first, rest))) == text


def test_a_metric_breaks_between_its_parts_only_and_stays_text():
    assert breakable("sm__a_b.avg.pct") == "sm__<wbr>a_<wbr>b.<wbr>avg.<wbr>pct"
    assert breakable("<a_b>") == "&lt;a_<wbr>b&gt;"


@pytest.mark.parametrize(
    ("value", "shown"),
    [(100_000_000, "100,000,000"), (8_000, "8,000"), (9_999.6, "10,000"), (0.33333, "0.3333")],
)
def test_a_large_bound_is_written_out(value, shown):
    assert figures(value) == shown


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("an `a` or `f` target", "an <code>a</code> or <code>f</code> target"),
        ("`<script>` & <b>", "<code>&lt;script&gt;</code> &amp; &lt;b&gt;"),
        ("one ` alone, *no* markup", "one ` alone, *no* markup"),
    ],
)
def test_one_line_of_text_has_code_between_backticks_and_no_other_markup(text, html):
    assert str(with_code(text)) == html
