"""The judging processes of a run, one for each GPU."""

import queue
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, TypeVar

from pydantic import BaseModel

from agent.optimize.config import RunConfig
from agent.optimize.judge_process import JudgeProcess
from agent.optimize.judge_requests import Describe, DeviceInfo, Request
from judge.progress import Say, silent

R = TypeVar("R", bound=BaseModel)


class Worker(Protocol):
    """What answers requests; see `JudgeProcess`."""

    def ask(self, request: Request[R], say: Say) -> R:
        """The answer to a request."""

    def cancel(self) -> None:
        """End the request in progress, from another thread."""

    def close(self) -> None:
        """Take no further request."""


@dataclass(eq=False)
class JudgePool:
    """A pool of judging processes, started on first use."""

    config: RunConfig
    """Says which devices; `config.interpret` takes the CPU."""
    processes: int = 2
    """How many check at once in a dry run."""
    start_process: Callable[[], Worker] = JudgeProcess

    def __post_init__(self) -> None:
        self._all: list[Worker] = []
        self._free: queue.SimpleQueue[tuple[Worker, str]] = queue.SimpleQueue()
        self._description: DeviceInfo | None = None

    @property
    def size(self) -> int:
        """Number of processes."""
        self.describe()
        return len(self._all)

    def describe(self) -> DeviceInfo:
        """Find the devices and make a process for each, once."""
        if self._description is None:
            self._all.append(self.start_process())
            description = self._all[0].ask(Describe.like(self.config), silent)
            devices = description.devices * (self.processes if self.config.interpret else 1)
            self._all += [self.start_process() for _ in devices[1:]]
            for slot in zip(self._all, devices, strict=True):
                self._free.put(slot)
            self._description = description
        return self._description

    @contextmanager
    def lend(self) -> Iterator[tuple[Worker, str]]:
        """Borrow a process and its device; waits until one is free."""
        self.describe()
        slot = self._free.get()
        try:
            yield slot
        finally:
            self._free.put(slot)

    def ask(self, request: Request[R], say: Say = silent) -> R:
        """The answer of any free process; raises as `JudgeProcess.ask`."""
        with self.lend() as (process, _):
            return process.ask(request, say)

    def cancel(self) -> None:
        """End all processes, from another thread."""
        for process in self._all:
            process.cancel()

    def close(self) -> None:
        """End all processes."""
        for process in self._all:
            process.close()
