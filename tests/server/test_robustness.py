"""Slow and vanishing clients, killed workers, several workers, and a graceful end."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx2
import pytest
from conftest import QUERY
from live import serving

HEAD = b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def two_workers(built, tmp_path_factory):
    place = tmp_path_factory.mktemp("two")
    options = ["--workers", "2", "--rate-per-second", "0", "--tokens", str(place / "none")]
    options += ["--header-timeout", "2", "--body-timeout", "2", "--max-connections", "60"]
    with serving(built / "index", *options) as server:
        yield server


def connect(server):
    return socket.create_connection(("127.0.0.1", server.port), timeout=20)


def ended(connection, seconds):
    """Whether the server ends the connection in time; also what it said."""
    connection.settimeout(seconds)
    said = b""
    try:
        while part := connection.recv(65536):
            said += part
    except TimeoutError:
        return False, said
    except OSError:
        pass
    return True, said


def test_slow_clients_lose_their_connections_and_others_notice_nothing(two_workers):
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(connect(two_workers)) for _ in range(200)]
        for number, connection in enumerate(slow):
            with contextlib.suppress(OSError):  # the idlest ones already had to make room
                if number % 3 == 0:
                    connection.sendall(b"GET /v1/tree HTTP/1.1\r\nX-Slow: ")
                elif number % 3 == 1:
                    connection.sendall(HEAD + b"Content-Length: 100\r\n\r\n{")
        times = []
        for _ in range(20):
            started = time.monotonic()
            assert two_workers.search(QUERY, 1)["results"]
            times.append(time.monotonic() - started)
        assert sorted(times)[10] < 1.0
        deadline = time.monotonic() + 10
        for connection in slow:
            over, _ = ended(connection, max(deadline - time.monotonic(), 0.1))
            assert over


def test_a_slow_body_gets_a_problem_document(two_workers):
    with connect(two_workers) as connection:
        connection.sendall(HEAD + b"Content-Length: 100\r\n\r\n{")
        over, said = ended(connection, 10)
    assert over
    assert said.startswith(b"HTTP/1.1 408")
    assert b"application/problem+json" in said


def test_headers_that_do_not_end_are_refused(two_workers):
    with connect(two_workers) as connection:
        with contextlib.suppress(OSError):
            for _ in range(200):
                connection.sendall(b"GET / HTTP/1.1\r\n" + b"X-A: " + b"a" * 1024)
        over, said = ended(connection, 10)
    assert over
    assert said == b"" or said.startswith((b"HTTP/1.1 431", b"HTTP/1.1 400"))


def test_idle_and_kept_connections_still_serve(two_workers):
    with httpx2.Client(base_url=two_workers.url) as client:
        for _ in range(3):
            assert client.get("/v1/index").status_code == 200
            time.sleep(0.7)


def test_clients_that_vanish_harm_nothing(two_workers):
    body = b'{"query": "pid swizzling trick"}'
    for cut in (10, len(HEAD) + 20, None):
        for _ in range(20):
            with connect(two_workers) as connection:
                request = HEAD + f"Content-Length: {len(body)}\r\n\r\n".encode() + body
                connection.sendall(request[:cut])
                connection.setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00"
                )
    assert two_workers.search(QUERY)["results"]
    assert not [line for line in two_workers.log if '"exception"' in line]


def test_a_killed_worker_loses_only_what_it_was_doing(two_workers):
    outcomes = []
    stop = threading.Event()

    def ask():
        while not stop.is_set():
            try:
                outcomes.append(two_workers.post("/v1/search", json={"query": QUERY}).status_code)
            except httpx2.TransportError as error:
                outcomes.append(error)
            time.sleep(0.02)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(1)
    before = two_workers.workers()
    os.kill(before[0], signal.SIGKILL)
    time.sleep(3)
    stop.set()
    for thread in threads:
        thread.join()
    lost = [each for each in outcomes if each != 200]
    # each of the four clients has one request at a time
    assert len(lost) <= 4, lost
    assert all(isinstance(each, httpx2.TransportError) for each in lost)
    assert outcomes.count(200) > 20
    deadline = time.monotonic() + 30
    while len(two_workers.workers()) < 2 or before[0] in two_workers.workers():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_limits_and_metrics_hold_across_workers(built, tmp_path):
    options = ["--workers", "2", "--rate-per-second", "0.5", "--rate-burst", "30"]
    with serving(built / "index", *options, "--tokens", str(tmp_path / "none")) as server:
        started = time.monotonic()
        statuses = [server.get("/v1/index").status_code for _ in range(60)]
        refilled = (time.monotonic() - started) * 0.5
        granted = statuses.count(200)
        assert 30 <= granted <= 30 + refilled + 1
        assert statuses.count(429) == 60 - granted > 0
        time.sleep(4)
        text = server.get("/metrics").text
        line = 'kb_http_requests_total{{method="GET",route="{}",status="{}"}} {}.0'
        assert line.format("/v1/index", 200, granted) in text
        assert line.format("unmatched", 429, 60 - granted) in text


def test_mcp_requests_may_go_to_any_worker(two_workers):
    import asyncio

    from mcp import Client

    async def work():
        for mode in ("legacy", "auto"):
            async with Client(two_workers.url + "/mcp", mode=mode) as client:
                for _ in range(8):
                    result = await client.call_tool("search_kernels", {"query": QUERY, "k": 1})
                    assert not result.is_error

    asyncio.run(asyncio.wait_for(work(), 60))


def test_a_shutdown_finishes_what_was_begun(built, tmp_path):
    with serving(built / "index", "--tokens", str(tmp_path / "none")) as server:
        body = b'{"query": "pid swizzling trick"}'
        with connect(server) as connection:
            connection.sendall(HEAD + f"Content-Length: {len(body)}\r\n\r\n".encode() + body[:5])
            time.sleep(0.3)
            server.process.send_signal(signal.SIGTERM)
            time.sleep(0.5)
            connection.sendall(body[5:])
            over, said = ended(connection, 20)
        assert over
        assert said.startswith(b"HTTP/1.1 200")
        assert server.process.wait(30) == 0


# What is sent before any token is checked must not stay: a worker holds a few of these at most.
MOST_GROWTH = 60_000_000
ASK = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


def resident(server):
    """Bytes that the server's workers hold in memory."""
    sizes = [Path(f"/proc/{pid}/statm").read_text().split() for pid in server.workers()]
    return sum(int(pages) for _, pages, *_ in sizes) * os.sysconf("SC_PAGE_SIZE")


