"""The embedding model's training: the whole pipeline in small, and what it must never see."""

import hashlib
import json
import random
import zipfile
from pathlib import Path

import numpy as np
import pytest

from benchmarks.embedder.export import write_trained
from benchmarks.embedder.training import harvests
from benchmarks.embedder.training import train as training
from benchmarks.embedder.training.batches import batches
from benchmarks.embedder.training.dataset import all_texts, build
from benchmarks.embedder.training.device import encode
from benchmarks.embedder.training.exclusion import EVALUATION, Exclusion, judged_queries
from benchmarks.embedder.training.judged import Judged, JudgedPart, JudgedQuery, ndcg
from benchmarks.embedder.training.launch import earlier_models
from benchmarks.embedder.training.model import Encoder, read_change, read_start, write_change
from benchmarks.embedder.training.negatives import add_negatives
from benchmarks.embedder.training.objective import contrastive_loss
from benchmarks.embedder.training.records import MANIFEST_FILE, Document, Pair, TrainingSet
from benchmarks.embedder.training.sources import (
    TrainingPackage,
    states_foreign_licence,
    training_packages,
)
from benchmarks.embedder.training.trial import Trial
from benchmarks.retrieval.sentences import normalized
from ingest.sources.cache import Cache, Fetched
from kb.embedders.onnx import OnnxEmbedder
from kb.embedders.shipped import MODEL_FILE, MODEL_FOLDER, TOKENIZER_FILE, shipped_model
from kb.errors import SourceError

OPERATIONS = (
    ("row_sum", "Adds up the values of each row of a matrix", "acc += x"),
    ("row_max", "Finds the largest value that each row holds", "acc = max(acc, x)"),
    ("shift_left", "Moves all columns of a tensor one place to the left", "out[i - 1] = x"),
    ("clip_norm", "Scales a gradient down so that its norm stays bounded", "x *= bound / norm"),
    ("gather_rows", "Copies chosen rows of a table into a dense block", "out[j] = table[ids[j]]"),
    ("count_bins", "Counts the values that fall between two edges", "bins[int(x / width)] += 1"),
    ("blend", "Mixes two images by a mask of weights in one pass", "out[i] = a * m + b * (1 - m)"),
    ("rotate_pairs", "Turns neighbouring pairs of channels by an angle", "u, v = x * c - y * s, y"),
)
SHIPPED_PLAN = Path(training.__file__).with_name("plan-shipped.json")
SECRET = """
def fused_secret(values, weights, bias, eps):
    total = 0.0
    for value, weight in zip(values, weights):
        total = total * eps + value * weight - bias / (1.0 + abs(weight))
        if total > bias and weight < eps:
            total -= value * value
    return total / max(len(values), 1) + eps * bias
"""


def python_source() -> str:
    return "\n\n".join(
        f'def {name}(values, n):\n    """{doc}."""\n    acc = 0\n'
        "    for i, x in enumerate(values):\n"
        f"        {body}\n    return acc\n"
        for name, doc, body in OPERATIONS
    )


def cuda_source() -> str:
    return "\n\n".join(
        f"// {doc} on the device.\n"
        f"__global__ void {name}_kernel(float *out, const float *in, int n) {{\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i >= n) return;\n"
        f"  float acc = in[i];\n  out[i] = acc + {at};\n}}\n"
        for at, (name, doc, _) in enumerate(OPERATIONS)
    )


def package(cache: Cache, files: dict[str, str], name: str = "tiny", **more) -> TrainingPackage:
    """A wheel in the cache, as if it had been fetched."""
    wheel = cache.root / f"{name}-1.0-py3-none-any.whl"
    wheel.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
    fetched = Fetched(f"pypi:{name}", "1.0", sha256, wheel.name, "wheel", more.pop("says", "MIT"))
    cache.store(wheel, fetched, f"pypi:{name}==1.0 best")
    return TrainingPackage(name, "1.0", more.pop("sha256", sha256), "MIT", **more)


