"""The shipped embedder, and choosing embedders by name."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kb.embedders import Embedder, load_embedder
from kb.embedders.cpus import cgroup_quota, usable_cpus
from kb.embedders.onnx import OnnxEmbedder
from kb.embedders.shipped import MODEL_FOLDER
from kb.embedders.tokens import TOKENIZER_NAME, count_tokens
from kb.errors import EmbedderError

GOLDEN = json.loads(Path(__file__).with_name("test_embedders_golden.json").read_text())
TEXTS = [
    "coalesced access",
    "def add(x, y):\n    return x + y\n",
    "",
    "a tile is read from L2 again and again " * 60,
    "__global__ void k(float *x) { x[threadIdx.x] *= 2.f; }",
    "naïve 🚀 カーネル",
    "split-k",
]


@pytest.fixture(scope="module")
def shipped() -> Embedder:
    return load_embedder()


def damaged_copy(folder: Path) -> Path:
    return Path(shutil.copytree(MODEL_FOLDER, folder / "model"))


def test_a_vector_does_not_depend_on_the_texts_around_it_nor_on_their_order(shipped):
    together = shipped.embed_documents(TEXTS)
    backwards = shipped.embed_documents(TEXTS[::-1])[::-1]
    alone = np.stack([shipped.embed_documents([text])[0] for text in TEXTS])
    queries = np.stack([shipped.embed_query(text) for text in TEXTS])
    for other in (backwards, alone, queries):
        assert together.tobytes() == other.tobytes()


def test_vectors_are_the_same_to_the_bit_in_another_session_with_other_threads(shipped):
    once = shipped.embed_documents(TEXTS)
    assert once.tobytes() == OnnxEmbedder(workers=1).embed_documents(TEXTS).tobytes()
    assert once.tobytes() == OnnxEmbedder(workers=4).embed_documents(TEXTS).tobytes()


def test_vectors_are_float32_of_unit_length_also_for_empty_and_overlong_texts(shipped):
    vectors = shipped.embed_documents(TEXTS)
    assert vectors.shape == (len(TEXTS), shipped.dimensions) == (len(TEXTS), 384)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_no_texts_give_no_vectors(shipped):
    assert shipped.embed_documents([]).shape == (0, 384)


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["text"][:20] or "empty")
def test_vectors_are_nearly_those_of_the_float32_model(shipped, case):
    expected = np.array(case["vector"])
    cosine = shipped.embed_query(case["text"]) @ expected / np.linalg.norm(expected)
    assert cosine >= 0.99


def test_only_the_first_256_tokens_are_read(shipped):
    head = "word " * (256 - 2)
    read, cut = shipped.embed_documents([head, head + "and something else entirely"])
    assert read.tobytes() == cut.tobytes()
    earlier = shipped.embed_query("something else entirely " + head)
    assert read.tobytes() != earlier.tobytes()


def test_a_lone_surrogate_is_embedded_as_a_question_mark(shipped):
    assert (
        shipped.embed_query("tile\udc80size").tobytes()
        == shipped.embed_query("tile?size").tobytes()
    )


def test_an_interrupted_call_drops_the_texts_it_has_not_begun(shipped):
    class Stopped(Exception):
        pass

    begun = []
    original = OnnxEmbedder._embed

    class Stopping(OnnxEmbedder):
        def _embed(self, text):
            begun.append(text)
            if len(begun) == 2:
                raise Stopped
            return original(self, text)

    with pytest.raises(Stopped):
        Stopping(workers=2).embed_documents(["x " * 200] * 500)
    assert len(begun) < 100


def test_the_name_carries_the_hash_of_the_model_file(shipped):
    import hashlib

    digest = hashlib.sha256((MODEL_FOLDER / "model.onnx").read_bytes()).hexdigest()
    assert shipped.name == f"onnx:kernel-minilm@{digest[:8]}"


def test_the_shipped_embedder_answers_to_the_name_an_index_recorded(shipped):
    assert load_embedder("default").name == shipped.name
    assert load_embedder(shipped.name).name == shipped.name
    with pytest.raises(EmbedderError, match="not the one shipped"):
        load_embedder("onnx:all-MiniLM-L6-v2@bc9936f0")  # the default before


@pytest.mark.parametrize("name", ["", "word2vec", "st:", "openai:", "hf:some/model", "ST:x"])
def test_an_unknown_name_is_refused_with_the_three_forms(name):
    with pytest.raises(EmbedderError) as caught:
        load_embedder(name)
    for form in ("'default'", "'st:<model or path>'", "'openai:<model>'"):
        assert form in str(caught.value)


@pytest.mark.parametrize("file", ["model.onnx", "tokenizer.json"])
def test_a_flipped_bit_in_a_model_file_is_refused_with_the_remedy(tmp_path, file):
    folder = damaged_copy(tmp_path)
    content = bytearray((folder / file).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / file).write_bytes(content)
    with pytest.raises(EmbedderError, match=rf"{file} is damaged .* reinstall") as caught:
        OnnxEmbedder(folder).embed_query("x")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("file", ["model.onnx", "tokenizer.json", "model.toml"])
def test_a_missing_or_cut_model_file_is_refused_before_anything_is_embedded(tmp_path, file):
    folder = damaged_copy(tmp_path)
    content = (folder / file).read_bytes()
    (folder / file).write_bytes(content[: len(content) // 2])
    with pytest.raises(EmbedderError, match="reinstall"):
        OnnxEmbedder(folder)
    (folder / file).unlink()
    with pytest.raises(EmbedderError, match="reinstall"):
        OnnxEmbedder(folder)


def test_the_default_embedder_loads_neither_torch_nor_transformers_nor_chromadb():
    code = (
        "import sys; import kb.embedders\n"
        "assert 'onnxruntime' not in sys.modules, 'the package alone loads onnxruntime'\n"
        "kb.embedders.load_embedder().embed_documents(['x', 'y'])\n"
        "print(sorted({'torch', 'transformers', 'chromadb', 'openai'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_counting_tokens_loads_no_model():
    code = (
        "import sys; from kb.embedders.tokens import count_tokens\n"
        "assert count_tokens('shared memory') == 2\n"
        "print(sorted({'onnxruntime', 'torch', 'chromadb'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_tokens_are_counted_without_limit_or_special_tokens():
    assert TOKENIZER_NAME == "all-MiniLM-L6-v2"
    assert count_tokens("") == 0
    assert count_tokens("x") == 1
    assert count_tokens("x " * 5000) == 5000


def test_token_counts_of_texts_joined_by_white_space_add_up():
    texts = [case["text"] for case in GOLDEN] + TEXTS
    assert count_tokens("\n\n".join(texts)) == sum(map(count_tokens, texts))


def test_a_long_unbroken_word_is_not_counted_as_one_token():
    assert count_tokens("q7" * 5000) > 1000
    assert count_tokens("a\udc80b") == 3


def test_a_container_with_a_cpu_quota_uses_no_more_than_it(tmp_path):
    membership = tmp_path / "cgroup"
    membership.write_text("0::/app/worker\n")
    (tmp_path / "root/app/worker").mkdir(parents=True)
    (tmp_path / "root/app/worker/cpu.max").write_text("max 100000\n")
    (tmp_path / "root/app/cpu.max").write_text("150000 100000\n")
    assert cgroup_quota(tmp_path / "root", membership) == 1.5
    (tmp_path / "root/app/cpu.max").write_text("max 100000\n")
    assert cgroup_quota(tmp_path / "root", membership) is None


def test_an_old_style_quota_is_read_from_the_mount_when_the_group_is_not_visible(tmp_path):
    membership = tmp_path / "cgroup"
    membership.write_text("4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n0::/\n")
    mount = tmp_path / "root/cpu,cpuacct"
    mount.mkdir(parents=True)
    (mount / "cpu.cfs_quota_us").write_text("200000\n")
    (mount / "cpu.cfs_period_us").write_text("100000\n")
    assert cgroup_quota(tmp_path / "root", membership) == 2.0
    (mount / "cpu.cfs_quota_us").write_text("-1\n")
    assert cgroup_quota(tmp_path / "root", membership) is None


def test_usable_cpus_is_at_least_one_and_rounds_a_quota_up(monkeypatch):
    for quota, expected in ((0.25, 1), (1.5, 2), (None, 64)):
        monkeypatch.setattr("kb.embedders.cpus.cgroup_quota", lambda quota=quota: quota)
        monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(64)), raising=False)
        assert usable_cpus() == expected
