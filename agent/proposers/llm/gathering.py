"""Several conversations side by side, in threads that neither Ctrl-C nor the exit waits for."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class Gathered(Generic[T]):
    """The result of one task: a value, or the exception that it raised."""

    value: T | None = None
    error: BaseException | None = None


def side_by_side(tasks: Sequence[Callable[[], T]], most: int) -> list[Gathered[T]]:
    """Run all tasks, at most `most` at a time; their results in the tasks' order.

    The threads are daemons: when the waiting thread is interrupted, a request that is under way
    does not hold up the end of the process.
    """
    results = [Gathered[T]() for _ in tasks]
    left = zip(tasks, results, strict=True)
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                found = next(left, None)
            if found is None:
                return
            task, result = found
            try:
                result.value = task()
            except BaseException as error:
                result.error = error

    threads = [
        threading.Thread(target=work, name=f"llm-{number}", daemon=True)
        for number in range(min(most, len(tasks)))
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return results