def test_the_whole_pipeline_runs_in_small_and_learns(tmp_path):
    cache = Cache(tmp_path / "cache")
    files = {"tiny/ops.py": python_source(), "tiny/ops.cu": cuda_source()}
    built = build([package(cache, files)], cache, Exclusion(), questions=None)
    add_negatives(built)
    built.write(tmp_path / "set")
    data = TrainingSet.read(tmp_path / "set")
    assert data == built
    assert {"docstring", "symbol"} <= set(data.manifest["kinds"])
    assert data.manifest["packages"][0]["licence"] == "MIT"
    docstrings = [pair for pair in data.pairs if pair.kind == "docstring"]
    assert len(docstrings) == 2 * len(OPERATIONS)
    for pair in docstrings:
        assert pair.query.rstrip(".") not in data.documents[pair.document].text

    training.torch.set_num_threads(1)  # threads that wait for each other cost more than they give
    device = training.torch.device("cpu")
    start = read_start(MODEL_FOLDER / MODEL_FILE)
    texts = training.load_texts(data, MODEL_FOLDER / TOKENIZER_FILE, None, device, "text")
    trial = Trial(
        "smoke",
        steps=10,
        batch=8,
        learning_rate=5e-5,
        document_tokens=32,
        query_tokens=16,
        mine_at=0.5,
        cluster_at=0.75,
        block=2,
    )
    judged = training.JudgedTexts(_judged(data), MODEL_FOLDER / TOKENIZER_FILE, device)
    before = _loss_of_docstrings(Encoder(start, trial.layers).eval(), data, texts, trial)
    model, done = training.train(data, texts, start, trial, device)
    assert _loss_of_docstrings(model, data, texts, trial) < 0.9 * before
    assert 0.5 < training.judge(model, judged, trial, device)["own"][""][0] <= 1

    training.write(model, start, done, {"trial": done.to_json()}, tmp_path / "out")
    parts = sorted((tmp_path / "out").glob("smoke.change.*"))
    write_trained(
        parts,
        MODEL_FOLDER / MODEL_FILE,
        tmp_path / "set" / MANIFEST_FILE,
        tmp_path / "model",
        tmp_path / "golden.json",
        min_cosine=0.9,  # a few steps leave the vector of an empty text badly determined
    )
    exported = OnnxEmbedder(tmp_path / "model")
    assert exported.name.startswith("onnx:kernel-minilm@")
    asked = exported.embed_documents([pair.query for pair in docstrings])
    found = exported.embed_documents([data.documents[pair.document].text for pair in docstrings])
    shipped = OnnxEmbedder()
    was = shipped.embed_documents([pair.query for pair in docstrings]) * shipped.embed_documents(
        [data.documents[pair.document].text for pair in docstrings]
    )
    assert (asked * found).sum(axis=1).mean() != pytest.approx(was.sum(axis=1).mean(), abs=1e-3)


def _loss_of_docstrings(model, data, texts, trial) -> float:
    torch = training.torch
    asked = [at for at, pair in enumerate(data.pairs) if pair.kind == "docstring"]
    answers = torch.tensor([data.pairs[at].document for at in asked])
    groups = torch.tensor([data.documents[at].group for at in answers])
    device = torch.device("cpu")
    queries = encode(model, texts.queries, torch.tensor(asked), trial.query_tokens, device)
    found = encode(model, texts.documents, answers, trial.document_tokens, device)
    none = torch.zeros(0, queries.shape[1])
    return float(contrastive_loss(queries, found, none, groups, groups[:0], trial.temperature))


def _judged(data: TrainingSet) -> Judged:
    asked = [pair for pair in data.pairs if pair.kind == "docstring"]
    groups = [f"group {document.group}" for document in data.documents]
    queries = [
        JudgedQuery(pair.query, "", {"it": 1}, {groups[pair.document]: "it"}) for pair in asked
    ]
    rows = list(range(len(data.documents)))
    return Judged(
        [document.text for document in data.documents],
        [JudgedPart("own", rows, groups, queries)],
    )


def test_a_copy_of_evaluation_code_is_left_out_however_it_is_renamed(tmp_path):
    exclusion = Exclusion()
    exclusion.add_files([("vllm/secret.py", SECRET)])
    disguised = SECRET.replace("def fused_secret(", "def innocent(").replace(
        "    total = 0.0\n",
        '    """Adds weights up by a rule of our own making."""\n    total = 0.0\n',
    )
    disguised = disguised.replace("return total", "# gives the mean\n    return total")
    cache = Cache(tmp_path)
    files = {"tiny/copied.py": disguised, "tiny/ops.py": python_source()}
    built = build([package(cache, files)], cache, exclusion, questions=None)
    texts = "\n".join(all_texts(built))
    assert "rule of our own making" not in texts
    assert "innocent" not in texts
    assert "row_sum" in texts
    assert built.manifest["packages"][0]["left_out"]["in an evaluation package"] == 1


