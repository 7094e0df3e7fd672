"""Choose a kernel's tunables by measurement: a seeded subset, halved as the measurements refine."""

import itertools
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from benchmarks.kernels.timing import Run, Timer

Params = dict[str, Any]

# Configurations drawn besides the default. The spaces hold up to 500; 64 random ones contain one
# of the best twentieth with a probability of 96 % (1 - 0.95^64).
CANDIDATES = 64
# The first pass times each once; a configuration this many times slower than the best is dropped.
_HOPELESS = 1.5
# What remains is timed this often, and the best by median wins.
_REPEATS = 7
_FINALISTS = 4
# How many of another kernel's best configurations are tried.
_EXCHANGED = 3


def candidates(
    tunables: Mapping[str, Sequence[Any]], defaults: Params, count: int = CANDIDATES
) -> list[Params]:
    """The defaults and up to `count` other points of the space, the same on every run."""
    if "tune" in tunables:
        return [defaults]  # the kernel searches by itself
    names = sorted(tunables)
    space = [
        dict(zip(names, values, strict=True))
        for values in itertools.product(*(tunables[name] for name in names))
    ]
    points = [params for params in space if params != defaults]
    return [defaults, *random.Random(0).sample(points, min(count, len(points)))]


def cross(
    own: Sequence[tuple[Params, float]],
    other: Sequence[tuple[Params, float]],
    tunables: Mapping[str, Sequence[Any]],
) -> list[Params]:
    """This kernel's best configuration with values of another kernel's best ones.

    Two kernels that differ in one technique are compared fairly only if each has tried the tile
    sizes that the other found: a random subset may miss them.
    """
    if "tune" in tunables or not own:
        return []
    tried = [params for params, _ in own]
    configurations: list[Params] = []
    for params, _ in other[:_EXCHANGED]:
        shared = {k: v for k, v in params.items() if k in tunables and v in tunables[k]}
        candidate = {**own[0][0], **shared}
        if candidate not in tried and candidate not in configurations:
            configurations.append(candidate)
    return configurations


def tune(
    timer: Timer,
    kernel: Callable[..., Any],
    configurations: Sequence[Params],
    inputs: Sequence[Any],
    limit_s: float,
) -> list[tuple[Params, float]]:
    """Time configurations for at most `limit_s` seconds; (params, median ms), the fastest first.

    A configuration that cannot run (too much shared memory, say) is left out.

    Raises
    ------
    RuntimeError
        If none runs; with the default's error as its cause.
    """
    deadline = time.monotonic() + limit_s
    once: list[tuple[Params, float]] = []
    failure: Exception | None = None
    for params in configurations:
        if once and time.monotonic() > deadline:
            break
        try:
            run = bind(kernel, params)
            run(inputs)
            once.append((params, timer(run, inputs)))
        except Exception as error:  # a configuration may fail in many ways: it loses
            failure = failure or error
    if not once:
        raise RuntimeError(f"no configuration runs: {failure}") from failure
    once.sort(key=itemgetter(1))
    finalists = [params for params, ms in once[:_FINALISTS] if ms < _HOPELESS * once[0][1]]

    def median_ms(params: Params) -> float:
        return statistics.median(timer(bind(kernel, params), inputs) for _ in range(_REPEATS))

    return sorted(((params, median_ms(params)) for params in finalists), key=itemgetter(1))


def bind(kernel: Callable[..., Any], params: Params) -> Run:
    """The kernel with its tunables set, as a contender."""
    return lambda inputs: kernel(*inputs, **params)
