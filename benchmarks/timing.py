"""Times contenders in turn, so that what else the machine does hits them alike."""

import time
from collections.abc import Callable, Mapping


def interleaved(
    contenders: Mapping[str, Callable[[], object]],
    repeats: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Return the seconds of `repeats` runs of each contender, after one run to warm up.

    Each round runs every contender once, and begins with the next one. `time.process_time` as
    `clock` counts processor time, which hardly depends on what else the machine does as long as
    the contenders use one thread.
    """
    names = list(contenders)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for run in contenders.values():
        run()
    for turn in range(repeats):
        shift = turn % len(names)
        for name in names[shift:] + names[:shift]:
            start = clock()
            contenders[name]()
            seconds[name].append(clock() - start)
    return seconds