def test_a_sentence_of_an_evaluation_package_is_not_asked_with(tmp_path):
    exclusion = Exclusion()
    other = 'def other(a):\n    """Finds the largest value that each row holds."""\n    return a\n'
    exclusion.add_files([("sglang/other.py", other)])
    cache = Cache(tmp_path)
    built = build(
        [package(cache, {"tiny/ops.py": python_source()})], cache, exclusion, questions=None
    )
    asked = {normalized(pair.query) for pair in built.pairs}
    assert "finds the largest value that each row holds" not in asked
    assert "adds up the values of each row of a matrix" in asked


def test_no_training_package_is_one_that_is_evaluated_on():
    names = {each.name for each in training_packages()}
    assert names
    assert not names & set(EVALUATION)
    families = ("flashinfer", "sglang", "sgl-kernel", "liger", "torchao", "vllm", "lmdeploy")
    assert not [name for name in names if name.startswith(families)]
    assert all(len(each.sha256) == 64 and each.licence for each in training_packages())


def test_no_question_that_is_trained_on_is_asked_by_kernel_retrieve():
    import yaml

    from benchmarks.embedder.training.entries import QUESTIONS_FILE

    judged = set(judged_queries())
    assert len(judged) > 300
    rows = yaml.safe_load(QUESTIONS_FILE.read_text(encoding="utf-8")).values()
    assert not judged & {normalized(row["text"]) for entry in rows for row in entry}


def test_code_near_what_validates_is_not_trained_on(tmp_path):
    cache = Cache(tmp_path)
    held = package(cache, {"held/secret.py": SECRET}, "held", held_out=True)
    documented = '    """Adds weights up by a rule that is ours alone."""\n    total = 0.0\n'
    copied = SECRET.replace("fused_secret", "renamed").replace("    total = 0.0\n", documented)
    both = [held, package(cache, {"tiny/a.py": copied + python_source()})]
    built = build(both, cache, Exclusion(), questions=None)
    assert "renamed" not in "\n".join(all_texts(built))
    left_out = built.manifest["packages"][1]["left_out"]
    assert left_out["near-duplicate of what validates"] == 1


def test_an_archive_with_another_hash_or_licence_stops_the_build(tmp_path):
    cache = Cache(tmp_path)
    files = {"tiny/ops.py": python_source()}
    with pytest.raises(SourceError, match="has sha256"):
        package(cache, files, sha256="0" * 64).fetch(cache)
    with pytest.raises(SourceError, match="GPL-3"):
        package(cache, files, says="GPL-3.0-only").fetch(cache)


def test_files_under_other_licences_are_passed_over():
    assert states_foreign_licence(
        "# This file is part of X, under the GNU General Public License\n"
    )
    assert states_foreign_licence("// NVIDIA Proprietary and confidential\n")
    assert not states_foreign_licence("# Licensed under the Apache License, Version 2.0\n")


def test_a_change_read_back_gives_the_trained_weights(tmp_path):
    chance = np.random.default_rng(0)
    start = {name: chance.normal(size=(5, 8)).astype(np.float32) for name in ("a", "b")}
    trained = {name: value + 0.01 * chance.normal(size=(5, 8)) for name, value in start.items()}
    trained["b"] = start["b"]
    path = tmp_path / "change"
    write_change(start, trained, path, {"name": "x"})
    read, about = read_change(start, path.read_bytes())
    assert about == {"name": "x"}
    assert np.abs(read["a"] - trained["a"]).max() < 2e-4
    assert np.array_equal(read["b"], start["b"])


def test_the_loss_falls_as_answers_come_nearer_and_spares_copies():
    torch = training.torch
    turned = torch.nn.functional.normalize(torch.eye(4) + 0.3, dim=-1)
    none, groups = torch.zeros(0, 4), torch.arange(4)
    far = contrastive_loss(turned, turned.roll(1, 0), none, groups, groups[:0], 0.1)
    near = contrastive_loss(turned, turned, none, groups, groups[:0], 0.1)
    assert near < far
    # A copy of the first answer: no negative of the first query, but one of the others.
    copy = contrastive_loss(turned, turned, turned[:1], groups, torch.tensor([0]), 0.1)
    other = contrastive_loss(turned, turned, turned[:1], groups, torch.tensor([9]), 0.1)
    assert near < copy < other


def test_a_step_holds_no_function_twice_and_only_one_pool(tmp_path):
    cache = Cache(tmp_path)
    files = {"tiny/ops.py": python_source(), "tiny/ops.cu": cuda_source()}
    built = build([package(cache, files)], cache, Exclusion(), questions=None)
    trial = Trial("x", batch=4)
    steps = batches(built.pairs, built.documents, trial)
    again = batches(built.pairs, built.documents, trial)
    for _ in range(20):
        chosen = next(steps)
        documents = [built.documents[built.pairs[at].document] for at in chosen]
        assert len({each.group for each in documents}) == len(documents) == 4
        assert len({each.language == "cuda" for each in documents}) == 1
        assert chosen.tolist() == next(again).tolist()


