"""A Chroma server as the vector store: a process of this test, behind a door that wants a header.

`chroma run` of chromadb 1 is the server written in Rust, not the Python one (CVE-2026-45829).
"""

import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx2
import pytest
from support import add, function, searcher

from kb.errors import IndexUnavailableError, InvalidInputError
from kb.index.chroma_server import ChromaServer, RemoteSearch, server_from_environment
from kb.index.layout import IndexLayout
from kb.index.reader import open_generation

TOKEN = "ck-a-secret-of-this-test"
QUERY = "Compute fn3 first"


class Door:
    """Passes requests on to a server, if they carry the header, and counts queries."""

    def __init__(self, behind: str) -> None:
        self.queries = self.refused = 0
        door = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _pass(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if self.headers.get("X-Chroma-Token") != TOKEN:
                    door.refused += 1
                    status, content = 401, b'{"error": "Unauthorized", "message": "no token"}'
                else:
                    door.queries += self.path.endswith("/query")
                    kind = {"Content-Type": "application/json"}
                    answer = httpx2.request(
                        self.command, behind + self.path, content=body, headers=kind
                    )
                    status, content = answer.status_code, answer.content
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_DELETE = do_PUT = _pass

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture(scope="module")
def chroma(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Chroma server that runs as long as this module's tests."""
    place = tmp_path_factory.mktemp("chroma")
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as free:
        port = free.server_port
    command = [Path(sys.executable).with_name("chroma"), "run", "--path", place / "data"]
    with (place / "log").open("w") as log:
        process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(port)], stdout=log, stderr=log
        )
        try:
            url = f"http://127.0.0.1:{port}"
            for _ in range(600):
                try:
                    httpx2.get(f"{url}/api/v2/heartbeat").raise_for_status()
                    break
                except httpx2.HTTPError:
                    assert process.poll() is None, (place / "log").read_text()
                    time.sleep(0.1)
            yield url
        finally:
            process.terminate()
            process.wait()


@pytest.fixture
def door(chroma: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Door]:
    """The server's door, which the environment names."""
    door = Door(chroma)
    monkeypatch.setenv("KB_CHROMA_URL", door.url)
    monkeypatch.setenv("KB_CHROMA_HEADER", f"X-Chroma-Token: {TOKEN}")
    yield door
    door.close()


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    for number in range(5):
        (folder / f"f{number}.py").write_text(function(f"fn{number}", "first"))
    return folder


def collections(chroma: str) -> set[str]:
    client = ChromaServer(chroma).client(10)
    return {each.name for each in client.list_collections()}


def test_generations_go_to_the_server_and_are_searched_there(
    door, chroma, index, code, monkeypatch
):
    others = collections(chroma)
    add(code, index)
    first = collections(chroma) - others
    assert len(first) == 1
    one = searcher(index)
    found = one.search(QUERY, 3).results
    assert door.queries == 1
    assert "fn3" in found[0].text
    assert one.nearest.problem is None
    monkeypatch.delenv("KB_CHROMA_URL")
    other = searcher(index)
    alone = other.search(QUERY, 3).results
    other.generation.close()
    assert [each.id for each in found] == [each.id for each in alone]
    monkeypatch.setenv("KB_CHROMA_URL", door.url)
    one.generation.close()
    (code / "f0.py").write_text(function("fn0", "second"))
    add(code, index)
    # A collection goes with its generation.
    left = collections(chroma) - others
    assert len(left) == 1
    assert left != first
    assert "chromadb.server.fastapi" not in sys.modules


def test_without_the_server_searches_answer_alike_and_nothing_is_published(
    door, index, code, caplog
):
    add(code, index)
    before = [each.id for each in searcher(index).search(QUERY, 3).results]
    door.close()
    one = searcher(index)
    assert [each.id for each in one.search(QUERY, 3).results] == before
    assert one.nearest.problem is not None
    assert "the Chroma server cannot be queried" in one.nearest.problem
    assert re.search(r"Chroma at http://127\.0\.0\.1:\d+ cannot be queried", caplog.text)
    assert "127.0.0.1" not in one.nearest.problem
    current = IndexLayout(index).current()
    (code / "f0.py").write_text(function("fn0", "second"))
    with pytest.raises(IndexUnavailableError, match=r"nothing was published.*KB_CHROMA_URL"):
        add(code, index)
    assert IndexLayout(index).current() == current


def test_a_header_that_is_refused_is_not_repeated_to_anybody(door, index, code, monkeypatch):
    monkeypatch.setenv("KB_CHROMA_HEADER", "X-Chroma-Token: another-secret")
    with pytest.raises(IndexUnavailableError) as refused:
        add(code, index)
    assert door.refused
    assert "another-secret" not in str(refused.value)


def test_a_collection_that_was_broken_off_is_written_anew(door, chroma, index, code):
    others = collections(chroma)
    add(code, index)
    held = open_generation(index)  # else its collection would go with it
    (name,) = collections(chroma) - others
    collection = ChromaServer(chroma).client(10).get_collection(name, embedding_function=None)
    collection.delete(ids=collection.get(include=[])["ids"][:2])
    (code / "f9.py").write_text(function("fn9", "first"))
    add(code, index)
    (code / "f9.py").unlink()
    add(code, index)
    again = ChromaServer(chroma).client(10).get_collection(name, embedding_function=None)
    assert again.count() == 5
    held.close()


def test_a_server_that_does_not_answer_is_not_waited_for(index, code, monkeypatch, caplog):
    monkeypatch.setattr("kb.index.chroma_server._QUERY_SECONDS", 0.2)
    add(code, index)
    generation = open_generation(index)
    silent = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)  # never serves
    url = f"http://127.0.0.1:{silent.server_port}"
    remote = RemoteSearch(ChromaServer(url), generation.manifest)
    assert remote.nearest(generation.vectors.rows[0], 3) is None
    assert remote.problem
    assert "it does not answer" in caplog.text
    generation.close()
    silent.server_close()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("KB_CHROMA_URL", "localhost:8000", "KB_CHROMA_URL must be http://HOST:PORT"),
        ("KB_CHROMA_URL", "http://host/path", "KB_CHROMA_URL must be http://HOST:PORT"),
        ("KB_CHROMA_URL", "http://me:word@host", "must not contain a password"),
        ("KB_CHROMA_HEADER", "a-token", "must be NAME: VALUE"),
    ],
)
def test_a_malformed_setting_is_one_line(monkeypatch, name, value, message):
    monkeypatch.setenv("KB_CHROMA_URL", "http://127.0.0.1:8000")
    monkeypatch.setenv(name, value)
    with pytest.raises(InvalidInputError, match=message):
        server_from_environment()
