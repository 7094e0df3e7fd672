"""Time contenders on one device: cold inputs, interleaved, medians with a spread.

Knows nothing of kernels or entries: a contender is a callable on one set of inputs.
"""

import itertools
import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from judge.evaluate.statistics import Summary, summarise
from judge.worker.events import Timer as DeviceTimer

Run = Callable[[Sequence[Any]], Any]
"""Runs a contender on one set of inputs."""
Timer = Callable[[Run, Sequence[Any]], float]
"""Times one call, in milliseconds."""

# Rotated inputs hold this many times the L2 together, so that an input has left the cache when its
# turn comes again.
_L2_MULTIPLE = 4
# Holds the device back while the host queues the events and the launch, about 0.5 ms at 2 GHz.
# Without it a launch's host time would count as device time.
_HOLD_CYCLES = 1_000_000


def cuda_timer() -> Timer:
    """Times a call between two CUDA events that are queued before the device reaches them."""
    timer = DeviceTimer("cuda:0")

    def time_call(run: Run, inputs: Sequence[Any]) -> float:
        (ms,) = timer.time(
            lambda *args: run(args), [inputs], [0], "events", hold_cycles=_HOLD_CYCLES
        )
        return ms

    return time_call


def wall_time(run: Run, inputs: Sequence[Any]) -> float:
    """Times a call by the host's clock: for dry runs, whose times mean nothing."""
    start = time.perf_counter()
    run(inputs)
    return (time.perf_counter() - start) * 1e3


def interleave(
    timer: Timer, contenders: Mapping[str, Run], input_sets: Sequence[Sequence[Any]], rounds: int
) -> dict[str, Summary]:
    """Time every contender once a round, in an order that changes, each time on the next inputs.

    Times are in milliseconds.
    """
    generator = random.Random(0)
    names = list(contenders)
    sets = itertools.cycle(input_sets)
    for name in names:
        contenders[name](input_sets[0])  # compiles, and fills caches of descriptors and the like
    times: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(rounds):
        generator.shuffle(names)
        for name in names:
            times[name].append(timer(contenders[name], next(sets)))
    return {name: summarise(values) for name, values in times.items()}


def sets_needed(input_bytes: int, l2_bytes: int) -> int:
    """How many input sets to rotate through so that every call finds a cold L2."""
    return max(2, -(-_L2_MULTIPLE * l2_bytes // max(input_bytes, 1)))
