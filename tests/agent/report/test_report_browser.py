"""The report in headless Chromium: both themes, phone width, no script, nothing fetched."""

from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from chromium import browser
from example_runs import HOSTILE, whole_run

from agent.report.report import write_report

__all__ = ["browser"]


@pytest.fixture(scope="module")
def page_file(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("report") / "run"
    whole_run(root, HOSTILE)
    return write_report(root).html


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_the_page_fits_reads_well_and_asks_for_nothing(browser, page_file, theme, width):
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=theme)
    page = context.new_page()
    troubles, asked = [], []
    page.on("console", lambda said: troubles.append(said.text))
    page.on("dialog", lambda dialog: troubles.append(dialog.message))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(page_file.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") == width
    plot = page.locator("svg.kb-plot")
    assert plot.is_visible()
    ground = page.evaluate(
        "[document.body, document.querySelector('.kb-plot .page')].map((each, n) =>"
        " getComputedStyle(each)[n ? 'fill' : 'backgroundColor'])"
    )
    assert (
        ground[0] == ground[1] == ("rgb(255, 255, 255)" if theme == "light" else "rgb(20, 23, 27)")
    )
    assert troubles == []
    assert asked == [page_file.as_uri()]
    # Axe is a script, which the page's policy refuses: it looks at a copy without the policy.
    text = page_file.read_text().replace("default-src 'none'", "default-src *")
    page.set_content(text.replace("Content-Security-Policy", "x-policy"))
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    context.close()


def test_the_page_is_whole_without_scripts(browser, page_file):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(page_file.as_uri())
    assert page.locator("h2").all_inner_texts() == [
        "Contenders", "Convergence", "Running best", "Best kernel", "Metrics before and after",
        "Round by round", "Lineage", "Cost", "Environment",
    ]  # fmt: skip
    context.close()
