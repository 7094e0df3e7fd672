"""A bounded pool of threads for searches, so that overload is refused and not queued for ever."""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from server.problems import OverloadedError

_T = TypeVar("_T")
# With one thread a long request would hold up every other.
_FEWEST_THREADS = 2


class WorkPool:
    """Runs synchronous work in threads: at most `threads` at once, `pending` more waiting."""

    def __init__(self, threads: int, pending: int, timeout: float) -> None:
        threads = threads or max(_FEWEST_THREADS, len(os.sched_getaffinity(0)))
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="kb-search")
        self._room = threads + pending
        self._timeout = timeout
        self.in_flight = 0

    async def run(self, work: Callable[[], _T]) -> _T:
        """Do the work in a thread.

        Raises
        ------
        OverloadedError
            Too much waits already, or the work takes longer than the timeout. It is then left to
            end in its thread: its result is dropped, and it counts as in flight until it ends.
        """
        if self.in_flight >= self._room:
            raise OverloadedError("the server is busy: try again in a moment")
        self.in_flight += 1
        submitted = self._executor.submit(work)
        future = asyncio.wrap_future(submitted)
        future.add_done_callback(self._done)
        done, _ = await asyncio.wait({future}, timeout=self._timeout)
        if not done:
            submitted.cancel()  # only what has not begun
            raise OverloadedError(
                f"the answer took longer than {self._timeout:g} s: ask for less or try again"
            )
        return future.result()

    def _done(self, future: asyncio.Future[_T]) -> None:
        self.in_flight -= 1
        if not future.cancelled():
            future.exception()  # looked at, so that a dropped one is not reported as forgotten

    def close(self) -> None:
        """Let the threads end; what waits is dropped."""
        self._executor.shutdown(wait=False, cancel_futures=True)
