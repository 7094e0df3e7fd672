"""`python -m benchmarks.optimize.picture RUN --out FILE`: a picture of a run's report.

Writes the report anew and takes what headless Chromium shows of its first screen. Needs Chromium
(`KB_CHROMIUM` or on the path) and the packages of the `dev` extra.
"""

import argparse
import os
import shutil
import sys
from pathlib import Path

from agent.report.report import write_report
from benchmarks.optimize.asking import ended
from kb.errors import KbError

_NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
# The report's width on a desk, and as much of it as shows table and plot.
_WIDTH, _HEIGHT = 1120, 1100


def main(arguments: list[str] | None = None) -> int:
    """Write the picture."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.optimize.picture")
    made.add_argument("run", type=Path, help="run folder of kb optimize")
    made.add_argument("--out", type=Path, required=True, help="PNG file to write")
    made.add_argument("--height", type=int, default=_HEIGHT)
    options = made.parse_args(arguments)
    take(write_report(options.run).html, options.out, options.height)
    print(options.out)
    return 0


def take(page_file: Path, out: Path, height: int = _HEIGHT) -> None:
    """The first screen of a page.

    Raises
    ------
    KbError
        There is no Chromium.
    """
    from playwright.sync_api import sync_playwright

    path = os.environ.get("KB_CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)
    if path is None:
        raise KbError("no Chromium was found: install it, or name it in KB_CHROMIUM")
    flags = ["--disable-gpu", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=flags)
        page = browser.new_page(viewport={"width": _WIDTH, "height": height})
        page.goto(page_file.resolve().as_uri())
        out.parent.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=out)
        browser.close()


if __name__ == "__main__":
    sys.exit(ended(main))