def flood(server, beginning, repeated, most):
    """Send until the server ends the connection or takes no more; returns what it took and said."""
    sent = 0
    with connect(server) as connection:
        connection.settimeout(5)
        with contextlib.suppress(OSError):
            connection.sendall(beginning)
            while sent < most:
                connection.sendall(repeated)
                sent += len(repeated)
        return sent, ended(connection, 5)


def test_requests_that_do_not_wait_for_an_answer_are_not_kept(two_workers):
    before = resident(two_workers)
    _, (over, said) = flood(two_workers, b"", ASK * 2_000, 30_000_000)
    assert over
    assert said.startswith(b"HTTP/1.1 200")
    assert said.count(b"HTTP/1.1 ") == 1
    assert resident(two_workers) - before < MOST_GROWTH


@pytest.mark.parametrize(
    ("begun", "repeated"),
    [
        (b"1\r\n{\r\n0\r\n", b"x-trailer: y\r\n" * 5_000),
        (b"1\r\n{\r\n0\r\nx-trailer: ", b"y" * 65_536),
        (b"1\r\n{\r\n1;extension=", b"y" * 65_536),
        (b"1\r\n{\r\n", b"0" * 65_536),
    ],
    ids=["trailers", "a trailer without end", "an extension without end", "a size without end"],
)
def test_what_follows_a_chunked_body_is_bounded(two_workers, begun, repeated):
    before = resident(two_workers)
    sent, (over, _) = flood(two_workers, CHUNKED + begun, repeated, 64_000_000)
    assert over
    assert sent < 16_000_000  # what the sockets' buffers take
    assert resident(two_workers) - before < MOST_GROWTH
    assert two_workers.get("/healthz").elapsed.total_seconds() < 1


def test_trailers_of_an_ordinary_size_are_dropped_and_the_request_answered(two_workers):
    body = b'{"query": "pid swizzling"}'
    with connect(two_workers) as connection:
        connection.sendall(CHUNKED + b"%x\r\n%s\r\n0\r\nx-checksum: 1\r\n\r\n" % (len(body), body))
        connection.settimeout(20)
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "headers",
    [b"X-A: " + b"a" * 40_000 + b"\r\n", b"X-A: b\r\n" * 300, b"X-A: " + b"a" * 120 + b"\r\n" * 1],
    ids=["long", "many", "few"],
)
def test_headers_that_come_in_one_piece_have_the_same_limits(two_workers, headers):
    with connect(two_workers) as connection:
        connection.sendall(ASK[:-2] + headers + b"Connection: close\r\n\r\n")
        over, said = ended(connection, 10)
    assert over
    few = len(headers) < 1_000
    assert said.startswith(b"HTTP/1.1 200" if few else b"HTTP/1.1 431")


def test_an_address_that_is_too_long_is_refused(two_workers):
    with connect(two_workers) as connection:
        connection.sendall(ASK.replace(b"/healthz", b"/healthz?" + b"a" * 40_000))
        over, said = ended(connection, 10)
    assert over
    assert said.startswith(b"HTTP/1.1 431")


# Starts the application in one process, and tells who parses in a thread without the lock.
_PARSED = """
import ast, sys, threading, traceback
from pathlib import Path

original = ast.parse

def parse(*given, **more):
    from kb.parsing import PARSING

    if threading.current_thread() is not threading.main_thread() and not PARSING.locked():
        print("".join(traceback.format_stack()))
    return original(*given, **more)

ast.parse = parse
from starlette.testclient import TestClient
from server.app import create_app
from server.settings import Settings

place = Path(sys.argv[2])
settings = Settings(index=Path(sys.argv[1]), state_dir=place, tokens=place / "tokens.json")
call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
accepted = {"Accept": "application/json, text/event-stream"}
with TestClient(create_app(settings), base_url="http://localhost") as client:
    print("status", client.post("/mcp", json=call, headers=accepted).status_code)
print("mcp" in sys.modules)
"""


def test_what_is_imported_beside_requests_parses_in_its_turn(built, tmp_path):
    """Two threads that parse at once raise SystemError in some interpreters."""
    ran = subprocess.run(
        [sys.executable, "-c", _PARSED, built / "index", tmp_path],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert ran.stdout.split() == ["status", "200", "True"]
