"""Fixtures: a package index of the test's own, and a cache that no other test sees."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from package_index import PackageIndex, serving


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache folder of this test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "kernel-kb" / "sources"


def settings_of_environment() -> object:
    """What pip would say of its settings here."""
    from ingest.sources.index import PipSettings

    index = os.environ["PIP_INDEX_URL"]
    return PipSettings((index,), find_links=(), trusted_hosts=(), ca_file=None, proxy=None)


@pytest.fixture
def pip_settings() -> Callable[[], object]:
    """Asks pip itself for its settings."""
    from ingest.sources.index import PipSettings

    return PipSettings.current


@pytest.fixture
def packages(
    monkeypatch: pytest.MonkeyPatch, pip_settings: Callable[[], object]
) -> Iterator[PackageIndex]:
    """A package index that is the only one pip knows.

    Pip itself is not asked for its settings, which takes longer than most of these tests.
    """
    from ingest.sources.index import PipSettings

    monkeypatch.setattr(PipSettings, "current", settings_of_environment)
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    monkeypatch.setenv("PIP_DISABLE_PIP_VERSION_CHECK", "1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serving() as index:
        monkeypatch.setenv("PIP_INDEX_URL", index.url)
        yield index
