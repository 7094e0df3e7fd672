"""Read pages as a browser does, and find what should not be in them."""

import itertools

import html5lib

# Elements that load, run or submit something, with what ours are allowed to be.
_NEVER = {"iframe", "object", "embed", "base", "style", "img", "audio", "video", "applet"}
# What a drawing consists of: shapes and words, nothing that loads or links.
_DRAWN = {"svg", "title", "desc", "rect", "text", "polyline", "circle"}
_NO_LABEL = {"hidden", "submit", "button"}


def parsed(answer):
    """The document of an answer. Any parse error of the HTML standard fails."""
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    parser = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False)
    document = parser.parse(answer.text)
    for element in document.iter():
        if isinstance(element.tag, str):  # elements of SVG stay in its namespace
            element.tag = element.tag.rpartition("}")[2]
    return document


def text_of(element):
    """Text content."""
    return "".join(element.itertext())


def by_id(document, name):
    found = [each for each in document.iter() if each.get("id") == name]
    assert len(found) == 1, name
    return found[0]


def texts(document, tag):
    return [text_of(each).strip() for each in document.iter(tag)]


def links(document):
    return [each.get("href") for each in document.iter("a")]


def assert_confined(document):
    """Nothing in the page runs or loads but this server's own style sheet, script and icon."""
    figures = [each for each in document.iter("figure") if each.get("class") == "drawn"]
    drawings = [drawing for figure in figures for drawing in figure.findall("svg")]
    assert drawings == list(document.iter("svg"))
    for drawing in drawings:
        assert {each.tag for each in drawing.iter()} <= _DRAWN
        assert drawing.get("role") == "img"
    for element in document.iter():
        if not isinstance(element.tag, str):
            continue
        assert element.tag not in _NEVER, element.tag
        for name, value in element.attrib.items():
            assert not name.startswith("on"), (element.tag, name)
            assert name not in {"style", "srcset", "background", "formaction"}, name
            if name == "src" or (name == "href" and element.tag == "link"):
                assert value.startswith("/static/"), value
            if name == "action":
                assert value in {"/search", "/context"}, value
        if element.tag == "script":
            assert element.get("src", "").startswith("/static/page.js?v=")
            assert not text_of(element)
        if element.tag == "meta":
            assert element.get("http-equiv") is None
        if element.tag == "a":
            assert element.get("href").startswith(("/", "#", "http://", "https://")), element.attrib
            assert not element.get("href").startswith("//")


def assert_well_made(document):
    """Landmarks, one main heading, no skipped level, labels, and ids that name one thing."""
    assert document.get("lang") == "en"
    assert document.find(".//title").text.strip()
    assert len(list(document.iter("main"))) == 1
    first_link = next(document.iter("a"))
    assert first_link.get("href") == "#main"
    levels = [int(e.tag[1]) for e in document.iter() if e.tag in {f"h{n}" for n in range(1, 7)}]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    ids = [each.get("id") for each in document.iter() if each.get("id")]
    assert len(ids) == len(set(ids)), ids
    targets = [href[1:] for href in links(document) if href.startswith("#")]
    assert set(targets) <= set(ids)
    labelled = {each.get("for") for each in document.iter("label")}
    inside = {id(field) for label in document.iter("label") for field in label.iter()}
    for tag in ("input", "select", "textarea", "meter"):
        for field in document.iter(tag):
            if field.get("type") not in _NO_LABEL:
                assert field.get("id") in labelled or id(field) in inside, field.attrib
    for table in document.iter("table"):
        assert all(cell.get("scope") for cell in table.iter("th")), "a heading cell of no scope"
