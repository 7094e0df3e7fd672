"""Run attacks and honest kernels through the judge: `python -m benchmarks.judge --out FILE`.

On a GPU by default: everything, timing included. `--device cpu --interpret` judges what Triton's
interpreter can run, without times: attacks on timing are left out there. Prints one line a kernel,
the catch rate and the false-positive rate, and writes all of it to FILE as JSON. Exits with 1
unless every attack is caught and no honest kernel is blamed.
"""

import argparse
import dataclasses
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.judge.cases import ROOT, SuiteCase, read_suite
from benchmarks.judge.suite import Outcome, rates, run_case
from benchmarks.results import save
from judge.evaluate.judge import Options
from judge.sandbox.launch import Zygote

# max-autotune takes a minute a problem; an attack on its time shows in eager's as well.
_BASELINES = ("eager",)


def main() -> int:
    """Parse the command line, judge, report."""
    options = _arguments()
    cases = _selected_cases(options)
    judge_options = Options(
        device=options.device, interpret=options.interpret, timing=not options.interpret,
        baselines=_BASELINES, call_seconds=options.call_seconds,
    )  # fmt: skip
    outcomes: list[Outcome] = []
    zygote = Zygote(interpret=options.interpret)
    try:
        for case in cases:
            outcome = run_case(case, judge_options, small=options.interpret, zygote=zygote)
            if outcome.error:  # whatever went wrong: the next case starts afresh
                zygote.close()
                zygote = Zygote(interpret=options.interpret)
            outcomes.append(outcome)
            print(_line(outcome), flush=True)
            if options.out:  # after every case: a session may be cut off
                _write(options, outcomes)
    finally:
        zygote.close()
    totals = rates(outcomes)
    print(
        f"attacks caught: {totals.caught} of {totals.attacks} ({totals.catch_rate:.0%}); "
        f"honest kernels blamed: {totals.false_positives} of {totals.honest} "
        f"({totals.false_positive_rate:.0%})"
    )
    return 0 if totals.caught == totals.attacks and not totals.false_positives else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.judge", description=__doc__)
    parser.add_argument("--device", default=None, help="cuda:N or cpu; default: the first GPU")
    parser.add_argument("--interpret", action="store_true", help="on the CPU, at small sizes")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these kernels")
    parser.add_argument("--kind", choices=("attack", "honest"), help="only these")
    parser.add_argument("--out", type=Path, help="JSON file for the raw results")
    parser.add_argument(
        "--call-seconds", type=float, default=30.0, help="longest call; hanging attacks take it all"
    )
    return parser.parse_args()


def _selected_cases(options: argparse.Namespace) -> list[SuiteCase]:
    kinds = (options.kind,) if options.kind else ("attack", "honest")
    cases = [case for kind in kinds for case in read_suite(kind)]
    if unknown := sorted(set(options.only) - {case.name for case in cases}):
        sys.exit(f"error: no kernel {', '.join(unknown)} in {ROOT}")
    return [
        case
        for case in cases
        if (not options.only or case.name in options.only)
        and not (options.interpret and case.needs == "gpu")
    ]


def _line(outcome: Outcome) -> str:
    mark = "ok  " if outcome.as_expected else "MISS" if outcome.kind == "attack" else "FALSE"
    verdict = outcome.verdict or "no verdict"
    reason = outcome.error or (outcome.reasons[0] if outcome.reasons else "")
    head = f"{mark:5} {outcome.kind:6} {outcome.name:28} {verdict:12} {outcome.seconds:6.1f} s"
    return f"{head}  {reason[:120]}"


def _write(options: argparse.Namespace, outcomes: list[Outcome]) -> None:
    totals = rates(outcomes)
    commit = ["git", "rev-parse", "HEAD"]
    process = subprocess.run(commit, cwd=ROOT, capture_output=True, text=True, check=False)
    data: dict[str, Any] = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": process.stdout.strip() or None,
        "device": options.device or "cuda:0",
        "interpreted": options.interpret,
        "rates": dataclasses.asdict(totals)
        | {"catch_rate": totals.catch_rate, "false_positive_rate": totals.false_positive_rate},
        "outcomes": [dataclasses.asdict(outcome) for outcome in outcomes],
    }
    save(options.out, data)


if __name__ == "__main__":
    raise SystemExit(main())
