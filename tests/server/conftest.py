"""Fixtures of the server's tests: an application in this process, and a live server."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from live import LiveServer, serving_here
from starlette.testclient import TestClient

from server.app import create_app
from server.mounting import Mounting
from server.settings import Settings

QUERY = "all about pid swizzling trick"


def opened(place: Path, mounted: Sequence[Mounting] = (), **changed: Any) -> TestClient:
    """A client of an application without a rate limit whose files are in `place`."""
    defaults: dict[str, Any] = {
        "state_dir": place / "state",
        "tokens": place / "tokens.json",
        "rate_per_second": 0,
    }
    app = create_app(Settings(**(defaults | changed)), mounted)
    return TestClient(app, base_url="http://localhost", raise_server_exceptions=False)


@pytest.fixture
def make_client(built: Path, tmp_path: Path) -> Iterator[Callable[..., TestClient]]:
    """Clients of applications with settings of their own, on the index made by `kb`."""
    with ExitStack() as stack:

        def make(**changed: Any) -> TestClient:
            return stack.enter_context(opened(tmp_path, **({"index": built / "index"} | changed)))

        yield make


@pytest.fixture(scope="session")
def lasting_client(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A client for tests that only read: the first request to an application opens the index."""
    with opened(tmp_path_factory.mktemp("lasting"), index=built / "index") as client:
        yield client


@pytest.fixture
def own_client(make_client: Callable[..., TestClient]) -> TestClient:
    """A client of this test's own application, with the default settings, but no rate limit."""
    return make_client()


@pytest.fixture
def client(own_client: TestClient) -> TestClient:
    """The same; modules whose tests mostly read have a lasting one in its place."""
    return own_client


@pytest.fixture
def shipped_client(make_client: Callable[..., TestClient], shipped_index: Path) -> TestClient:
    """A client of an application over the shipped corpus."""
    return make_client(index=shipped_index)


@pytest.fixture(scope="session")
def live(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """One live server that tests may query but not hurt."""
    with serving_here(built / "index", tmp_path_factory.mktemp("live")) as server:
        yield server
