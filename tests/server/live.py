"""A real server in processes of its own, as `kb serve` starts it."""

import asyncio
import contextlib
import functools
import os
import re
import signal
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

RUN_KB = [sys.executable, "-c", "from cli import main; main()"]
REPOSITORY = Path(__file__).parents[2]
START_SECONDS = 60


class LiveServer:
    """A started server."""

    def __init__(self, process: subprocess.Popen[str], url: str, log: list[str]) -> None:
        self.process = process
        self.url = url
        self.log = log

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def workers(self) -> list[int]:
        """Process ids of the workers; the parent has another child that counts resources."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        found = []
        for pid in path.read_text().split():
            with contextlib.suppress(OSError):
                if "spawn_main" in Path(f"/proc/{pid}/cmdline").read_text():
                    found.append(int(pid))
        return found

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
def serving(index: Path, *options: str, ready: bool = True, **env: str) -> Iterator[LiveServer]:
    """Serve an index on a free port until the block ends."""
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
        server = LiveServer(process, address[0], log)
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
