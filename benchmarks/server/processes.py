"""The processes of a measurement: a served index, load on it, and the bare loop on all cores."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_KB = [sys.executable, "-c", "from cli import main; main()"]
_READY_SECONDS = 120


@contextmanager
def kb_server(index: Path, workers: int) -> Iterator[int]:
    """`kb serve` without a rate limit; yields its port once it is ready."""
    command = [*_KB, "--index", str(index), "serve", "--port", "0", "--workers", str(workers)]
    with tempfile.TemporaryDirectory() as scratch:
        command += ["--rate-per-second", "0", "--tokens", f"{scratch}/none", "--state-dir", scratch]
        with (Path(scratch) / "log").open("w+") as log:
            process = subprocess.Popen(command, stderr=log, text=True)
            try:
                port = _port(Path(log.name))
                wait_ready(port)
                yield port
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait(60)


def _port(log: Path) -> int:
    deadline = time.monotonic() + _READY_SECONDS
    while time.monotonic() < deadline:
        if match := re.search(r"http://127\.0\.0\.1:(\d+)", log.read_text()):
            return int(match[1])
        time.sleep(0.02)
    raise SystemExit(f"the server did not start: {log.read_text()}")


def wait_ready(port: int) -> None:
    """Wait until the server is ready."""
    deadline = time.monotonic() + _READY_SECONDS
    while time.monotonic() < deadline:
        with (
            contextlib.suppress(OSError),
            urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=60),
        ):
            return
        time.sleep(0.01)
    raise SystemExit("the server did not become ready")


def load(port: int, queries: Sequence[str], clients: int) -> dict[str, Any]:
    """Every question once, by so many clients in a process of their own."""
    with query_file(queries) as path:
        command = [sys.executable, "-m", "benchmarks.server.client"]
        process = subprocess.run(
            [*command, str(port), path, str(clients)], capture_output=True, text=True, check=True
        )
    result: dict[str, Any] = json.loads(process.stdout)
    return result


def bare_on_all_cores(index: Path, queries: Sequence[str], seconds: float) -> float:
    """Queries a second of embedding and bare Chroma, one process a core."""
    cores = len(os.sched_getaffinity(0))
    with query_file(queries) as path:
        command = [sys.executable, "-m", "benchmarks.server.bare", str(index), path, str(seconds)]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        processes = [subprocess.Popen(command, text=True, **pipes) for _ in range(cores)]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:  # all of them, before the first is waited for
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        counts = [int(process.communicate()[0]) for process in processes]
    return sum(counts) / seconds


@contextmanager
def query_file(queries: Sequence[str]) -> Iterator[str]:
    """The questions as a JSON file."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(list(queries), file)
        file.flush()
        yield file.name
