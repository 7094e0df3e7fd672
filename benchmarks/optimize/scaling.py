"""`python -m benchmarks.optimize.scaling --out FILE`: a sweep on all GPUs of a host, and on one.

Needs two GPUs. Both arms make the same runs from nothing, each with caches of its own; the time of
an arm is that of the wall clock from before its judging processes start until its last report is
written. The arm with all GPUs goes first: what the system caches helps the other one. An arm that
has a record is not measured again, so each may have a call of its own (`--arm`).
"""

import argparse
import os
import platform
import shutil
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from agent.cards.local import local_cards
from agent.cards.pool import CardPool
from agent.cards.sweep import Runner, share
from benchmarks import results
from benchmarks.optimize.asking import Lines, configure, parser
from benchmarks.optimize.operators import load
from benchmarks.optimize.records import recorded
from benchmarks.tasks import Record
from kb.errors import KbError

ALL: Final = "all"
ONE: Final = "one"
_TARGET: Final = 0.6
# Compiling the baselines takes longer than the search, on the processor alone.
_BASELINES: Final = ("eager",)


def measure(options: argparse.Namespace, arm: str) -> dict[str, Any]:
    """The record of one arm: seconds, and what each run came to."""
    root = options.out.with_name(f"{options.out.stem}-{arm}")
    shutil.rmtree(root, ignore_errors=True)  # a part of an arm has no time
    os.environ["XDG_CACHE_HOME"] = str(root / "cache")
    configs = {
        each.name: configure(options, each.path, dtype=each.dtype, baselines=_BASELINES)
        for each in load(options.only)[: options.problems]
    }
    runs: dict[str, Record] = {}
    began = time.monotonic()
    with _cards(options, arm) as cards:
        started = time.monotonic() - began
        names = [card.name for card in cards]
        runner = Runner(options.index, cards, lambda run: Lines(run.name))

        def run(name: str) -> None:
            go = partial(runner.run, root / "runs" / name, configs[name])
            runs[name] = recorded(go, name=name)

        share(cards, list(configs), run)
        seconds = time.monotonic() - began
        lost = list(cards.lost)
    kept = ("failed", "better", "verdict", "gpu", "gpu_seconds", "wall_seconds", "versions")
    return {
        "seconds": round(seconds, 2),
        "seconds_to_start": round(started, 2),
        "cards": names,
        "lost": lost,
        "runs": {
            name: {key: runs[name][key] for key in kept if key in runs[name]} for name in configs
        },
    }


def _cards(options: argparse.Namespace, arm: str) -> AbstractContextManager[CardPool]:
    most = 1 if arm == ONE else None
    if options.ray is not None:
        from agent.cards.cluster import cluster_cards

        return cluster_cards(options.ray, interpret=options.interpret, most=most)
    return local_cards("all" if most is None else "1", interpret=options.interpret)


def summary(arms: dict[str, Any]) -> dict[str, Any]:
    """The ratio of both arms, and whether it is what was aimed at."""
    if not {ALL, ONE} <= arms.keys():
        return {}
    ratio = arms[ALL]["seconds"] / arms[ONE]["seconds"]
    walls = [each["wall_seconds"] for each in arms[ONE]["runs"].values() if "wall_seconds" in each]
    return {
        "cards": len(arms[ALL]["cards"]),
        "ratio": round(ratio, 3),
        "target": _TARGET,
        # A dry run has no figure.
        "met": ratio <= _TARGET and all(each.get("gpu") for each in arms[ALL]["runs"].values()),
        "median_wall_seconds_of_a_run": statistics.median(walls) if walls else None,
        "failed": {
            arm: sorted(name for name, each in found["runs"].items() if "failed" in each)
            for arm, found in arms.items()
        },
    }


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    made = parser(
        "benchmarks.optimize.scaling", "Time a sweep on all GPUs of a host, and on one.", None
    )
    made.add_argument(
        "--problems", type=int, default=16, metavar="N", help="of the forty operators (default: 16)"
    )
    made.add_argument("--arm", choices=(ALL, ONE), help="only this one")
    made.add_argument("--ray", metavar="ADDRESS", help="through a Ray cluster, as kb optimize")
    made.set_defaults(seconds_each=15.0, rounds=1, no_profile=True)
    return made.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Measure the arms that have no record; 1 if that cannot be done."""
    options = _options(arguments)
    found = results.load(options.out)
    arms = found.setdefault("arms", {})
    try:
        for arm in (ALL, ONE) if options.arm is None else (options.arm,):
            if arm in arms:
                continue
            arms[arm] = measure(options, arm)
            found |= {
                "date": datetime.now(UTC).isoformat(timespec="seconds"),
                "python": platform.python_version(),
                "cores": len(os.sched_getaffinity(0)),
                "ray": options.ray is not None,
                "problems": options.problems,
                "seconds_each": options.seconds_each,
                "summary": summary(arms),
            }
            results.save(options.out, found)
    except KbError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(found["summary"])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
