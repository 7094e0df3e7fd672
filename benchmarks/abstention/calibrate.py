"""Fit and test abstention: `python -m benchmarks.abstention.calibrate [--write]`.

Fits a logistic regression on the evidence of the calibration questions and of the development half
of KernelRetrieve's technique and unanswerable queries, over two indexes: the shipped corpus alone,
and the corpus beside the packages of KernelRetrieve, since cosines and coverage grow with what is
indexed; there also on the development half of the function queries, since who looks for code must
not be refused. The threshold is chosen on the questions. The held-out questions are then answered
once, by the same code that users run. `--write` puts the weights into kb/data/abstention.yaml.
"""

from contextlib import ExitStack
from dataclasses import asdict, astuple
from pathlib import Path

import numpy as np
import yaml
from sklearn.linear_model import LogisticRegression

from benchmarks.retrieval.cases import half_of
from benchmarks.retrieval.fitting import DATA, make_parser
from benchmarks.retrieval.functions import function_cases
from benchmarks.retrieval.indexes import build_index, open_index
from benchmarks.retrieval.judgements import FOLDER as _JUDGED
from kb.embedders import Embedder, load_embedder
from kb.search.abstention import Calibration, Evidence, relevance
from kb.search.engine import Searcher
from kb.search.models import Filters
from kb.vocabulary import load_yaml

_QUESTIONS = Path(__file__).with_name("questions.yaml")
_TARGET = DATA / "abstention.yaml"
_HEAD = (
    '# When to answer "nothing relevant": see kb/search/abstention.py.\n'
    "# Written by `python -m benchmarks.abstention.calibrate --write`.\n"
)
# Weak regularisation: nine features and hundreds of questions do not overfit, but separable data
# would push the weights up without end.
_C = 3.0
# At most this share of answerable calibration questions may be refused, of either index; the
# threshold is the highest that keeps it. Half of the 3 % allowed on questions not fitted on.
_MAX_REFUSED = 0.015


def _questions() -> dict[str, dict[str, list[str]]]:
    """Part → side → questions: `calibrate`, which is fitted on, and `held_out`."""
    questions: dict[str, dict[str, list[str]]] = load_yaml(_QUESTIONS.read_text(encoding="utf-8"))
    for side, name in (("answerable", "techniques"), ("unanswerable", "unanswerable")):
        judged = load_yaml((_JUDGED / f"{name}.yaml").read_text(encoding="utf-8"))
        questions["calibrate"][side] += [
            entry["query"] for entry in judged if half_of(entry["id"]) == "dev"
        ]
    return questions


def _fit_and_report(
    work: Path, embedder: Embedder, questions: dict[str, dict[str, list[str]]]
) -> Calibration:
    with ExitStack() as stack:
        searchers: dict[str, Searcher] = {}
        queries: dict[str, list[str]] = {}
        for name in ("corpus", "full"):
            built = build_index(name, work, embedder)
            corpus = stack.enter_context(open_index(built.folder))
            searchers[name] = Searcher(corpus.generation, embedder)
            if name == "full":
                cases = function_cases(name, built, corpus)
                queries[name] = [case.query for case in cases if case.half == "dev"]
        calibration = _fit(searchers, questions["calibrate"], queries)
        print(calibration)
        for name, searcher in searchers.items():
            for part in ("calibrate", "held_out"):
                _report(f"{name}, {part}", searcher, calibration, questions[part])
        for name, texts in queries.items():
            _report(f"{name}, functions", searchers[name], calibration, {"answerable": texts})
    return calibration


def _evidence(searcher: Searcher, questions: list[str]) -> list[Evidence]:
    return [searcher.rank(question, 10, Filters()).evidence for question in questions]


def _fit(
    searchers: dict[str, Searcher], questions: dict[str, list[str]], queries: dict[str, list[str]]
) -> Calibration:
    """`queries`: questions for code, by index. They are fitted on, but do not choose the threshold:
    they outnumber all other questions together."""
    rows: list[Evidence] = []
    labels: list[int] = []
    answerable: list[list[Evidence]] = []
    for searcher in searchers.values():
        for label, side in ((1, "answerable"), (0, "unanswerable")):
            batch = _evidence(searcher, questions[side])
            rows += batch
            labels += [label] * len(batch)
            if label:
                answerable.append(batch)
    count = len(rows)
    for name, texts in queries.items():
        rows += _evidence(searchers[name], texts)
    labels += [1] * (len(rows) - count)
    model = LogisticRegression(C=_C, class_weight="balanced", max_iter=1000)
    model.fit(np.array([astuple(row) for row in rows]), np.array(labels))
    weights = tuple(round(float(weight), 4) for weight in model.coef_[0])
    fitted = Calibration(round(float(model.intercept_[0]), 4), weights, 0.0)
    # The highest threshold that refuses no more of either index's questions than may be.
    thresholds = [
        sorted(relevance(evidence, fitted) for evidence in batch)[int(_MAX_REFUSED * len(batch))]
        for batch in answerable
    ]
    return Calibration(fitted.bias, weights, round(float(min(thresholds)) - 1e-4, 4))


def _report(
    name: str, searcher: Searcher, calibration: Calibration, sides: dict[str, list[str]]
) -> None:
    for side, questions in sides.items():
        scores = [relevance(evidence, calibration) for evidence in _evidence(searcher, questions)]
        pairs = zip(questions, scores, strict=True)
        refused = [question for question, score in pairs if score < calibration.threshold]
        print(f"{name:<18} {side:<13} refused {len(refused)} of {len(questions)}")
        for question in questions:
            if (question in refused) == (side == "answerable"):
                print(f"    wrong: {question}")


def main() -> None:
    """Fit, report, and with `--write` record."""
    arguments = make_parser(__doc__, write="record the weights").parse_args()
    questions = _questions()
    embedder = load_embedder()
    calibration = _fit_and_report(arguments.work, embedder, questions)
    if arguments.write:
        fitted = asdict(calibration) | {"weights": list(calibration.weights)}
        data = {"default": embedder.name, "embedders": {embedder.name: fitted}}
        _TARGET.write_text(_HEAD + yaml.safe_dump(data, sort_keys=False), encoding="utf-8")


if __name__ == "__main__":
    main()
