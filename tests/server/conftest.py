"""Fixtures of the server's tests: an application in this process, and a live server."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from live import LiveServer, serving
from starlette.testclient import TestClient

from server.app import create_app
from server.settings import Settings

QUERY = "all about pid swizzling trick"


@pytest.fixture
def make_client(built: Path, tmp_path: Path) -> Iterator[Callable[..., TestClient]]:
    """Clients of applications with settings of their own, on the index made by `kb`."""
    opened: list[TestClient] = []

    def make(**changed: Any) -> TestClient:
        defaults: dict[str, Any] = {
            "index": built / "index",
            "state_dir": tmp_path / "state",
            "tokens": tmp_path / "tokens.json",
            "rate_per_second": 0,
        }
        app = create_app(Settings(**(defaults | changed)))
        client = TestClient(app, base_url="http://localhost", raise_server_exceptions=False)
        client.__enter__()
        opened.append(client)
        return client

    yield make
    for client in opened:
        client.__exit__(None, None, None)


@pytest.fixture
def client(make_client: Callable[..., TestClient]) -> TestClient:
    """A client of an application with the default settings, but no rate limit."""
    return make_client()


@pytest.fixture
def shipped_client(make_client: Callable[..., TestClient], shipped_index: Path) -> TestClient:
    """A client of an application over the shipped corpus."""
    return make_client(index=shipped_index)


@pytest.fixture(scope="session")
def live(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """One live server that tests may query but not hurt."""
    place = tmp_path_factory.mktemp("live")
    shutil.copytree(built / "index", place / "index")
    options = ("--rate-per-second", "0", "--state-dir", str(place), "--tokens", str(place / "t"))
    with serving(place / "index", *options) as server:
        yield server
