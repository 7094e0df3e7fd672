"""Times contenders in turn, so that what else the machine does hits them alike."""

import time
from collections.abc import Callable, Mapping


def interleaved(
    contenders: Mapping[str, Callable[[], object]], repeats: int
) -> dict[str, list[float]]:
    """Return the seconds of `repeats` runs of each contender, after one run to warm up.

    Each round runs every contender once, and begins with the next one.
    """
    names = list(contenders)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for run in contenders.values():
        run()
    for turn in range(repeats):
        shift = turn % len(names)
        for name in names[shift:] + names[:shift]:
            start = time.perf_counter()
            contenders[name]()
            seconds[name].append(time.perf_counter() - start)
    return seconds
