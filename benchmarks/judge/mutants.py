"""A fuzzer of the judge: honest kernels, and mutants of them, on Triton's interpreter.

`python -m benchmarks.judge.mutants --out FILE` judges every honest Triton kernel, then mutants of
those (`benchmarks.judge.mutation`). A mutant that the judge finds wrong by its values counts as
caught. One that it lets pass is held against the reference at many more shapes
(`benchmarks.judge.differing`): where its results are never beyond tolerance it is none, else it has
escaped. Mutants that raise or hang at every shape are left out: nobody could miss those. Exits with
1 unless 99 % are caught and no honest kernel is blamed.
"""

import argparse
import dataclasses
import json
import os
import random
import sys
import tempfile
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
from judge.evaluate.judge import evaluate
from judge.evaluate.options import Options
from judge.evaluate.result import RIGHT, Evaluation, Verdict
from judge.sandbox.launch import Zygote
from kb.errors import KbError

_CALL_SECONDS = 60.0
_COMPARE_SECONDS = 20.0
_LEAST_SHARE = 0.99


@dataclass(frozen=True, slots=True)
class Honest:
    """What the judge said of one honest kernel."""

    name: str
    verdict: str | None
    """None where there was none: `why` is the error."""
    blamed: bool
    """It is called wrong or a cheat, or there is no verdict. What is inconclusive is no blame, and
    is counted apart."""
    why: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Judged:
    """What the judge said of one mutant."""

    kernel: str
    kind: str
    line: int
    change: str
    verdict: str | None
    why: str
    outcome: str
    """caught, escaped, equal (its results never differ), raises, or untold (cannot be compared)."""
    differs: str
    """Where results of an escaped one are beyond tolerance."""
    seconds: float


