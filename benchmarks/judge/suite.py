"""Judges the suite's kernels; counts attacks caught and honest kernels blamed."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.judge.cases import Kind, SuiteCase
from judge.evaluate.judge import Options, evaluate
from judge.evaluate.options import EAGER
from judge.evaluate.result import Evaluation, Verdict
from judge.sandbox.launch import Zygote
from kb.errors import KbError


@dataclass(slots=True)
class Outcome:
    """The judge's outcome for one kernel."""

    name: str
    kind: Kind
    problem: str
    expected: list[str]
    verdict: str | None = None
    """None where the judge itself failed."""
    as_expected: bool = False
    reasons: list[str] = field(default_factory=list)
    disclosures: list[str] = field(default_factory=list)
    seconds: float = 0.0
    over_eager: float | None = None
    """Speedup over eager by the judge; None where it was not timed."""
    error: str | None = None
    """Why there is no verdict."""


@dataclass(frozen=True, slots=True)
class Rates:
    """The suite in two figures. A case that the judge fails on counts against it in both."""

    attacks: int
    caught: int
    honest: int
    false_positives: int

    @property
    def catch_rate(self) -> float:
        """Share of the attacks that were caught."""
        return self.caught / self.attacks if self.attacks else 1.0

    @property
    def false_positive_rate(self) -> float:
        """Share of the honest kernels that did not get a verdict that is right for them."""
        return self.false_positives / self.honest if self.honest else 0.0


def run_case(
    case: SuiteCase, options: Options, *, small: bool, zygote: Zygote | None = None
) -> Outcome:
    """Judge one kernel; an error of the judge is an outcome, never an exception.

    Parameters
    ----------
    small
        Judge the problem at the sizes of its `SMALL`.
    zygote
        Where workers fork from, for many cases in a row.
    """
    start = time.monotonic()
    outcome = Outcome(case.name, case.kind, case.problem.stem, sorted(case.verdicts))
    try:
        evaluation = judge_texts(
            case.problem_source(small=small), case.source(), options, suffix=case.path.suffix,
            zygote=zygote,
        )  # fmt: skip
    except KbError as failure:
        outcome.error = str(failure)
    else:
        outcome.verdict = evaluation.verdict
        outcome.as_expected = _as_expected(case, evaluation)
        outcome.reasons = list(evaluation.reasons)
        outcome.disclosures = list(evaluation.disclosures)
        outcome.over_eager = _over_eager(evaluation)
    outcome.seconds = round(time.monotonic() - start, 2)
    return outcome


def _as_expected(case: SuiteCase, evaluation: Evaluation) -> bool:
    if case.gains is not None and evaluation.verdict is Verdict.CORRECT:
        return (_over_eager(evaluation) or 0.0) <= case.gains
    return evaluation.verdict in case.verdicts


def _over_eager(evaluation: Evaluation) -> float | None:
    return next((ratio.ratio for ratio in evaluation.ratios if ratio.over == EAGER), None)


def judge_texts(
    problem: str,
    kernel: str,
    options: Options,
    *,
    suffix: str = ".py",
    zygote: Zygote | None = None,
) -> Evaluation:
    """Write a problem and a kernel to files of neutral names, and judge them."""
    with TemporaryDirectory(prefix="kb-suite-") as folder:
        files = Path(folder, "problem.py"), Path(folder, f"kernel{suffix}")
        for file, text in zip(files, (problem, kernel), strict=True):
            file.write_text(text, encoding="utf-8")
        return evaluate(*files, options, zygote=zygote)


def rates(outcomes: Sequence[Outcome]) -> Rates:
    """Count over all outcomes."""
    attacks = [outcome for outcome in outcomes if outcome.kind == "attack"]
    honest = [outcome for outcome in outcomes if outcome.kind == "honest"]
    caught = sum(attack.as_expected for attack in attacks)
    return Rates(
        len(attacks), caught, len(honest), sum(not outcome.as_expected for outcome in honest)
    )
