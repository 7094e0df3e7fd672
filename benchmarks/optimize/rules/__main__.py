"""`python -m benchmarks.optimize.rules --landscapes FILE --out FILE`: the rules on and off.

The landscapes come from `benchmarks.optimize.rules.measure`; this needs no GPU.
"""

import argparse
import math
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.optimize import records
from benchmarks.optimize.asking import ended
from benchmarks.optimize.rules.walk import Landscape, Walk, walk
from kb.errors import InvalidInputError

ARMS: dict[str, dict[str, bool]] = {
    "both": {"crossover": True, "retirement": True},
    "no-crossover": {"crossover": False, "retirement": True},
    "no-retirement": {"crossover": True, "retirement": False},
    "neither": {"crossover": False, "retirement": False},
}
# Candidates judged: a short run, one of eight full rounds, and a long one.
BUDGETS = (16, 32, 64)
SEEDS = 100


def main(arguments: list[str] | None = None) -> int:
    """Search, compare, write and print."""
    options = _options(arguments)
    measured = records.load(options.landscapes)
    found = [Landscape.of(e) for e in measured["records"].values() if e.get("eager_ms")]
    if not found:
        raise InvalidInputError(
            f"{options.landscapes} holds no landscape: measure some with "
            "`python -m benchmarks.optimize.rules.measure`"
        )
    walks = {
        arm: {
            each.name: [walk(each, seed, max(BUDGETS), **rules) for seed in range(options.seeds)]
            for each in found
        }
        for arm, rules in ARMS.items()
    }
    told = {
        "gpus": measured.get("gpus"),
        "landscapes": measured.get("date"),
        "seeds": options.seeds,
        "operators": {each.name: _about(each) for each in found},
        "arms": {arm: summary(walks[arm], walks["neither"], found) for arm in ARMS},
    }
    records.save(options.out, told)
    print(table(told))
    return 0


def _about(landscape: Landscape) -> dict[str, Any]:
    right = [ms for ms in landscape.ms.values() if ms is not None]
    return {
        "families": landscape.families,
        "points": len(landscape.ms),
        "work": len(right),
        "eager_ms": landscape.eager_ms,
        "best_ms": landscape.best_ms,
    }


def summary(
    mine: dict[str, list[Walk]], neither: dict[str, list[Walk]], found: Sequence[Landscape]
) -> dict[str, Any]:
    """One arm: how far above the best of all points it ends, and against the arm without rules."""
    best = {each.name: each.best_ms for each in found}
    return {
        "at": {str(budget): _at(mine, neither, best, budget) for budget in BUDGETS},
        "combined": _mean([w.combined for walks in mine.values() for w in walks]),
        "combined_that_led": _mean([w.combined_led for walks in mine.values() for w in walks]),
        "retired": _mean([w.retired for walks in mine.values() for w in walks]),
    }


def _at(
    mine: dict[str, list[Walk]], neither: dict[str, list[Walk]], best: dict[str, float], budget: int
) -> dict[str, Any]:
    above: dict[str, float] = {}
    against: dict[str, tuple[float, float]] = {}
    for name, walks in mine.items():
        logs = [math.log(w.best[:budget][-1] / best[name]) for w in walks]
        theirs = [math.log(w.best[:budget][-1] / best[name]) for w in neither[name]]
        above[name] = statistics.fmean(logs)
        gains = [b - a for a, b in zip(logs, theirs, strict=True)]  # of the same seed
        error = statistics.stdev(gains) / math.sqrt(len(gains)) if len(gains) > 1 else 0.0
        against[name] = (statistics.fmean(gains), 1.96 * error)
    total = statistics.fmean(mean for mean, _ in against.values())
    # Operators are taken as given: the interval is of the searches' own chance.
    error = math.sqrt(sum(half**2 for _, half in against.values())) / len(against)
    return {
        "over_the_best_point": math.exp(statistics.fmean(above.values())),
        "by_operator": {name: math.exp(value) for name, value in above.items()},
        "faster_than_neither": math.exp(total),
        "low": math.exp(total - error),
        "high": math.exp(total + error),
        "better_on": sorted(name for name, (mean, half) in against.items() if mean > half > 0),
        "worse_on": sorted(name for name, (mean, half) in against.items() if mean < -half < 0),
    }


def _mean(values: Sequence[int]) -> float:
    return round(statistics.fmean(values), 2) if values else 0.0


def table(told: dict[str, Any]) -> str:
    """A line an arm and budget."""
    lines = [
        f"{'rules':<15}{'judged':>7}{'over the best':>15}  {'faster than neither':<28}"
        f"{'better/worse on':<18}combined (led), retired"
    ]
    for arm, each in told["arms"].items():
        for budget, at in each["at"].items():
            ratio = f"{at['faster_than_neither']:.4f} ({at['low']:.4f} to {at['high']:.4f})"
            lines.append(
                f"{arm:<15}{budget:>7}{at['over_the_best_point']:>15.3f}  {ratio:<28}"
                f"{len(at['better_on'])} / {len(at['worse_on']):<14}"
                f"{each['combined']} ({each['combined_that_led']}), {each['retired']}"
            )
    return "\n".join(lines)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    made = argparse.ArgumentParser(prog="python -m benchmarks.optimize.rules")
    made.add_argument("--landscapes", type=Path, required=True, help="what `measure` wrote")
    made.add_argument("--out", type=Path, required=True, help="JSON file to write")
    made.add_argument("--seeds", type=int, default=SEEDS, help=f"searches each (default: {SEEDS})")
    return made.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(ended(main))