class Fuzzer:
    """Judges subjects and mutants, two at a time, in forks of one process."""

    def __init__(self, out: Path | None, arguments: argparse.Namespace) -> None:
        self.honest: list[Honest] = []
        self.judged: list[Judged] = []
        self._out, self._arguments = out, arguments
        self._zygote = Zygote(interpret=True)
        self._known: dict[str, Any] = {"honest_kernels": [], "judged": []}
        if arguments.resume:
            self._known = json.loads(arguments.resume.read_text())
        self._wanted: set[tuple[str, ...]] | None = None
        if arguments.same:
            earlier = json.loads(arguments.same.read_text())["judged"]
            self._wanted = {_identity(Judged(**each)) for each in earlier}
        self._lock = threading.Lock()

    def close(self) -> None:
        """End all processes."""
        self._zygote.close()

    def run(self, chosen: list[Subject]) -> None:
        """Judge the subjects, then mutants of those that the judge calls right."""
        with ThreadPoolExecutor(self._arguments.workers) as pool:
            right = list(pool.map(self._honest, chosen))
            if self._wanted is not None:
                right = [True] * len(chosen)
            jobs = [
                (subject, mutant)
                for subject, fine in zip(chosen, right, strict=True)
                if fine
                for mutant in mutants(
                    subject.kernel, subject.name, self._arguments.seed, self._arguments.each
                )
                if self._wanted is None or _of(subject, mutant) in self._wanted
            ]
            random.Random(self._arguments.seed).shuffle(jobs)
            list(pool.map(lambda job: self._mutant(*job), jobs[: self._arguments.mutants]))

    def _evaluate(self, problem: str, kernel: str) -> Evaluation:
        with tempfile.TemporaryDirectory(prefix="kb-mutants-") as name:
            folder = Path(name)
            (folder / "problem.py").write_text(problem)
            (folder / "kernel.py").write_text(kernel)
            options = Options(interpret=True, timing=False, call_seconds=_CALL_SECONDS)
            return evaluate(
                folder / "problem.py", folder / "kernel.py", options, zygote=self._zygote
            )

    def _honest(self, subject: Subject) -> bool:
        for each in self._known["honest_kernels"]:
            if each["name"] == subject.name and each["verdict"] in RIGHT:
                self.honest.append(Honest(**each))
                return self._worth_mutating(self.honest[-1])
        start, verdict, why = time.monotonic(), None, ""
        try:
            found = self._evaluate(subject.problem, subject.kernel)
            verdict, why = found.verdict, "; ".join(found.reasons)[:300]
        except KbError as error:
            why = str(error)[:300]
        seconds = round(time.monotonic() - start, 2)
        blamed = verdict not in (*RIGHT, Verdict.INCONCLUSIVE)
        told = Honest(subject.name, verdict, blamed, why, seconds)
        self._note(self.honest, told, f"{'BLAMED' if told.blamed else 'ok':7} {told.name}", told)
        return self._worth_mutating(told)

    def _worth_mutating(self, honest: Honest) -> bool:
        return honest.verdict == Verdict.CORRECT and honest.seconds < self._arguments.seconds

    def _mutant(self, subject: Subject, mutant: Mutant) -> None:
        for each in self._known["judged"]:
            same = (each["kernel"], each["line"], each["kind"], each["change"])
            wanted = (subject.name, mutant.line, mutant.kind, mutant.change)
            if same == wanted and each["outcome"] in ("caught", "raises", "equal"):
                self.judged.append(Judged(**each))
                return
        start, verdict, why, where = time.monotonic(), None, "", ""
        outcome: str
        try:
            found = self._evaluate(subject.problem, mutant.text)
            verdict, why = found.verdict, "; ".join(found.reasons)[:300]
            outcome = _outcome(found)
        except KbError as error:
            outcome, why = "untold", str(error)[:300]
        if outcome == "escaped":
            outcome, where = differs(subject.problem, mutant.text, subject.kernel, _COMPARE_SECONDS)
        told = Judged(
            subject.name, mutant.kind, mutant.line, mutant.change, verdict, why, outcome, where,
            round(time.monotonic() - start, 2),
        )  # fmt: skip
        line = f"{outcome:8} {subject.name} line {mutant.line}, {mutant.kind}: {mutant.change}"
        self._note(self.judged, told, line, told)

    def _note(self, kept: list[Any], what: Any, line: str, told: Honest | Judged) -> None:
        with self._lock:
            kept.append(what)
            print(f"{line[:150]}  [{told.verdict}, {told.seconds} s] {told.why[:100]}", flush=True)
            if self._out:  # after every one: a session may be cut off
                self._out.parent.mkdir(parents=True, exist_ok=True)
                self._out.write_text(json.dumps(self.result(), indent=1) + "\n")

    def result(self) -> dict[str, Any]:
        """Everything so far, and the rates."""
        outcomes = Counter(each.outcome for each in self.judged)
        caught, escaped = outcomes["caught"], outcomes["escaped"]
        share = caught / (caught + escaped) if caught + escaped else 1.0
        return {
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "seed": self._arguments.seed,
            "honest": len(self.honest),
            "blamed": sum(each.blamed for each in self.honest),
            "inconclusive": sum(each.verdict == Verdict.INCONCLUSIVE for each in self.honest),
            "mutants": len(self.judged),
            "kernels": len({each.kernel for each in self.judged}),
            "outcomes": dict(sorted(outcomes.items())),
            "share_caught": round(share, 4),
            "judged": [dataclasses.asdict(each) for each in sorted(self.judged, key=_place)],
            "honest_kernels": [
                dataclasses.asdict(each) for each in sorted(self.honest, key=lambda e: e.name)
            ],
        }


def _identity(judged: Judged) -> tuple[str, ...]:
    return judged.kernel, str(judged.line), judged.kind, judged.change


def _of(subject: Subject, mutant: Mutant) -> tuple[str, ...]:
    return subject.name, str(mutant.line), mutant.kind, mutant.change


def _place(each: Judged) -> tuple[str, int, str]:
    return each.kernel, each.line, each.change


def _outcome(found: Evaluation) -> str:
    """What a verdict says of a mutant, as far as it goes by itself."""
    if found.verdict in RIGHT or found.verdict is Verdict.INCONCLUSIVE:
        return "escaped"
    compared = [each for each in found.cases if each.counted and each.max_abs is not None]
    wrong = [each for each in compared if not each.passed]
    return "caught" if wrong else "raises"


def main() -> int:
    """Parse the command line, judge, report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.judge.mutants", description=__doc__)
    parser.add_argument("--out", type=Path, help="JSON file for the raw results")
    parser.add_argument(
        "--resume", type=Path, metavar="FILE",
        help="keep what an earlier FILE found right or caught; judge the rest, and what is missing",
    )  # fmt: skip
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
    chosen = [each for each in subjects() if not arguments.only or each.name in arguments.only]
    if not chosen:
        sys.exit("error: no such kernel; names are like suite/softmax_row or corpus/matmul_plain")
    fuzzer = Fuzzer(arguments.out, arguments)
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