def test_pairs_of_a_cluster_come_in_blocks_and_each_comes_once():
    documents = [Document(f"d{at}", "python", "p", group=at) for at in range(60)]
    pairs = [Pair(f"query {at}", at, "docstring") for at in range(60)]
    clusters = np.arange(60) % 6
    trial = Trial("x", batch=20, block=5)
    steps = batches(pairs, documents, trial, clusters)
    seen = []
    for _ in range(3):
        chosen = next(steps)
        assert {int(np.sum(clusters[chosen] == each)) % 5 for each in range(6)} == {0}
        seen += chosen.tolist()
    assert sorted(seen) == list(range(60))


def test_a_build_that_was_broken_off_goes_on_with_what_is_kept(tmp_path, monkeypatch):
    cache, keep = Cache(tmp_path), tmp_path / "keep"
    packages = [
        package(cache, {"tiny/ops.py": python_source()}),
        package(cache, {"other/ops.cu": cuda_source()}, "other"),
    ]
    whole = build(packages, cache, Exclusion(), None, keep=keep)
    kept = sorted(keep.glob("*.pickle"))
    assert [each.name.split("-")[0] for each in kept] == ["other", "tiny"]
    kept[0].unlink()
    read = []
    unwatched = harvests.harvest

    def watched(one, *others):
        read.append(one.name)
        return unwatched(one, *others)

    monkeypatch.setattr(harvests, "harvest", watched)
    again = build(packages, cache, Exclusion(), None, keep=keep)
    assert read == ["other"]
    assert again == whole
    changed = Exclusion(sentences={"one more"})
    build(packages, cache, changed, None, keep=keep)
    assert read == ["other", "tiny", "other"]


def test_the_shipped_model_is_what_its_plan_makes():
    plan = json.loads(SHIPPED_PLAN.read_text())
    (name,) = plan["keep"]
    assert shipped_model().source["trial"] == name
    trained = {trial for card in plan["cards"] for trial in card}
    assert {part for _, part in plan["mixes"][name]} <= trained | {"start", *plan["earlier"]}
    for trial in trained:
        assert not Trial.read_row(
            plan["trials"][trial], trial
        ).seconds  # steps, so it is made again
    manifest = SHIPPED_PLAN.parents[1] / "results" / "training_set.json"
    said = shipped_model().source["training_set_sha256"]
    assert hashlib.sha256(manifest.read_bytes()).hexdigest() == said
    packages = {each["name"] for each in json.loads(manifest.read_text())["packages"]}
    assert packages == {each.name for each in training_packages()}


def test_an_earlier_release_is_known_by_its_hash(tmp_path):
    file = tmp_path / "model.onnx"
    file.write_bytes(b"another model")
    plan = {"earlier": {"first": "0" * 64}}
    with pytest.raises(SystemExit, match="give its file with --earlier first="):
        earlier_models(plan, [])
    with pytest.raises(SystemExit, match="has sha256"):
        earlier_models(plan, [f"first={file}"])
    model = MODEL_FOLDER / MODEL_FILE
    plan = {"earlier": {"first": hashlib.sha256(model.read_bytes()).hexdigest()}}
    found = earlier_models(plan, [f"first={model}"])["first"]
    assert found.keys() == read_start(model).keys()


def test_ndcg_counts_a_unit_once_and_passes_over_what_is_excluded():
    part = JudgedPart("p", [0, 1, 2, 3], ["a", "a", "b", "c"], [])
    scores = np.array([0.9, 0.8, 0.7, 0.6], np.float32)
    second = JudgedQuery("q", "", {"it": 1}, {"b": "it"})
    assert ndcg(scores, part, second) == pytest.approx(1 / np.log2(3))
    first = JudgedQuery("q", "", {"it": 1}, {"b": "it"}, excluded=[0, 1])
    assert ndcg(scores, part, first) == pytest.approx(1.0)


def test_pairs_and_their_documents_survive_the_disk(tmp_path):
    built = TrainingSet([], [Pair("ask", 0, "error", negatives=[random.Random(1).randrange(9)])])
    built.write(Path(tmp_path))
    assert TrainingSet.read(Path(tmp_path)).pairs == built.pairs
