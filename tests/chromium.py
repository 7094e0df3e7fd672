"""The fixture of tests that look at a page: one headless Chromium for each module."""

import os
import shutil

import pytest
from playwright.sync_api import sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
# It asks for nothing beyond this machine, and as root it cannot use its sandbox.
FLAGS = [
    "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--force-color-profile=srgb",
]  # fmt: skip


@pytest.fixture(scope="module")
def browser():
    """One Chromium for this module. That there is none is a failure, not a reason to skip."""
    path = os.environ.get("KB_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.fail("these tests need Chromium: install it (Debian: apt-get install chromium)")
    flags = [*FLAGS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=flags)
        yield started
        started.close()
