"""Teach what symptoms mean: `python -m benchmarks.retrieval.learn [--write]`.

Trains the classifier of `kb/search/classifier.py` on the teaching set: a network of one hidden
layer from a question's embedding to the techniques that answer it, and a linear model of its words
(`learn_wording.py`), both by the cross-entropy to the squared grades. What resembles a question of
KernelRetrieve is left out, and of the judged questions only the development half is scored, for
which the weights of entries are cross-validated as in `fit`.

`--write` records the classifier for the product; run `benchmarks.retrieval.fit --write` after it.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.retrieval.fit import cross_validated, entry_score, features_of
from benchmarks.retrieval.fitting import DATA, parser, report
from benchmarks.retrieval.indexes import build_index, opened
from benchmarks.retrieval.judgements import judged_texts, technique_cases
from benchmarks.retrieval.learn_wording import train_wording
from benchmarks.retrieval.teaching import Question, copies, situations, teaching_questions, unlike
from kb.embedders import Embedder, load_embedder
from kb.search.classifier import FILE, Classifier, Network, TrainedModels, combine
from kb.search.weighing import FEATURES, LEARNED

_TARGET = DATA / FILE
# Chosen on held-out situations of the teaching set.
_UNITS = 512
_EPOCHS = 25
_BATCH = 128
_RATE = 1e-3
_DECAY = 0.05
_DROPPED = 0.4
# A unit vector's components are small: so they have about the variance that layers are made for.
_SCALE = 16.0
# A technique of grade 3 is worth nine of grade 1, as in `fit`.
_POWER = 2.0
# One situation in eight is held out to see what was learned.
_HELD_OUT = 8

Floats = NDArray[np.float64]


class Teaching(NamedTuple):
    """What is trained on, n questions."""

    questions: list[Question]
    vectors: NDArray[np.float32]
    """(n, dimensions)."""
    situations: NDArray[np.intp]
    """(n,)."""

    def of(self, rows: NDArray[np.intp]) -> "Teaching":
        """Those in `rows`."""
        questions = [self.questions[row] for row in rows]
        return Teaching(questions, self.vectors[rows], self.situations[rows])


def teaching(embedder: Embedder) -> Teaching:
    """The teaching set without copies and without what resembles a judged question."""
    questions = teaching_questions()
    vectors = embedder.embed_documents([question.text for question in questions])
    texts = judged_texts()
    kept = unlike(questions, vectors, texts, embedder.embed_documents(texts))
    kept[[later for _, later in copies(questions, vectors)]] = False
    whole = Teaching(questions, vectors, situations(questions, vectors))
    return whole.of(np.flatnonzero(kept))


def targets(questions: Sequence[Question], techniques: Sequence[str]) -> NDArray[np.float32]:
    """What each output should be, (n, techniques + 1), rows of sum 1.

    A question that only other techniques answer has a row of zeros: nothing is learned from it.
    """
    place = {slug: at for at, slug in enumerate(techniques)}
    wanted = np.zeros((len(questions), len(techniques) + 1), dtype=np.float32)
    for row, question in zip(wanted, questions, strict=True):
        for slug, grade in question.techniques.items():
            if slug in place:
                row[place[slug]] = grade**_POWER
        row[-1] = float(not question.techniques)
    shares: NDArray[np.float32] = wanted / np.maximum(wanted.sum(axis=1, keepdims=True), 1e-9)
    return shares


def train(taught: Teaching, techniques: Sequence[str], embedder: str) -> TrainedModels:
    """Both models. One thread and one seed: the same machine gives the same.

    Three networks from other seeds side by side were no better: 0.888 as each of them, 0.887 to
    0.889.
    """
    torch.set_num_threads(1)
    wanted = targets(taught.questions, techniques)
    counts = Counter(taught.situations.tolist())
    # A situation counts for the square root of its questions: a paraphrase is no new one.
    weights = np.array(
        [counts[situation] ** -0.5 for situation in taught.situations.tolist()], np.float32
    )
    tensors = (torch.from_numpy(each) for each in (taught.vectors * _SCALE, wanted, weights))
    hidden, *others = _trained(*tensors)
    network = Network(embedder, tuple(techniques), hidden * np.float32(_SCALE), *others)
    wording = train_wording([question.text for question in taught.questions], wanted, weights)
    return TrainedModels(network, wording)


def _trained(
    vectors: torch.Tensor, wanted: torch.Tensor, weights: torch.Tensor
) -> list[NDArray[np.float32]]:
    """Weights and biases of both layers, (outputs, inputs) and (outputs,)."""
    torch.manual_seed(0)
    layers = torch.nn.Sequential(
        torch.nn.Dropout(0.1),
        torch.nn.Linear(vectors.shape[1], _UNITS),
        torch.nn.ReLU(),
        torch.nn.Dropout(_DROPPED),
        torch.nn.Linear(_UNITS, wanted.shape[1]),
    )
    optimizer = torch.optim.AdamW(layers.parameters(), lr=_RATE, weight_decay=_DECAY)
    steps = _EPOCHS * -(-len(vectors) // _BATCH)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
    for _ in range(_EPOCHS):
        for batch in torch.randperm(len(vectors)).split(_BATCH):
            logs = torch.log_softmax(layers(vectors[batch]), dim=1)
            losses = -(wanted[batch] * logs).sum(dim=1) * weights[batch]
            optimizer.zero_grad()
            (losses.sum() / weights[batch].sum()).backward()
            optimizer.step()
            schedule.step()
    first, second = layers[1], layers[4]
    found = (first.weight, first.bias, second.weight, second.bias)
    return [each.detach().numpy() for each in found]


def write(learned: TrainedModels) -> None:
    """Record what was learned, most of it in half precision. The same gives the same bytes."""
    network, wording = learned
    arrays = {
        name: getattr(network, name).astype(np.float16)
        for name in ("hidden", "hidden_bias", "output", "output_bias")
    }
    arrays["rarity"] = wording.rarity.astype(np.float16)
    arrays |= {name: getattr(wording, name) for name in ("weights", "scale", "bias")}
    np.savez_compressed(_TARGET, embedder=network.embedder, techniques=network.techniques, **arrays)


class Judge:
    """Scores the development half of the technique queries, among entries alone."""

    def __init__(self, embedder: Embedder, work: Path) -> None:
        built = build_index("corpus", work, embedder)
        with opened(built.folder) as corpus:
            self.cases = [case for case in technique_cases(corpus) if case.half == "dev"]
            found = features_of(self.cases, corpus.generation, embedder)
        self._features, self._grades, self._names = found
        self._vectors = embedder.embed_documents([case.query for case in self.cases])
        self._embedder = embedder.name

    def scores(self, learned: TrainedModels | None) -> list[float]:
        """nDCG@10 of each query, with or without a classifier; weights are cross-validated."""
        features = self._features.copy()
        places = {name: place for place, name in enumerate(self._names)}
        # Where nothing was learned, no technique is told from another.
        classifier = Classifier(self._embedder if learned else "", places, learned)
        told = np.array(
            [
                classifier.likelihoods(vector, case.query)
                for vector, case in zip(self._vectors, self.cases, strict=True)
            ]
        )
        plain, measured = (FEATURES.index(name) for name in LEARNED)
        near = features[..., FEATURES.index("meaning: nearest three, with metrics")]
        features[..., plain] = told
        features[..., measured] = told * near.any(axis=1, keepdims=True)  # of queries with metrics
        scores = cross_validated(features, self._grades, 0)
        pairs = zip(self.cases, scores, strict=True)
        return [entry_score(case, row, self._names) for case, row in pairs]


def _held_out(learned: TrainedModels, taught: Teaching) -> str:
    """How well questions of the teaching set are answered, as text."""
    wanted = targets(taught.questions, learned.network.techniques)
    by_words = np.array([learned.wording.log_probabilities(q.text) for q in taught.questions])
    logs = combine(learned.network.log_probabilities(taught.vectors), by_words)
    answered = wanted[:, -1] == 0
    best = wanted[np.arange(len(wanted)), logs[:, :-1].argmax(axis=1)] == wanted.max(axis=1)
    refused = logs[:, -1] > np.log(0.5)
    return (
        f"first technique right {best[answered].mean():.3f}; nothing applies: told of "
        f"{refused[~answered].mean():.3f}, and of {refused[answered].mean():.3f} by mistake"
    )


def main() -> None:
    """Train, report, and with `--write` record."""
    arguments = parser(__doc__, write="record the classifier").parse_args()
    embedder = load_embedder()
    taught = teaching(embedder)
    techniques = sorted({slug for question in taught.questions for slug in question.techniques})
    if arguments.write:
        write(train(taught, techniques, embedder.name))
        return
    judge = Judge(embedder, arguments.work)
    order = np.random.default_rng(0).permutation(int(taught.situations.max()) + 1)
    held = np.isin(taught.situations, order[::_HELD_OUT])
    styles = [case.labels["style"] for case in judge.cases]
    report("without a classifier", zip(styles, judge.scores(None), strict=True))
    learned = train(taught.of(np.flatnonzero(~held)), techniques, embedder.name)
    report("with the classifier", zip(styles, judge.scores(learned), strict=True))
    print("  held-out situations: " + _held_out(learned, taught.of(np.flatnonzero(held))))


if __name__ == "__main__":
    main()
