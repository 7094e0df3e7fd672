"""The embedding model's training: the whole pipeline in small, and what it must never see."""

import hashlib
import json
import zipfile

import pytest
from safetensors.numpy import save_file
from tokenizers import Tokenizer

from benchmarks.embedder.export import write_trained
from benchmarks.embedder.training import train as training
from benchmarks.embedder.training.batches import batches
from benchmarks.embedder.training.dataset import build
from benchmarks.embedder.training.exclusion import EVALUATION, Exclusion
from benchmarks.embedder.training.model import Encoder, mix, read_start
from benchmarks.embedder.training.records import MANIFEST_FILE, TrainingSet
from benchmarks.embedder.training.sources import (
    TrainingPackage,
    states_foreign_licence,
    training_packages,
)
from benchmarks.embedder.training.texts import Texts, TokenRows
from benchmarks.embedder.training.train import PLAN_FILE, Plan, contrastive_loss, earlier_models
from benchmarks.retrieval.judgements import judged_texts
from benchmarks.retrieval.sentences import normalized
from ingest.sources.cache import Cache, Fetched
from kb.embedders.onnx import OnnxEmbedder
from kb.embedders.shipped import MODEL_FILE, MODEL_FOLDER, TOKENIZER_FILE, shipped_model
from kb.errors import SourceError
from kb.vocabulary import load_yaml

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
PLAN = Plan.model_validate_json(PLAN_FILE.read_text())
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


def all_texts(built: TrainingSet) -> str:
    return "\n".join([d.text for d in built.documents] + [p.query for p in built.pairs])


