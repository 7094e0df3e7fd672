"""A fuzzer of the judge: honest kernels, and mutants of them, on Triton's interpreter.

`python -m benchmarks.judge.mutants --out FILE` judges every honest Triton kernel, then mutants of
those (`benchmarks.judge.mutation`). A mutant that the judge finds wrong by its values counts as
caught. One that passes is compared with the reference at many more shapes
(`benchmarks.judge.differing`): if its results are never beyond tolerance it is equal, else it has
escaped. Mutants that raise or hang at every shape are left out: they cannot be missed. Exits with
1 unless 99 % are caught and no honest kernel is blamed.
"""

import argparse
import dataclasses
import os
import random
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"  # before anything imports Triton

from benchmarks.judge.differing import differs
from benchmarks.judge.mutation import Mutant, mutants
from benchmarks.judge.subjects import Subject, subjects
from benchmarks.judge.suite import judge_texts
from benchmarks.results import load, save
from judge.evaluate.options import Options
from judge.evaluate.result import RIGHT, Evaluation, Verdict
from judge.sandbox.launch import Zygote
from kb.errors import KbError

_CALL_SECONDS = 60.0
_COMPARE_SECONDS = 20.0
_LEAST_SHARE = 0.99


Key = tuple[str, int, str, str]
"""Kernel, line, kind and change: which mutant it is."""


@dataclass(frozen=True, slots=True)
class HonestResult:
    """The judge's result for one honest kernel."""

    name: str
    verdict: str | None
    """None if there is none: `why` is the error."""
    blamed: bool
    """Judged wrong or cheating, or without a verdict. Inconclusive kernels are counted apart."""
    why: str
    seconds: float


@dataclass(frozen=True, slots=True)
class MutantResult:
    """The judge's result for one mutant."""

    kernel: str
    kind: str
    line: int
    change: str
    verdict: str | None
    why: str
    outcome: str
    """caught, escaped, equal (its results never differ), raises, or untold (cannot be compared)."""
    differs: str
    """Of an escaped one: where its results are beyond tolerance."""
    seconds: float

    @property
    def key(self) -> Key:
        """Which mutant it is."""
        return self.kernel, self.line, self.kind, self.change


