"""The `st:` and `openai:` embedders; the latter over real HTTP against a scripted server."""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import ModuleType

import numpy as np
import pytest

from kb.embedders import load_embedder
from kb.embedders.openai import TEXTS_PER_REQUEST, OpenAIEmbedder
from kb.errors import EmbedderError


def embeddings(request, dimensions=4):
    """What OpenAI's endpoint answers: one vector for each input, here in reverse order."""
    data = [
        {"object": "embedding", "index": i, "embedding": [len(text), *[1.0] * (dimensions - 1)]}
        for i, text in enumerate(request["input"])
    ]
    usage = {"prompt_tokens": 1, "total_tokens": 1}
    return {"object": "list", "model": request["model"], "data": data[::-1], "usage": usage}


class Scripted:
    """A server on loopback that plays `script`, one (status, body) for each request, then 200s."""

    def __init__(self, script=()):
        self.script = list(script)
        self.requests = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.requests.append((self.path, self.headers.get("Authorization"), sent))
                status, body = outer.script.pop(0) if outer.script else (200, embeddings)
                content = json.dumps(body(sent) if callable(body) else body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.send_header("retry-after-ms", "1")
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def serve(monkeypatch):
    servers = []

    def start(*script):
        servers.append(Scripted(script))
        monkeypatch.setenv("OPENAI_BASE_URL", servers[-1].url)
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def refusal(status, message="no"):
    return status, {"error": {"message": message, "type": "t", "code": None}}


def error_line(call):
    with pytest.raises(EmbedderError) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_texts_are_sent_in_batches_and_come_back_in_order_at_unit_length(serve):
    server = serve()
    embedder = load_embedder("openai:local-model")
    texts = ["x" * (1 + i) for i in range(TEXTS_PER_REQUEST + 3)]
    vectors = embedder.embed_documents(texts)
    assert [len(sent["input"]) for _, _, sent in server.requests] == [TEXTS_PER_REQUEST, 3]
    assert {path for path, _, _ in server.requests} == {"/v1/embeddings"}
    assert {sent["model"] for _, _, sent in server.requests} == {"local-model"}
    raw = np.array([[len(text), 1, 1, 1] for text in texts], dtype=np.float64)
    expected = raw / np.linalg.norm(raw, axis=1, keepdims=True)
    np.testing.assert_allclose(vectors, expected, atol=1e-6)
    assert vectors.dtype == np.float32


def test_dimensions_are_asked_for_once_and_the_name_is_known_without_asking(serve):
    server = serve()
    embedder = load_embedder("openai:m")
    assert embedder.name == "openai:m" and not server.requests
    assert embedder.dimensions == embedder.dimensions == 4
    assert len(server.requests) == 1
    assert embedder.embed_query("q").shape == (4,)
    assert embedder.embed_documents([]).shape == (0, 4)


def test_an_empty_text_is_sent_as_a_space_because_the_api_refuses_empty_ones(serve):
    server = serve()
    load_embedder("openai:m").embed_documents(["", "a\udc80"])
    assert server.requests[0][2]["input"] == [" ", "a?"]


def test_the_key_is_sent_when_there_is_one(serve, monkeypatch):
    server = serve()
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    load_embedder("openai:m").embed_query("q")
    assert server.requests[0][1] == "Bearer sk-test"


def test_neither_key_nor_endpoint_is_refused_before_any_request(monkeypatch):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert "OPENAI_API_KEY" in error_line(lambda: load_embedder("openai:m"))


def test_rate_limiting_and_server_errors_are_ridden_out(serve):
    server = serve(refusal(429), refusal(503), refusal(429))
    assert load_embedder("openai:m").embed_query("q").shape == (4,)
    assert len(server.requests) == 4


def test_rate_limiting_without_end_is_reported_after_the_retries(serve):
    server = serve(*[refusal(429)] * 10)
    line = error_line(lambda: OpenAIEmbedder("m", max_retries=2).embed_query("q"))
    assert "after 2 retries (429)" in line and server.url in line
    assert len(server.requests) == 3


def test_a_refused_key_is_reported_at_once_and_names_the_variable(serve):
    server = serve(refusal(401))
    line = error_line(lambda: load_embedder("openai:m").embed_query("q"))
    assert "refused the key (401): check OPENAI_API_KEY" in line
    assert len(server.requests) == 1


def test_an_unknown_model_is_reported_by_name(serve):
    serve(refusal(404))
    assert "no embedding model 'nope' (404)" in error_line(
        lambda: load_embedder("openai:nope").embed_query("q")
    )


def test_another_refusal_is_reported_with_the_first_line_of_its_message(serve):
    serve(refusal(400, "input is too long\nsecond line"))
    line = error_line(lambda: load_embedder("openai:m").embed_query("q"))
    assert "400" in line and "input is too long" in line and "second line" not in line


def test_an_unreachable_endpoint_is_reported_with_its_address(serve):
    server = serve()
    server.close()
    embedder = OpenAIEmbedder("m", max_retries=0)
    assert f"{server.url}/ cannot be reached" in error_line(lambda: embedder.embed_query("q"))


@pytest.mark.parametrize("url", ["not a url", "ftp://example.invalid", "http://[::1"])
def test_an_unusable_address_is_reported(url, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", url)

    def call():
        OpenAIEmbedder("m", max_retries=0).embed_query("q")

    assert "OPENAI_BASE_URL" in error_line(call)


def test_vectors_of_another_length_in_a_later_batch_are_refused(serve):
    serve((200, embeddings), (200, lambda sent: embeddings(sent, dimensions=5)))
    line = error_line(lambda: load_embedder("openai:m").embed_documents(["x"] * 65))
    assert "vectors of 5 dimensions after vectors of 4" in line


@pytest.mark.parametrize(
    "body",
    [
        {"object": "list", "data": []},
        {"hello": "world"},
        ["a", "list"],
        {"data": [{"index": 0, "embedding": "text"}]},
        {"data": [{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [1.0, 2.0]}]},
        {"data": [{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [2.0]}]},
        {"data": [{"embedding": None}]},
    ],
)
def test_an_answer_that_is_not_one_vector_for_each_text_is_refused(serve, body):
    serve((200, body))
    line = error_line(lambda: load_embedder("openai:m").embed_query("q"))
    assert "OpenAI-compatible" in line


def test_a_vector_without_direction_is_refused(serve):
    serve((200, {"data": [{"index": 0, "embedding": [0.0, 0.0]}]}))
    assert "zero or not finite" in error_line(lambda: load_embedder("openai:m").embed_query("q"))


def test_sentence_transformers_missing_is_reported_with_the_pip_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    line = error_line(lambda: load_embedder("st:some/model"))
    assert "pip install 'kernel-kb[embed]'" in line


def test_a_sentence_transformers_model_that_cannot_be_loaded_is_one_line(tmp_path):
    pytest.importorskip("sentence_transformers")
    embedder = load_embedder(f"st:{tmp_path}")
    assert embedder.name == f"st:{tmp_path}"
    assert "cannot load" in error_line(lambda: embedder.embed_query("x"))


def test_a_sentence_transformers_model_gives_unit_rows_with_its_own_prompts(tmp_path):
    """A real, tiny model with random weights, saved and loaded by its path."""
    pytest.importorskip("sentence_transformers")
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from tokenizers import Tokenizer
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    from kb.embedders.shipped import MODEL_FOLDER

    base = tmp_path / "base"
    config = BertConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32
    )
    BertModel(config).save_pretrained(base)
    PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_file(str(MODEL_FOLDER / "tokenizer.json")),
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=64,
    ).save_pretrained(base)
    transformer = Transformer(str(base), max_seq_length=64)
    model = SentenceTransformer(
        modules=[transformer, Pooling(16)],
        prompts={"query": "find: ", "document": ""},
        device="cpu",
    )
    model.save(str(tmp_path / "tiny"))

    embedder = load_embedder(f"st:{tmp_path / 'tiny'}")
    assert embedder.dimensions == 16
    vectors = embedder.embed_documents(["split-k", "find: split-k", ""])
    assert vectors.shape == (3, 16) and vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(embedder.embed_query("split-k"), vectors[1], atol=1e-5)
    assert abs(embedder.embed_query("split-k") @ vectors[0]) < 0.9999
    assert embedder.embed_documents([]).shape == (0, 16)
    assert isinstance(sys.modules["sentence_transformers"], ModuleType)