def test_the_whole_pipeline_runs_in_small_and_learns(tmp_path):
    cache = Cache(tmp_path / "cache")
    files = {"tiny/ops.py": python_source(), "tiny/ops.cu": cuda_source()}
    built = build([package(cache, files)], cache, Exclusion(), questions=None)
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
    texts = Texts.tokenize(data, MODEL_FOLDER / TOKENIZER_FILE, 32, 16, device)
    trial = PLAN.trial.model_copy(update={"steps": 3, "batch": 8})
    before = _loss_of_docstrings(Encoder(start).eval(), data, texts)
    model = training.train(data, texts, start, trial, device)
    assert _loss_of_docstrings(model, data, texts) < 0.9 * before

    weights = tmp_path / "smoke.safetensors"
    save_file(mix((0.5, model.arrays()), (0.5, start)), weights)
    write_trained(
        weights,
        MODEL_FOLDER,
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


def _loss_of_docstrings(model, data, texts) -> float:
    torch = training.torch
    asked = [at for at, pair in enumerate(data.pairs) if pair.kind == "docstring"]
    answers = torch.tensor([data.pairs[at].document for at in asked])
    groups = torch.tensor([data.documents[at].group for at in answers])
    with torch.no_grad():
        queries = model(*texts.queries.take(torch.tensor(asked)))
        found = model(*texts.documents.take(answers))
    return float(contrastive_loss(queries, found, groups, PLAN.trial.temperature))


def test_a_long_text_is_cut_and_ends_as_every_text_does():
    torch = training.torch
    tokenizer = Tokenizer.from_file(str(MODEL_FOLDER / TOKENIZER_FILE))
    texts = ["sums rows", "word " * 100]
    rows = TokenRows(texts, tokenizer, 20, torch.device("cpu"))
    ids, mask = rows.take(torch.tensor([1, 0]))
    assert ids.shape == mask.shape == (2, 20)
    assert mask.sum(1).tolist() == [20, 4]
    assert ids[0, -1] == ids[1, 3] == 102  # [SEP]
    assert rows.take(torch.tensor([0]))[0].shape == (1, 16)


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
    texts = all_texts(built)
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
    from benchmarks.embedder.training.entries import QUESTIONS_FILE

    judged = set(map(normalized, judged_texts()))
    assert len(judged) > 300
    rows = load_yaml(QUESTIONS_FILE.read_text(encoding="utf-8")).values()
    assert not judged & {normalized(row["text"]) for entry in rows for row in entry}


def test_code_near_what_validates_is_not_trained_on(tmp_path):
    cache = Cache(tmp_path)
    held = package(cache, {"held/secret.py": SECRET}, "held", held_out=True)
    documented = '    """Adds weights up by a rule that is ours alone."""\n    total = 0.0\n'
    copied = SECRET.replace("fused_secret", "renamed").replace("    total = 0.0\n", documented)
    both = [held, package(cache, {"tiny/a.py": copied + python_source()})]
    built = build(both, cache, Exclusion(), questions=None)
    assert "renamed" not in all_texts(built)
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


def test_the_loss_falls_as_answers_come_nearer_and_spares_copies():
    torch = training.torch
    turned = torch.nn.functional.normalize(torch.eye(4) + 0.3, dim=-1)
    groups = torch.arange(4)
    far = contrastive_loss(turned, turned.roll(1, 0), groups, 0.1)
    near = contrastive_loss(turned, turned, groups, 0.1)
    assert near < far
    # Two answers that are alike: no mistake where they are copies of each other.
    alike = turned.clone()
    alike[1] = alike[0]
    copies = torch.tensor([0, 0, 2, 3])
    assert contrastive_loss(turned, alike, copies, 0.1) < contrastive_loss(
        turned, alike, groups, 0.1
    )


def test_a_step_holds_no_function_twice_and_only_one_pool(tmp_path):
    cache = Cache(tmp_path)
    files = {"tiny/ops.py": python_source(), "tiny/ops.cu": cuda_source()}
    built = build([package(cache, files)], cache, Exclusion(), questions=None)
    choices = (4, PLAN.trial.pools, PLAN.trial.kinds, 7)
    steps = batches(built.pairs, built.documents, *choices)
    again = batches(built.pairs, built.documents, *choices)
    for _ in range(20):
        chosen = next(steps)
        documents = [built.documents[built.pairs[at].document] for at in chosen]
        assert len({each.group for each in documents}) == len(documents) == 4
        assert len({each.language == "cuda" for each in documents}) == 1
        assert chosen.tolist() == next(again).tolist()


def test_packages_are_read_by_several_processes_in_their_order(tmp_path):
    cache = Cache(tmp_path)
    packages = [
        package(cache, {"tiny/ops.py": python_source()}),
        package(cache, {"other/ops.cu": cuda_source()}, "other"),
    ]
    alone = build(packages, cache, Exclusion(), None)
    assert [each["name"] for each in alone.manifest["packages"]] == ["tiny", "other"]
    assert build(packages, cache, Exclusion(), None, workers=2) == alone


def test_the_shipped_model_is_what_its_plan_makes():
    assert shipped_model().source["trial"] == PLAN.name
    assert set(PLAN.mix) == {PLAN.trial.name, *PLAN.earlier}
    manifest = PLAN_FILE.parents[1] / "results" / "training_set.json"
    said = shipped_model().source["training_set_sha256"]
    assert hashlib.sha256(manifest.read_bytes()).hexdigest() == said
    packages = {each["name"] for each in json.loads(manifest.read_text())["packages"]}
    assert packages == {each.name for each in training_packages()}


def test_an_earlier_release_is_known_by_its_hash(tmp_path):
    file = tmp_path / "model.onnx"
    file.write_bytes(b"another model")
    plan = PLAN.model_copy(update={"earlier": {"first": "0" * 64}})
    with pytest.raises(SystemExit, match="give its file with --earlier first="):
        earlier_models(plan, [])
    with pytest.raises(SystemExit, match="has sha256"):
        earlier_models(plan, [f"first={file}"])
    model = MODEL_FOLDER / MODEL_FILE
    known = {"first": hashlib.sha256(model.read_bytes()).hexdigest()}
    plan = PLAN.model_copy(update={"earlier": known})
    found = earlier_models(plan, [f"first={model}"])["first"]
    assert found.keys() == read_start(model).keys()
