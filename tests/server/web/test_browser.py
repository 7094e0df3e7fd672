"""The pages in headless Chromium: keyboard, no JavaScript, both themes, phone width, copying."""

import time

import pytest
from axe_playwright_python.sync_playwright import Axe
from chromium import browser
from live import serving_here
from playwright.sync_api import expect
from test_hostile import hostile

__all__ = ["browser", "hostile"]

DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 360, "height": 740}
QUERY = "my matmul rereads the same tiles from DRAM and L2 hit rate is 30%"
CONTEXT = "/context?query=matmul+on+H100&profile=%7B%22l2_hit_rate%22%3A30%7D&budget=1200"
PAGES = {
    "tree": "/",
    "search": f"/search?q={QUERY}",
    "filters": "/search?q=matmul&kind=kernel",
    "nothing": "/search?q=how+to+bake+bread",
    "technique": "/technique/coalesced-access",
    "kernel": "/kernel/nvfp4-quantize-cuda",
    "context": CONTEXT,
    "wrong": "/context?budget=3",
    "sources": "/sources",
    "api": "/docs",
    "missing": "/nowhere",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory, shipped_index):
    """A live server over the shipped corpus."""
    with serving_here(shipped_index, tmp_path_factory.mktemp("site")) as server:
        yield server.url


