"""Real servers: processes, as `kb serve` starts them, or a thread of this one."""

import asyncio
import contextlib
import functools
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
from anyio.from_thread import start_blocking_portal
from mcp import Client, StdioServerParameters
from uvicorn import Config, Server

from cli.application import mountings
from cli.profiles import diagnosis
from server.app import create_app
from server.run import connection_options
from server.settings import Settings

RUN_KB = [sys.executable, "-c", "from cli import main; main()"]
REPOSITORY = Path(__file__).parents[2]
START_SECONDS = 60


class LiveServer:
    """A server that answers at an address."""

    def __init__(self, url: str, log: list[str] | None = None) -> None:
        self.url = url
        self.log = log if log is not None else []

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def post(self, path: str, **options: Any) -> httpx2.Response:
        return httpx2.post(self.url + path, timeout=60, **options)

    def get(self, path: str, **options: Any) -> httpx2.Response:
        return httpx2.get(self.url + path, timeout=60, **options)

    def search(self, query: str, k: int = 10) -> dict[str, Any]:
        answer = self.post("/v1/search", json={"query": query, "k": k})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def wait_until(self, status: int = 200, path: str = "/readyz", seconds: float = 60) -> float:
        """Wait for a status; returns the seconds it took."""
        started = time.monotonic()
        while True:
            with contextlib.suppress(httpx2.TransportError):
                if self.get(path).status_code == status:
                    return time.monotonic() - started
            assert time.monotonic() - started < seconds, self.log[-20:]
            time.sleep(0.05)


class ServerProcess(LiveServer):
    """A server that `kb serve` started."""

    def __init__(self, process: subprocess.Popen[str], url: str, log: list[str]) -> None:
        super().__init__(url, log)
        self.process = process

    def workers(self) -> list[int]:
        """Process ids of the workers; the parent has another child that counts resources."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        found = []
        for pid in path.read_text().split():
            with contextlib.suppress(OSError):
                if "spawn_main" in Path(f"/proc/{pid}/cmdline").read_text():
                    found.append(int(pid))
        return found


@contextlib.contextmanager
def lasting_session(
    command: StdioServerParameters, seconds: float = 60
) -> Iterator[Callable[[Callable[[Client], Awaitable[Any]]], Any]]:
    """Start a server of MCP with one client; the result calls async functions with that client."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(Client(command)) as client,
    ):

        async def call(work: Callable[[Client], Awaitable[Any]]) -> Any:
            return await asyncio.wait_for(work(client), seconds)

        yield functools.partial(portal.call, call)


@contextlib.contextmanager
def serving_here(index: Path, place: Path, **changed: Any) -> Iterator[LiveServer]:
    """Serve an index in a thread, over the connections of `kb serve`; its files are in `place`.

    For tests of what is answered: the processes of `kb serve` take two seconds to start.
    """
    defaults = {"state_dir": place / "state", "tokens": place / "tokens.json", "rate_per_second": 0}
    settings = Settings(**({"index": index} | defaults | changed))
    with socket.create_server((settings.host, 0)) as listener:
        config = Config(
            lambda: create_app(settings, mountings(settings), diagnosis), factory=True,
            log_config=None, **connection_options(settings),
        )  # fmt: skip
        server = Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            live = LiveServer(f"http://{settings.host}:{listener.getsockname()[1]}")
            live.wait_until()
            yield live
        finally:
            server.should_exit = True
            thread.join(START_SECONDS)
            assert not thread.is_alive()


@contextlib.contextmanager
def serving(index: Path, *options: str, ready: bool = True, **env: str) -> Iterator[ServerProcess]:
    """Serve an index on a free port until the block ends, with `kb serve`."""
    command = [*RUN_KB, "--index", str(index), "serve", "--port", "0", *options]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, cwd=REPOSITORY, env=os.environ | env
    )
    log: list[str] = []
    found = threading.Event()

    def read() -> None:
        assert process.stderr is not None
        for line in process.stderr:
            log.append(line)
            found.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        assert found.wait(START_SECONDS)
        address = re.search(r"http://\S+", log[0])
        assert address, log
        server = ServerProcess(process, address[0], log)
        server.wait_until(200, "/readyz" if ready else "/healthz")
        yield server
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)
            raise
        finally:
            reader.join(5)
