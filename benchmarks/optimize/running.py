"""Runs the optimizer as `kb optimize` does, one run after another, all with the same judges.

Loading torch and starting what workers fork from takes longer than judging a candidate; so judging
processes are kept from run to run. A run folder that is there is taken up where it was.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from agent.opening import opened
from agent.optimize.config import RunConfig
from agent.optimize.judge_process import JudgeProcess
from agent.optimize.progress import Progress, Silent
from agent.optimize.record import Record
from agent.optimize.run import RunFolder, read_run
from agent.optimize.summary import Summary, summarise
from agent.proposers.recipe.stock import Shelf
from agent.report.report import write_report


class KeptProcess(JudgeProcess):
    """A judging process that outlives the run that closes it."""

    idle = True
    ended = False

    def close(self) -> None:
        """Be free for the next run."""
        self.idle = True

    def cancel(self) -> None:
        """End the process; no run gets it any more."""
        self.ended = True
        super().cancel()

    def end(self) -> None:
        """End the process."""
        super().close()


class Judges:
    """Judging processes, lent to one run after another; a context manager that ends them.

    Parameters
    ----------
    make
        Makes one.
    """

    def __init__(self, make: Callable[[], KeptProcess] = KeptProcess) -> None:
        self._make = make
        self._all: list[KeptProcess] = []

    def take(self) -> KeptProcess:
        """One that no run has."""
        free = [each for each in self._all if each.idle and not each.ended]
        found = free[0] if free else self._make()
        if not free:
            self._all.append(found)
        found.idle = False
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._all:
            each.end()


@dataclass(frozen=True, slots=True)
class Ended:
    """A run that came to its end."""

    config: RunConfig
    record: Record
    summary: Summary
    root: Path


@dataclass(frozen=True, slots=True)
class Runner:
    """What all runs of a benchmark have in common."""

    index: Path
    """Folder of the index; where there is none, the shipped corpus is taken."""
    judges: Judges
    progress: Progress = field(default_factory=Silent)
    report: bool = True

    def run(self, root: Path, config: RunConfig, shelf: Shelf | None = None) -> Ended:
        """Begin the run in `root`, or take it up; one that has ended is only read.

        Raises
        ------
        KbError
            The start is not right, or nothing can be judged here.
        """
        with _folder(root, config) as folder:
            if folder.record.stopped is None or folder.record.standing is None:
                with opened(
                    folder,
                    self.index,
                    progress=self.progress,
                    start_process=self.judges.take,
                    shelf=shelf,
                ) as search:
                    search.run()
        if self.report:
            write_report(root)
        known, record = read_run(root)
        return Ended(known, record, summarise(known, record, root), root)


@contextlib.contextmanager
def _folder(root: Path, config: RunConfig) -> Iterator[RunFolder]:
    begun = (root / "config.json").exists()
    with RunFolder.resume(root, config) if begun else RunFolder.create(root, config) as folder:
        yield folder
