"""The real client's Batch API against a scripted server: nothing is sent twice, nothing is lost."""

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import openai
import pytest
from scripted_endpoint import completion
from test_llm_batch import ASK, lines, waits

import agent.endpoint.batch_client as batch_client
from agent.endpoint.batch import BatchEndpoint, BatchFolder
from agent.endpoint.batch_client import BatchClient
from agent.endpoint.errors import EndpointError
from agent.pause import WaitingError


class Server:
    """Plays /files and /batches; a batch ends when `end` says how."""

    def __init__(self):
        self.files, self.batches, self.asked = {}, {}, []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                data = self.rfile.read(int(self.headers["Content-Length"]))
                self.reply(outer.post(self.path, data))

            def do_GET(self):
                self.reply(outer.get(self.path))

            def reply(self, answer):
                data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(200 if answer is not None else 500)
                kind = "application/json" if not isinstance(answer, bytes) else "text/plain"
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def post(self, path, data):
        self.asked.append(path)
        if path == "/v1/files":
            text = re.search(rb"filename=.*?\r\n\r\n(.*?)\r\n--", data, re.DOTALL)[1]
            name = f"file-{len(self.files)}"
            self.files[name] = text
            return {"id": name, "object": "file", "bytes": len(text), "created_at": 1,
                    "filename": "x.jsonl", "purpose": "batch", "status": "processed"}  # fmt: skip
        given = json.loads(data)
        name = f"batch-{len(self.batches)}"
        self.batches[name] = given | {
            "id": name, "object": "batch", "created_at": 1, "status": "in_progress",
            "request_counts": {"total": 1, "completed": 0, "failed": 0},
        }  # fmt: skip
        return self.batches[name]

    def get(self, path):
        self.asked.append(path.partition("?")[0])
        if found := re.match(r"/v1/files/([\w-]+)/content", path):
            return self.files[found[1]]
        if found := re.match(r"/v1/batches/([\w-]+)$", path):
            return self.batches[found[1]]
        return {"object": "list", "data": list(self.batches.values()), "has_more": False}

    def end(self, name, *answers, status="completed"):
        text = "".join(json.dumps(each) + "\n" for each in answers).encode()
        self.files[f"out-{name}"] = text
        self.batches[name] |= {"status": status, "output_file_id": f"out-{name}"}

    def requests(self, name):
        text = self.files[self.batches[name]["input_file_id"]]
        return [json.loads(line) for line in text.splitlines()]


def reply(name, text="Yes."):
    return {
        "id": "r", "custom_id": name, "error": None,
        "response": {"status_code": 200, "request_id": "q", "body": completion(text)},
    }  # fmt: skip


@pytest.fixture
def server():
    one = Server()
    yield one
    one.server.shutdown()
    one.server.server_close()


@pytest.fixture
def client(server, tmp_path):
    """A step of a new process."""
    calls = openai.OpenAI(base_url=server.url, api_key="none", max_retries=0)
    return lambda: BatchClient(BatchFolder(tmp_path), calls).step()


def test_requests_are_sent_once_and_replies_fetched_once(server, client, tmp_path):
    name = waits(tmp_path)
    assert client() == ["batch-0: in_progress, 0 of 1 done"]
    assert client() == ["batch-0: in_progress, 0 of 1 done"]
    assert server.asked.count("/v1/files") == 1
    assert [each["custom_id"] for each in server.requests("batch-0")] == [name]
    assert server.batches["batch-0"]["endpoint"] == "/v1/chat/completions"
    later = waits(tmp_path, ASK | {"max_tokens": 11})
    server.end("batch-0", reply(name))
    assert client() == ["batch-1: in_progress, 0 of 1 done"]
    assert [each["custom_id"] for each in server.requests("batch-1")] == [later]
    answer = BatchEndpoint("m", BatchFolder(tmp_path)).complete(ASK)
    assert answer.completion.choices[0].message.content == "Yes."
    server.end("batch-1", reply(later))
    assert client() == []
    before = len(server.asked)
    assert client() == []
    assert len(server.asked) == before
    assert BatchFolder(tmp_path).waiting == 0


def test_what_an_expired_batch_left_is_asked_again(server, client, tmp_path):
    first, second = waits(tmp_path), waits(tmp_path, ASK | {"max_tokens": 11})
    client()
    server.end("batch-0", reply(first), status="expired")
    assert client() == []
    waits(tmp_path, ASK | {"max_tokens": 11})
    assert [each["custom_id"] for each in lines(tmp_path / "requests.jsonl")] == [second]
    client()
    assert [each["custom_id"] for each in server.requests("batch-1")] == [second]


@pytest.mark.parametrize("at", ["move", "upload", "create", "note", "fetch"])
def test_a_kill_anywhere_sends_nothing_twice(server, client, tmp_path, monkeypatch, at):
    name = waits(tmp_path)

    def kill(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        if at == "move":
            patched.setattr("pathlib.Path.rename", kill)
        elif at == "upload":
            patched.setattr("openai.resources.files.Files.create", kill)
        elif at == "create":
            patched.setattr("openai.resources.batches.Batches.create", kill)
        elif at == "note":
            whole = batch_client._write_state
            patched.setattr(
                batch_client,
                "_write_state",
                lambda path, sent: (kill if sent.batch else whole)(path, sent),
            )
        else:
            client()
            server.end("batch-0", reply(name))
            patched.setattr(batch_client, "_write_state", kill)
        with pytest.raises(KeyboardInterrupt):
            client()
    client()
    assert len(server.batches) == 1
    server.end("batch-0", reply(name))
    assert client() == []
    assert BatchEndpoint("m", BatchFolder(tmp_path)).complete(ASK).completion.choices


def test_a_file_that_is_refused_is_told_and_written_again(server, client, tmp_path):
    name = waits(tmp_path)
    client()
    server.batches["batch-0"] |= {
        "status": "failed",
        "errors": {"object": "list", "data": [{"message": "model not found", "code": "x"}]},
    }
    with pytest.raises(EndpointError, match="model not found") as raised:
        client()
    assert "\n" not in str(raised.value)
    assert waits(tmp_path) == name
    assert [each["custom_id"] for each in lines(tmp_path / "requests.jsonl")] == [name]
    assert client() == ["batch-1: in_progress, 0 of 1 done"]


def test_an_endpoint_that_is_down_is_one_line_and_loses_nothing(tmp_path):
    waits(tmp_path)
    down = openai.OpenAI(base_url="http://127.0.0.1:9/v1", api_key="none", max_retries=0)
    with pytest.raises(EndpointError, match="repeat the same command") as raised:
        BatchClient(BatchFolder(tmp_path), down).step()
    assert "\n" not in str(raised.value)
    with pytest.raises(WaitingError):
        BatchEndpoint("m", BatchFolder(tmp_path)).complete(ASK)
    assert BatchFolder(tmp_path).waiting == 1
