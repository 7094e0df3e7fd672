"""New generations, damaged ones, and requests while they change."""

import mmap
import shutil
import threading
import time

import pytest
from conftest import QUERY
from live import serving
from test_endpoints import assert_problem

from ingest.pipeline import Request, ingest
from kb.embedders import load_embedder
from kb.index.layout import IndexLayout


@pytest.fixture
def client_on_copy(filled, make_client):
    return make_client(index=filled)


def publish(index, folder, stamp):
    """Publish a generation in which the one file of a source carries a stamp."""
    folder.mkdir(exist_ok=True)
    (folder / "stamped.py").write_text(
        f'def stamped(value):\n    """A zebra crossing numbered stamp{stamp}."""\n'
        "    return value * value + value\n"
    )
    report = ingest([Request(folder)], index, load_embedder())
    assert report.published
    return report.generation


def test_a_new_generation_is_served_from_the_next_request_on(client_on_copy, filled, tmp_path):
    before = client_on_copy.get("/v1/index").json()
    name = publish(filled, tmp_path / "zebra", 1)
    after = client_on_copy.post("/v1/search", json={"query": "zebra crossing stamped"}).json()
    assert after["index"]["generation"] == name != before["generation"]
    assert "stamp1" in after["results"][0]["text"]


def test_a_server_started_without_an_index_says_so_and_serves_publications_unmixed(index, tmp_path):
    """The text of a result carries the number of the only generation it may come from."""
    expected = {}
    answers, errors = [], []
    stop = threading.Event()

    def ask(server):
        while not stop.is_set():
            try:
                answers.append(server.search("zebra crossing stamped", 3))
            except Exception as error:
                errors.append(error)
            time.sleep(0.02)

    options = ("--rate-per-second", "0", "--state-dir", str(tmp_path / "state"))
    with serving(index, *options, ready=False) as server:
        assert server.log[1].startswith("there is no index yet: create one with `kb ingest`")
        expected[publish(index, tmp_path / "zebra", 0)] = 0
        server.wait_until()
        threads = [threading.Thread(target=ask, args=(server,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for number in range(1, 3):
            expected[publish(index, tmp_path / "zebra", number)] = number
        time.sleep(0.3)
        stop.set()
        for thread in threads:
            thread.join()
    assert not errors
    for answer in answers:
        number = expected[answer["index"]["generation"]]
        assert f"stamp{number}." in answer["results"][0]["text"]
    assert len({answer["index"]["generation"] for answer in answers}) >= 2


def test_without_an_index_it_says_so_and_serves_one_as_soon_as_there_is(index, built, make_client):
    client = make_client(index=index)
    for path in ("/readyz", "/v1/tree", "/v1/index"):
        answer = client.get(path)
        assert answer.status_code == 503
        assert "kb ingest" in assert_problem(answer)["detail"]
    assert client.get("/healthz").status_code == 200
    assert "kb_index_ready 0.0" in client.get("/metrics").text
    shutil.copytree(built / "index", index)
    assert client.get("/readyz").status_code == 200


@pytest.mark.parametrize(
    "name", ["manifest.json", "chunks.sqlite", "vectors.npy", "columns/values.json", "entries.json"]
)
def test_a_damaged_index_is_reported_and_the_server_stays(filled, make_client, name):
    folder = IndexLayout(filled).generation(IndexLayout(filled).current())
    good = (folder / name).read_bytes()
    (folder / name).write_bytes(b"\x00garbage" * 10)
    client = make_client(index=filled)
    answer = client.post("/v1/search", json={"query": QUERY})
    assert answer.status_code == 503
    assert_problem(answer)
    assert client.get("/healthz").status_code == 200
    (folder / name).write_bytes(good)
    assert client.post("/v1/search", json={"query": QUERY}).status_code == 200


@pytest.mark.parametrize("pointer", [b"", b"../../etc", b"\xff\xfe", b"g999999-nowhere\n"])
def test_a_damaged_pointer_leaves_the_open_generation_in_use(client_on_copy, filled, pointer):
    assert client_on_copy.get("/v1/index").status_code == 200
    good = IndexLayout(filled).pointer.read_bytes()
    IndexLayout(filled).pointer.write_bytes(pointer)
    assert client_on_copy.post("/v1/search", json={"query": QUERY}).status_code == 200
    assert client_on_copy.get("/readyz").json()["problem"]
    IndexLayout(filled).pointer.write_bytes(good)
    assert client_on_copy.get("/v1/index").status_code == 200
    assert client_on_copy.get("/readyz").json()["problem"] is None


def test_a_damaged_new_generation_leaves_the_open_one_in_use(client_on_copy, filled, tmp_path):
    before = client_on_copy.get("/v1/index").json()["generation"]
    name = publish(filled, tmp_path / "zebra", 1)
    (IndexLayout(filled).generation(name) / "vectors.npy").write_bytes(b"no matrix")
    answer = client_on_copy.post("/v1/search", json={"query": QUERY})
    assert answer.status_code == 200
    assert answer.json()["index"]["generation"] == before
    assert "kb rebuild" in client_on_copy.get("/readyz").json()["problem"]


def test_files_cut_short_while_in_use_stop_no_more_than_a_worker(shipped_index, tmp_path):
    """A memory-mapped file that shrinks kills whoever reads it; another worker takes over."""
    index = shutil.copytree(shipped_index, tmp_path / "index")
    folder = IndexLayout(index).generation(IndexLayout(index).current())
    mapped = folder / "lexical" / "indices.csc.index.npy"
    good = mapped.read_bytes()
    assert len(good) > 2 * mmap.PAGESIZE  # what is left of a page reads as zeros
    with serving(index, "--rate-per-second", "0") as server:
        assert not any("no index" in line for line in server.log)
        assert server.search(QUERY)["results"]
        with mapped.open("r+b") as file:
            file.truncate(64)
        try:
            status = server.post("/v1/search", json={"query": QUERY}).status_code
        except Exception:
            status = None
        assert status in (None, 503)
        server.wait_until(503)
        mapped.write_bytes(good)
        server.wait_until(200)
        assert server.search(QUERY)["results"]


def test_an_index_of_another_embedder_is_refused_with_the_command_that_fixes_it(
    filled, make_client
):
    folder = IndexLayout(filled).generation(IndexLayout(filled).current())
    manifest = (folder / "manifest.json").read_text()
    (folder / "manifest.json").write_text(manifest.replace('"onnx:', '"onnx:other-'))
    answer = make_client(index=filled).get("/v1/tree")
    assert answer.status_code == 503
    assert "kb rebuild" in assert_problem(answer)["detail"]


def test_the_served_index_is_left_as_it_was(filled, make_client, cli):
    from support import tree_hash

    before = tree_hash(filled, times=True)
    client = make_client(index=filled)
    for path in ("/v1/search", "/v1/context", "/v1/vector_stores/kernel-kb/search"):
        assert client.post(path, json={"query": QUERY}).status_code == 200
    assert tree_hash(filled, times=True) == before
    assert cli("--index", filled, "doctor").status == 0
