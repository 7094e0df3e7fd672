"""Several conversations side by side, in threads that neither Ctrl-C nor the exit waits for."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def side_by_side(tasks: Sequence[Callable[[], T]], most: int) -> list[Future[T]]:
    """Run all tasks, at most `most` at a time; their results in the tasks' order.

    The threads are daemons: when the waiting thread is interrupted, a request that is under way
    does not hold up the end of the process.
    """
    results = [Future[T]() for _ in tasks]
    queue = zip(tasks, results, strict=True)
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                entry = next(queue, None)
            if entry is None:
                return
            task, result = entry
            try:
                result.set_result(task())
            except BaseException as error:
                result.set_exception(error)

    threads = [
        threading.Thread(target=work, name=f"llm-{number}", daemon=True)
        for number in range(min(most, len(tasks)))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results