class Fuzzer:
    """Judges subjects and mutants, two at a time, in forks of one process."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.honest: list[HonestResult] = []
        self.judged: list[MutantResult] = []
        self._arguments = arguments
        self._zygote = Zygote(interpret=True)
        self._selected: set[Key] | None = None
        if arguments.same:
            self._selected = {MutantResult(**row).key for row in load(arguments.same)["judged"]}
        self._lock = threading.Lock()

    def close(self) -> None:
        """End all processes."""
        self._zygote.close()

    def run(self, chosen: list[Subject]) -> None:
        """Judge the subjects, then mutants of those that the judge calls right."""
        options, selected = self._arguments, self._selected
        with ThreadPoolExecutor(options.workers) as pool:
            correct = list(pool.map(self._honest, chosen))
            jobs = [
                (subject, mutant)
                for subject, is_correct in zip(chosen, correct, strict=True)
                if is_correct or selected is not None
                for mutant in mutants(subject.kernel, subject.name, options.seed, options.each)
                if selected is None or _key(subject, mutant) in selected
            ]
            random.Random(options.seed).shuffle(jobs)
            list(pool.map(lambda job: self._mutant(*job), jobs[: options.mutants]))

    def _evaluate(self, problem: str, kernel: str) -> tuple[Evaluation | None, str]:
        """The evaluation, and its reasons; None and the error where there is none."""
        options = Options(interpret=True, timing=False, call_seconds=_CALL_SECONDS)
        try:
            evaluation = judge_texts(problem, kernel, options, zygote=self._zygote)
        except KbError as error:
            return None, str(error)[:300]
        return evaluation, "; ".join(evaluation.reasons)[:300]

    def _honest(self, subject: Subject) -> bool:
        """Judge an honest kernel; whether it is worth mutating."""
        start = time.monotonic()
        evaluation, reason = self._evaluate(subject.problem, subject.kernel)
        verdict = evaluation.verdict if evaluation is not None else None
        blamed = verdict not in (*RIGHT, Verdict.INCONCLUSIVE)
        seconds = round(time.monotonic() - start, 2)
        result = HonestResult(subject.name, verdict, blamed, reason, seconds)
        self._add(self.honest, result, f"{'BLAMED' if blamed else 'ok':7} {result.name}")
        return verdict == Verdict.CORRECT and seconds < self._arguments.seconds

    def _mutant(self, subject: Subject, mutant: Mutant) -> None:
        start, where = time.monotonic(), ""
        evaluation, reason = self._evaluate(subject.problem, mutant.text)
        outcome: str = "untold" if evaluation is None else _outcome(evaluation)
        if outcome == "escaped":
            outcome, where = differs(subject.problem, mutant.text, subject.kernel, _COMPARE_SECONDS)
        result = MutantResult(
            subject.name, mutant.kind, mutant.line, mutant.change,
            evaluation.verdict if evaluation is not None else None, reason, outcome, where,
            round(time.monotonic() - start, 2),
        )  # fmt: skip
        line = f"{outcome:8} {subject.name} line {mutant.line}, {mutant.kind}: {mutant.change}"
        self._add(self.judged, result, line)

    def _add(self, results: list[Any], item: HonestResult | MutantResult, line: str) -> None:
        with self._lock:
            results.append(item)
            print(f"{line[:150]}  [{item.verdict}, {item.seconds} s] {item.why[:100]}", flush=True)
            if self._arguments.out:  # after every one: a session may be cut off
                save(self._arguments.out, self.result())

    def result(self) -> dict[str, Any]:
        """Everything so far, and the rates."""
        outcomes = Counter(result.outcome for result in self.judged)
        caught, escaped = outcomes["caught"], outcomes["escaped"]
        share = caught / (caught + escaped) if caught + escaped else 1.0
        honest = sorted(self.honest, key=lambda result: result.name)
        judged = sorted(self.judged, key=lambda result: (result.kernel, result.line, result.change))
        return {
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "seed": self._arguments.seed,
            "honest": len(honest),
            "blamed": sum(result.blamed for result in honest),
            "inconclusive": sum(result.verdict == Verdict.INCONCLUSIVE for result in honest),
            "mutants": len(judged),
            "kernels": len({result.kernel for result in judged}),
            "outcomes": dict(sorted(outcomes.items())),
            "share_caught": round(share, 4),
            "judged": [dataclasses.asdict(result) for result in judged],
            "honest_kernels": [dataclasses.asdict(result) for result in honest],
        }


def _key(subject: Subject, mutant: Mutant) -> Key:
    return subject.name, mutant.line, mutant.kind, mutant.change


def _outcome(evaluation: Evaluation) -> str:
    """The outcome of a mutant by the judge's verdict alone."""
    if evaluation.verdict in RIGHT or evaluation.verdict is Verdict.INCONCLUSIVE:
        return "escaped"
    checked = [case for case in evaluation.cases if case.counted and case.max_abs is not None]
    wrong = [case for case in checked if not case.passed]
    return "caught" if wrong else "raises"


def main() -> int:
    """Parse the command line, judge, report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.judge.mutants", description=__doc__)
    parser.add_argument("--out", type=Path, help="JSON file for the raw results")
    parser.add_argument(
        "--same", type=Path, metavar="FILE",
        help="the mutants that an earlier FILE has, however long their originals take",
    )  # fmt: skip
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these kernels")
    parser.add_argument("--mutants", type=int, default=400, help="at most so many")
    parser.add_argument("--each", type=int, default=8, help="at most so many of one kernel")
    parser.add_argument("--seed", type=int, default=0, help="of the choice of mistakes")
    parser.add_argument("--workers", type=int, default=2, help="evaluations at a time")
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="no mutants of kernels that take longer"
    )
    arguments = parser.parse_args()
    chosen = [
        subject for subject in subjects() if not arguments.only or subject.name in arguments.only
    ]
    if not chosen:
        sys.exit("error: no such kernel; names are like suite/softmax_row or corpus/matmul_plain")
    fuzzer = Fuzzer(arguments)
    try:
        fuzzer.run(chosen)
    finally:
        fuzzer.close()
    result = fuzzer.result()
    print(
        f"mutants caught: {result['share_caught']:.1%} of those whose results differ "
        f"({result['outcomes']}, of {result['kernels']} kernels); honest kernels blamed: "
        f"{result['blamed']} of {result['honest']}, {result['inconclusive']} inconclusive"
    )
    return 0 if result["share_caught"] >= _LEAST_SHARE and not result["blamed"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
