"""Ingest over HTTP: uploads become sources, by admins only, and never touch the server's files."""

import os
import signal
import threading
import time

import pytest
from conftest import QUERY
from test_endpoints import assert_problem

from server.jobs.models import JobState
from server.jobs.store import JobStore
from server.tokens import TokenFile

CODE = (
    b'def quokka(value):\n    """Smile like a quokka on a beach."""\n    return value + value * 2\n'
)


@pytest.fixture
def admin(tmp_path):
    _, secret = TokenFile(tmp_path / "tokens.json").create("admin")
    return {"Authorization": f"Bearer {secret}"}


@pytest.fixture
def client(make_client, filled):
    return make_client(index=filled, allow_ingest=True, max_upload_bytes=100_000)


def upload(client, headers, *files, source="mine"):
    parts = [("files", (name, content)) for name, content in files]
    return client.post("/v1/ingest", data={"source": source}, files=parts, headers=headers)


def outcome(client, headers, job):
    deadline = time.monotonic() + 90
    while True:
        answer = client.get(f"/v1/jobs/{job['id']}", headers=headers)
        assert answer.status_code == 200
        if answer.json()["state"] in ("done", "failed"):
            return answer.json()
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_an_upload_becomes_a_source_while_searches_go_on(client, admin, tmp_path):
    accepted = upload(client, admin, ("zoo/quokka.py", CODE), ("README.md", b"# Zoo\n\nAnimals.\n"))
    assert accepted.status_code == 202
    job = accepted.json()
    assert accepted.headers["location"] == f"/v1/jobs/{job['id']}"
    assert job["files"] == 2
    statuses = set()

    def ask():
        for _ in range(10):
            answer = client.post("/v1/search", json={"query": QUERY}, headers=admin)
            statuses.add(answer.status_code)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == {200}
    done = outcome(client, admin, job)
    assert done["state"] == "done", done
    assert done["generation"] == client.get("/v1/index", headers=admin).json()["generation"]
    found = client.post(
        "/v1/search", json={"query": "smile like a quokka on a beach"}, headers=admin
    ).json()["results"][0]
    assert (found["path"], found["source"]["name"]) == ("zoo/quokka.py", "mine")
    listed = client.get("/v1/jobs", headers=admin).json()["jobs"]
    assert [each["id"] for each in listed] == [job["id"]]
    assert str(tmp_path) not in client.get("/v1/jobs", headers=admin).text


def test_a_bad_upload_fails_with_its_reason_and_changes_nothing(client, admin):
    before = client.get("/v1/index", headers=admin).json()
    job = upload(client, admin, ("only.bin", b"\x00\x01\x02")).json()
    done = outcome(client, admin, job)
    assert done["state"] == "failed"
    assert done["error"]
    assert client.get("/v1/index", headers=admin).json() == before


def test_a_name_taken_by_another_source_is_refused(client, admin):
    done = outcome(client, admin, upload(client, admin, ("a.py", CODE), source="tiny").json())
    assert done["state"] == "failed"
    assert "already" in done["error"]


@pytest.mark.parametrize(
    "name",
    ["../evil.py", "/etc/evil.py", "a/../../evil.py", "..", ".ssh/key.py", "a//b.py", "a\\..\\b.py",
     "a\x00.py", "x" * 500 + ".py", "/".join("abcdefghijklmnopqrstuvwxyz") + ".py"],
)  # fmt: skip
def test_file_names_stay_inside_the_upload(client, admin, name, tmp_path):
    answer = upload(client, admin, (name, CODE))
    assert answer.status_code in (400, 422)
    assert_problem(answer)
    assert client.get("/v1/jobs", headers=admin).json()["jobs"] == []
    assert not list(tmp_path.rglob("*evil*"))


@pytest.mark.parametrize("source", ["", "..", "../x", "a/b", ".hidden", "x" * 65])
def test_source_names_are_plain(client, admin, source):
    assert upload(client, admin, ("a.py", CODE), source=source).status_code == 422


def test_only_admins_ingest_and_see_jobs(client, admin, tmp_path):
    _, reader = TokenFile(tmp_path / "tokens.json").create("read")
    headers = {"Authorization": f"Bearer {reader}"}
    assert client.post("/v1/search", json={"query": QUERY}, headers=headers).status_code == 200
    for answer in (
        upload(client, headers, ("a.py", CODE)),
        client.get("/v1/jobs", headers=headers),
        client.get("/v1/jobs/0123456789abcdef", headers=headers),
    ):
        assert answer.status_code == 403
        assert_problem(answer)
    assert upload(client, {}, ("a.py", CODE)).status_code == 401


def test_ingest_is_closed_unless_allowed(make_client, admin):
    closed = make_client()
    assert upload(closed, admin, ("a.py", CODE)).status_code == 404
    assert "/v1/ingest" not in closed.get("/openapi.json", headers=admin).json()["paths"]


def test_uploads_are_limited_in_size_and_number(make_client, filled, admin):
    client = make_client(
        index=filled, allow_ingest=True, max_upload_bytes=20_000, max_upload_files=3
    )
    assert upload(client, admin, ("a.py", b"#" * 30_000)).status_code == 413

    def parts():
        for _ in range(30):
            yield b"x" * 1024

    headers = admin | {"Content-Type": "multipart/form-data; boundary=b"}
    assert client.post("/v1/ingest", content=parts(), headers=headers).status_code in (400, 413)
    many = [(f"f{number}.py", CODE) for number in range(4)]
    assert upload(client, admin, *many).status_code in (400, 413)
    assert upload(client, admin).status_code in (400, 422)


def test_a_job_whose_process_was_killed_is_told_as_failed(client, admin, tmp_path, filled):
    from kb.index.writer import IndexWriter

    with IndexWriter(filled):  # the job waits for the writer's lock
        job = upload(client, admin, ("a.py", CODE)).json()
        store = JobStore(tmp_path / "state")
        deadline = time.monotonic() + 60
        while store.read(job["id"]).state is not JobState.RUNNING:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        os.kill(process_of(job["id"]), signal.SIGKILL)
        done = outcome(client, admin, job)
    assert done["state"] == "failed"
    assert "interrupted" in done["error"]
    again = upload(client, admin, ("a.py", CODE)).json()
    assert outcome(client, admin, again)["state"] == "done"


def process_of(job_id):
    from pathlib import Path

    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if job_id.encode() in path.read_bytes():
                return int(path.parent.name)
        except OSError:
            continue
    raise AssertionError("the job has no process")
