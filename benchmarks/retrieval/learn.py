"""Train the classifier of symptoms: `python -m benchmarks.retrieval.learn [--write]`.

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
from benchmarks.retrieval.fitting import DATA, make_parser, report
from benchmarks.retrieval.indexes import build_index, open_index
from benchmarks.retrieval.judgements import judged_texts, technique_cases
from benchmarks.retrieval.learn_wording import train_wording
from benchmarks.retrieval.teaching import Question, copies, novel, situations, teaching_questions
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
# One situation in eight is held out, to test the classifier.
_HELD_OUT = 8

Floats = NDArray[np.float64]


class TeachingSet(NamedTuple):
    """The n questions to train on."""

    questions: list[Question]
    vectors: NDArray[np.float32]
    """(n, dimensions)."""
    situations: NDArray[np.intp]
    """(n,)."""

    def subset(self, rows: NDArray[np.intp]) -> "TeachingSet":
        """The questions in `rows`."""
        questions = [self.questions[row] for row in rows]
        return TeachingSet(questions, self.vectors[rows], self.situations[rows])


def load_teaching_set(embedder: Embedder) -> TeachingSet:
    """The teaching set without copies and without what resembles a judged question."""
    questions = teaching_questions()
    vectors = embedder.embed_documents([question.text for question in questions])
    texts = judged_texts()
    keep = novel(questions, vectors, texts, embedder.embed_documents(texts))
    keep[[duplicate for _, duplicate in copies(questions, vectors)]] = False
    everything = TeachingSet(questions, vectors, situations(questions, vectors))
    return everything.subset(np.flatnonzero(keep))


def targets(questions: Sequence[Question], techniques: Sequence[str]) -> NDArray[np.float32]:
    """The target of each output, (n, techniques + 1), rows of sum 1.

    A question that only other techniques answer has a row of zeros: nothing is learned from it.
    """
    columns = {slug: column for column, slug in enumerate(techniques)}
    shares = np.zeros((len(questions), len(techniques) + 1), dtype=np.float32)
    for row, question in zip(shares, questions, strict=True):
        for slug, grade in question.techniques.items():
            if slug in columns:
                row[columns[slug]] = grade**_POWER
        row[-1] = float(not question.techniques)
    normalized: NDArray[np.float32] = shares / np.maximum(shares.sum(axis=1, keepdims=True), 1e-9)
    return normalized


def train(training: TeachingSet, techniques: Sequence[str], embedder: str) -> TrainedModels:
    """Both models. One thread and one seed: the same machine gives the same.

    Three networks from other seeds side by side were no better: 0.888 as each of them, 0.887 to
    0.889.
    """
    torch.set_num_threads(1)
    shares = targets(training.questions, techniques)
    counts = Counter(training.situations.tolist())
    # A situation counts for the square root of its questions: a paraphrase is no new one.
    weights = np.array(
        [counts[situation] ** -0.5 for situation in training.situations.tolist()], np.float32
    )
    tensors = (torch.from_numpy(array) for array in (training.vectors * _SCALE, shares, weights))
    hidden, *layers = _train_network(*tensors)
    network = Network(embedder, tuple(techniques), hidden * np.float32(_SCALE), *layers)
    wording = train_wording([question.text for question in training.questions], shares, weights)
    return TrainedModels(network, wording)


def _train_network(
    vectors: torch.Tensor, shares: torch.Tensor, weights: torch.Tensor
) -> list[NDArray[np.float32]]:
    """Weights and biases of both layers, (outputs, inputs) and (outputs,)."""
    torch.manual_seed(0)
    layers = torch.nn.Sequential(
        torch.nn.Dropout(0.1),
        torch.nn.Linear(vectors.shape[1], _UNITS),
        torch.nn.ReLU(),
        torch.nn.Dropout(_DROPPED),
        torch.nn.Linear(_UNITS, shares.shape[1]),
    )
    optimizer = torch.optim.AdamW(layers.parameters(), lr=_RATE, weight_decay=_DECAY)
    steps = _EPOCHS * -(-len(vectors) // _BATCH)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
    for _ in range(_EPOCHS):
        for batch in torch.randperm(len(vectors)).split(_BATCH):
            log_probs = torch.log_softmax(layers(vectors[batch]), dim=1)
            losses = -(shares[batch] * log_probs).sum(dim=1) * weights[batch]
            optimizer.zero_grad()
            (losses.sum() / weights[batch].sum()).backward()
            optimizer.step()
            schedule.step()
    first, second = layers[1], layers[4]
    parameters = (first.weight, first.bias, second.weight, second.bias)
    return [parameter.detach().numpy() for parameter in parameters]


def write(learned: TrainedModels) -> None:
    """Write the trained models, most arrays in half precision. Equal models give equal bytes."""
    network, wording = learned
    arrays = {
        name: getattr(network, name).astype(np.float16)
        for name in ("hidden", "hidden_bias", "output", "output_bias")
    }
    arrays["rarity"] = wording.rarity.astype(np.float16)
    arrays |= {name: getattr(wording, name) for name in ("weights", "scale", "bias")}
    np.savez_compressed(_TARGET, embedder=network.embedder, techniques=network.techniques, **arrays)


class Evaluator:
    """Scores the development half of the technique queries, among entries alone."""

    def __init__(self, embedder: Embedder, work: Path) -> None:
        built = build_index("corpus", work, embedder)
        with open_index(built.folder) as corpus:
            self.cases = [case for case in technique_cases(corpus) if case.half == "dev"]
            features = features_of(self.cases, corpus.generation, embedder)
        self._features, self._grades, self._names = features
        self._vectors = embedder.embed_documents([case.query for case in self.cases])
        self._embedder = embedder.name

    def scores(self, learned: TrainedModels | None) -> list[float]:
        """nDCG@10 of each query, with or without a classifier; weights are cross-validated."""
        features = self._features.copy()
        places = {name: place for place, name in enumerate(self._names)}
        # Without a trained model all techniques are equally likely.
        classifier = Classifier(self._embedder if learned else "", places, learned)
        likelihoods = np.array(
            [
                classifier.likelihoods(vector, case.query)
                for vector, case in zip(self._vectors, self.cases, strict=True)
            ]
        )
        all_queries, metric_queries = (FEATURES.index(name) for name in LEARNED)
        near = features[..., FEATURES.index("meaning: nearest three, with metrics")]
        features[..., all_queries] = likelihoods
        # Of queries with metrics only.
        features[..., metric_queries] = likelihoods * near.any(axis=1, keepdims=True)
        scores = cross_validated(features, self._grades, 0)
        pairs = zip(self.cases, scores, strict=True)
        return [entry_score(case, row, self._names) for case, row in pairs]


def _held_out_report(learned: TrainedModels, training: TeachingSet) -> str:
    """How well questions of the teaching set are answered, as text."""
    shares = targets(training.questions, learned.network.techniques)
    wording_logs = np.array([learned.wording.log_probabilities(q.text) for q in training.questions])
    logs = combine(learned.network.log_probabilities(training.vectors), wording_logs)
    answered = shares[:, -1] == 0
    is_best = shares[np.arange(len(shares)), logs[:, :-1].argmax(axis=1)] == shares.max(axis=1)
    refused = logs[:, -1] > np.log(0.5)
    return (
        f"first technique right {is_best[answered].mean():.3f}; nothing applies: recognised in "
        f"{refused[~answered].mean():.3f}, and in {refused[answered].mean():.3f} by mistake"
    )


def main() -> None:
    """Train, report, and with `--write` record."""
    arguments = make_parser(__doc__, write="record the classifier").parse_args()
    embedder = load_embedder()
    training = load_teaching_set(embedder)
    techniques = sorted({slug for question in training.questions for slug in question.techniques})
    if arguments.write:
        write(train(training, techniques, embedder.name))
        return
    evaluator = Evaluator(embedder, arguments.work)
    order = np.random.default_rng(0).permutation(int(training.situations.max()) + 1)
    mask = np.isin(training.situations, order[::_HELD_OUT])
    styles = [case.labels["style"] for case in evaluator.cases]
    report("without a classifier", zip(styles, evaluator.scores(None), strict=True))
    learned = train(training.subset(np.flatnonzero(~mask)), techniques, embedder.name)
    report("with the classifier", zip(styles, evaluator.scores(learned), strict=True))
    held_out = training.subset(np.flatnonzero(mask))
    print("  held-out situations: " + _held_out_report(learned, held_out))


if __name__ == "__main__":
    main()
