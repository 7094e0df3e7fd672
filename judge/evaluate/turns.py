"""Does a contender work in its stream's turn: not before that, and not after?

Events are recorded on the stream that a contender is called on. Work on another stream that does
not wait for this one can run while it is held, before the start event, and would not be in the
time. So the judge holds the stream for long, lets the launch be queued, writes other contents into
the input meanwhile, and looks which of the two the output belongs to: what has waited for its turn
has seen the later contents.

Work on another stream for which this one does not wait is not in the time either. So the stream
copies the output right after the launch: where only the copy is wrong, the work was not done yet.
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from judge.evaluate.session import Worker
from judge.evaluate.sets import InputSets
from judge.worker.messages import Time

# 32 ms at 2.5 GHz, longer at lower clocks.
HOLD_CYCLES: Final = 80_000_000
# After this the launch is queued, whatever its host code does, and anything that does not wait
# has run.
_DELAY_S: Final = 0.008
# The later contents are there before the hold can be over, with 2 ms to spare; a slower copy tells
# nothing and is tried again.
LATEST_S: Final = 0.030
_TRIES: Final = 5


class UntestedError(Exception):
    """The contents could not be exchanged while the stream was held."""


def out_of_turn(
    worker: Worker,
    sets: InputSets,
    fetch: Callable[[], Sequence[Any]],
    check: Callable[[int, Sequence[Any]], str | None],
) -> str | None:
    """Say in one line that a contender works ahead of its stream or after it, or None.

    Parameters
    ----------
    worker
        Its worker, running; CUDA only.
    sets
        Its input sets; they have new contents afterwards.
    fetch
        Returns the outputs of the worker's first kept launch.
    check
        Compares outputs with the oracle under a seed; None where they agree.

    Raises
    ------
    judge.evaluate.session.WorkerError
        The worker failed, or the one that `check` asks.
    UntestedError
        Nothing could be found out.
    """
    previous: str | None = None
    for copy_outputs in (True, False):
        outputs = _held_launch(worker, sets, fetch, copy_outputs=copy_outputs)
        problem = check(sets.spare_seed, outputs)
        if problem is None:
            if not copy_outputs:
                return (
                    "works on another stream that the caller's stream does not wait for: "
                    f"later work there finds the output unfinished ({previous}), and the events "
                    "do not time the rest"
                )
            return None
        if check(sets.seeds[0], outputs) is None:
            return (
                "works on another stream ahead of the caller's stream: its output belongs to "
                "earlier inputs, and the events do not time its work"
            )
        previous = problem
    return f"is wrong if its stream has to wait before the work starts: {previous}"


def _held_launch(
    worker: Worker, sets: InputSets, fetch: Callable[[], Sequence[Any]], *, copy_outputs: bool
) -> Sequence[Any]:
    """Outputs of one launch whose contents were exchanged while its stream was held.

    With `copied`, as the stream copied them right after the launch.
    """
    command = Time(
        sets=sets.arguments[:1],
        order=[0],
        method="events",
        hold_cycles=HOLD_CYCLES,
        keep=True,
        copy_outputs=copy_outputs,
    )
    write_times: list[float] = []
    """When the later contents were in place, by `time.perf_counter`."""

    def write_later() -> None:
        time.sleep(_DELAY_S)
        sets.replace_first()
        write_times.append(time.perf_counter())

    for _ in range(_TRIES):
        sets.renew()
        sets.restore()
        start = time.perf_counter()
        writer = threading.Thread(target=write_later, name="later contents", daemon=True)
        writer.start()
        try:
            worker.time(command)
        finally:
            writer.join()
        if write_times and write_times.pop() - start <= LATEST_S:
            return fetch()
    raise UntestedError("the inputs could not be replaced in time while a stream was held")