@pytest.fixture
def visit(browser, site):
    """Opens pages in a context of given settings; what goes wrong in them fails the test."""
    contexts, troubles = [], []

    def open_page(address="/", root=site, **settings):
        context = browser.new_context(**{"viewport": DESKTOP, **settings})
        contexts.append(context)
        page = context.new_page()

        def hear(said):
            # A server that refuses a request closes its connection, which may cross the browser's
            # next request on it; the browser tries again by itself.
            if root == site or "ERR_CONNECTION_RESET" not in said.text:
                troubles.append(f"{page.url}: {said.text}")

        page.on("console", hear)
        page.on("pageerror", lambda error: troubles.append(f"{page.url}: {error}"))
        page.on("dialog", lambda dialog: troubles.append(f"{page.url}: {dialog.message}"))
        page.on(
            "request",
            lambda asked: asked.url.startswith(root + "/") or troubles.append(asked.url),
        )
        page.goto(root + address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    # Chromium itself reports the status of the page that is missing or wrong on purpose.
    assert [
        each for each in troubles if "the server responded with a status of 4" not in each
    ] == []


def focused(page):
    """What has the keyboard: its tag and text or name."""
    return page.evaluate(
        "(() => { const e = document.activeElement;"
        " return [e.tagName.toLowerCase(), (e.name || e.textContent || '').trim()]; })()"
    )


def tab_to(page, tag, text, limit=200):
    """Press Tab until an element is reached; every stop on the way has to be visible."""
    for _ in range(limit):
        page.keyboard.press("Tab")
        assert page.evaluate(
            "(() => { const e = document.activeElement; const s = getComputedStyle(e);"
            " return s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 1; })()"
        ), focused(page)
        found = focused(page)
        if found[0] == tag and found[1].startswith(text):
            return
    pytest.fail(f"Tab never reached {tag} {text}")


def is_wider_than_its_window(page):
    return page.evaluate(
        "document.scrollingElement.scrollWidth > document.scrollingElement.clientWidth"
    )


# The dark theme changes colours alone, and a phone what fits and what can be reached: there, only
# the rules about these are asked again.
COLOURS = ["color-contrast", "link-in-text-block"]
REACH = ["scrollable-region-focusable", "target-size", "meta-viewport", "frame-focusable-content"]
# To write down each element that is as it should be takes longer than to look at them.
ONLY_WRONG = {"resultTypes": ["violations"]}
ONLY_COLOURS = ONLY_WRONG | {"runOnly": {"type": "rule", "values": COLOURS}}
ONLY_REACH = ONLY_WRONG | {"runOnly": {"type": "rule", "values": REACH}}
ALL_BUT_COLOURS = ONLY_WRONG | {"rules": {rule: {"enabled": False} for rule in COLOURS}}
# Looking at colours takes longest, and most elements are like others: of those whose classes are
# the same, also above and below them, three stay, so that odd and even ones do.
THIN = """() => {
  const name = e => e.tagName + "." + e.getAttribute("class"), seen = {};
  for (const e of document.querySelectorAll("body *")) {
    if (!e.isConnected) continue;
    const above = [];
    for (let at = e; at; at = at.parentElement) above.push(name(at));
    const below = new Set([...e.querySelectorAll("*")].map(name));
    const key = [...above, "|", ...[...below].sort()].join(" ");
    seen[key] = (seen[key] || 0) + 1;
    if (seen[key] > 3) e.remove();
  }
}"""


@pytest.mark.parametrize(
    ("viewport", "scheme", "asked"),
    [
        (DESKTOP, "light", [ALL_BUT_COLOURS, ONLY_COLOURS]),
        (DESKTOP, "dark", [ONLY_COLOURS]),
        (PHONE, "light", [ONLY_REACH]),
    ],
    ids=["desktop-light", "desktop-dark", "phone-light"],
)
def test_every_page_is_accessible_and_fits_its_window(visit, viewport, scheme, asked):
    page = visit(viewport=viewport, color_scheme=scheme, bypass_csp=True)
    root = page.url.rstrip("/")
    for name, address in PAGES.items():
        page.goto(root + address)
        page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        assert not is_wider_than_its_window(page), name
        for options in asked:
            if options is ONLY_COLOURS:
                page.evaluate(THIN)
            found = Axe().run(page, options=options)
            assert found.violations_count == 0, f"{name}: {found.generate_report()}"


def test_the_page_follows_the_preferred_colours(visit):
    def brightness(page):
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(int(part) for part in colour.strip("rgb()").split(",")) / 3

    assert brightness(visit(color_scheme="light")) > 200
    assert brightness(visit(color_scheme="dark")) < 60


def test_long_code_scrolls_inside_itself(visit):
    page = visit(PAGES["kernel"], viewport=PHONE)
    code = page.locator(".code pre").first
    assert code.evaluate("e => e.scrollWidth > e.clientWidth")
    code.focus()
    page.keyboard.press("ArrowRight")
    deadline = time.monotonic() + 10
    while not code.evaluate("e => e.scrollLeft"):
        assert time.monotonic() < deadline
        page.wait_for_timeout(50)


def test_a_line_of_120_characters_of_code_fits_a_wide_window(visit):
    page = visit(PAGES["technique"], viewport={"width": 1440, "height": 900})
    code = page.locator(".code pre").first
    code.evaluate("e => { e.firstChild.textContent = 'x'.repeat(120); }")
    assert code.evaluate("e => e.scrollWidth <= e.clientWidth")


def test_no_code_lies_under_its_copy_button_on_a_phone(visit):
    page = visit(PAGES["technique"], viewport=PHONE)
    block = page.locator(".code").first
    expect(block.get_by_role("button")).to_be_visible()
    overlap = "e => e.querySelector('.copy').getBoundingClientRect().bottom - " + (
        "e.querySelector('code').getClientRects()[0].top"
    )
    assert block.evaluate(overlap) <= 0


def test_the_keyboard_alone_searches_and_opens_a_result(visit):
    page = visit("/")
    page.keyboard.press("Tab")
    assert focused(page) == ["a", "Skip to content"]
    assert page.get_by_text("Skip to content").bounding_box()["y"] >= 0
    page.keyboard.press("Enter")
    tab_to(page, "input", "q", limit=1)
    page.keyboard.type("pid swizzling")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search?q=pid+swizzling")
    tab_to(page, "summary", "Filters")
    page.keyboard.press("Enter")
    tab_to(page, "input", "kind")
    page.keyboard.press("Space")
    tab_to(page, "button", "Apply")
    page.keyboard.press("Enter")
    page.wait_for_url("**kind=technique**")
    tab_to(page, "a", "Program-id swizzling")
    page.keyboard.press("Enter")
    page.wait_for_url("**/technique/pid-swizzling")
    assert page.locator("h1").inner_text().startswith("Program-id swizzling")


def test_the_keyboard_reaches_why_a_result_scored_as_it_did(visit):
    page = visit(PAGES["search"])
    tab_to(page, "summary", "Why this score")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Match by words and match by meaning").first).to_be_visible()


def test_all_of_it_works_without_javascript(visit):
    page = visit("/", java_script_enabled=False)
    page.get_by_text("3 examples").first.click()
    expect(page.get_by_role("link", name="Transpose").first).to_be_visible()
    page.get_by_role("searchbox").fill("split-k for skinny matrices")
    page.get_by_role("button", name="Search").click()
    page.get_by_role("link", name="Split-K decomposition", exact=True).click()
    expect(page.get_by_role("heading", name="When it applies")).to_be_visible()
    expect(page.locator(".code code span").first).to_be_visible()
    assert page.locator("button.copy").count() > 0
    assert not page.locator("button.copy:visible").count()
    page.get_by_role("link", name="Context", exact=True).click()
    page.get_by_label("Query").fill("split-k")
    page.get_by_label("Kernel source").fill("@triton.jit\ndef f(x):\n    pass")
    page.get_by_label("Budget").fill("400")
    page.get_by_role("button", name="Build context").click()
    assert "of 400 tokens" in page.locator(".budget").inner_text()
    assert "Split-K decomposition" in page.locator("#text").inner_text()
    assert page.get_by_label("Kernel source").input_value().startswith("@triton.jit\ndef f(x):")


def test_a_copy_button_copies_exactly_the_code(visit):
    page = visit("/kernel/matmul-swizzled", permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy").click()
    page.get_by_role("button", name="Copied").wait_for()
    assert page.locator("#said").inner_text() == "Copied"
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == page.locator(".code code").text_content()
    assert "def kernel_function(" in copied
    page.get_by_role("button", name="Copy", exact=True).wait_for()


def test_a_copy_button_also_works_where_a_page_gets_no_clipboard(visit):
    page = visit("/")
    page.add_init_script("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    page.goto(page.url + "kernel/matmul-swizzled")
    page.get_by_role("button", name="Copy").click()
    page.get_by_role("button", name="Copied").wait_for()
    field = page.get_by_role("searchbox")
    field.focus()
    page.keyboard.press("Control+V")
    assert "import triton" in field.input_value()


def test_the_context_page_answers_what_is_wrong_and_keeps_what_was_typed(visit):
    page = visit("/context")
    page.get_by_label("Query").fill("matmul")
    page.get_by_label("Budget").fill("12")
    page.get_by_role("button", name="Build context").click()
    assert "budget" in page.get_by_role("alert").inner_text()
    assert page.get_by_label("Query").input_value() == "matmul"
    assert page.get_by_label("Budget").input_value() == "12"


def test_nothing_of_a_hostile_source_runs(visit, hostile, tmp_path):
    with serving_here(hostile, tmp_path) as server:
        page = visit("/", root=server.url)
        for address in (
            "/sources", "/technique/pid-swizzling", "/kernel/swizzled",
            "/search?q=layer_norm+rows+normalised", "/search?q=<script>window.hit=1</script>",
            "/context?query=pid+swizzling&budget=4000",
        ):  # fmt: skip
            page.goto(server.url + address)
            assert page.evaluate("window.hit") is None
            assert "<script>" in page.locator("body").inner_text() + page.content()
        page.goto(server.url + "/technique/pid-swizzling")
        assert "<script>window.hit = 1</script>" in page.locator("h1").inner_text()
        for link in page.get_by_role("link").all():
            assert not (link.get_attribute("href") or "").lower().startswith("javascript")
        assert not is_wider_than_its_window(page)
        page.close()  # before its server


def test_a_server_with_tokens_lets_a_browser_in_with_one_as_password(visit, built, tmp_path):
    from server.tokens import TokenFile

    _, secret = TokenFile(tmp_path / "tokens.json").create("read")
    with serving_here(built / "index", tmp_path) as server:
        page = visit("/", root=server.url, http_credentials={"username": "me", "password": secret})
        page.get_by_role("searchbox").fill("pid swizzling")
        page.get_by_role("button", name="Search").click()
        expect(page.get_by_role("link", name="All about pid swizzling").first).to_be_visible()
        page.close()  # before its server
