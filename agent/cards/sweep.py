"""Runs on many problems, one on each card at a time."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from agent.cards.pool import CardPool
from agent.opening import opened
from agent.optimize.config import RunConfig
from agent.optimize.progress import Progress, Silent
from agent.optimize.record import Record
from agent.optimize.run import RunFolder, read_config, read_run
from agent.optimize.summary import Summary, summarise
from agent.report.report import write_report
from kb.errors import KbError
from kb.gpus import GpuSpec, find_spec

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ended:
    """A run that came to its end."""

    config: RunConfig
    record: Record
    summary: Summary
    root: Path


@dataclass(frozen=True, slots=True)
class Runner:
    """Runs the optimizer as `kb optimize` does, on cards that are kept from run to run."""

    index: Path
    """Folder of the index; where there is none, the shipped corpus is taken."""
    cards: CardPool
    progress: Callable[[Path], Progress] = lambda _: Silent()
    """Makes what is told what happens, for each run folder."""
    report: bool = True
    """Whether each run gets its report."""

    def run(self, root: Path, config: RunConfig, *, away: bool = False, **more: Any) -> Ended:
        """Begin the run in `root`, or take it up. One that has ended goes on by other limits alone.

        `away` and `more`: see `agent.opening.opened`; a run away from a GPU takes no card.

        Raises
        ------
        KbError
            The start is not right, or nothing can be judged here.
        """
        begun = (root / "config.json").exists()
        limits = read_config(root).limits if begun else None
        taken = RunFolder.resume(root, config) if begun else RunFolder.create(root, config)
        with taken as folder:
            ended = folder.record.stopped is not None and folder.record.standing is not None
            if not ended or config.limits != limits:
                kind = self._kind(folder.record, **more)
                with nullcontext() if away else self.cards.lend(kind) as lent:
                    parts: dict[str, Any] = {"start_process": lambda: lent, "processes": 1}
                    told = self.progress(root)
                    more |= {"progress": told, "away": away} | parts
                    with opened(folder, self.index, **more) as search:
                        search.run()
        if self.report:
            write_report(root)
        known, record = read_run(root)
        return Ended(known, record, summarise(known, record, root), root)

    def _kind(self, record: Record, specs: Sequence[GpuSpec] = (), **_: Any) -> str | None:
        """The kind of card that a run was begun on: times of two kinds cannot be compared."""
        standing = record.standing
        if standing is None or standing.gpu is None or not standing.measured:
            return None
        for kind in self.cards.kinds:
            with suppress(KbError):  # of a kind that is not known
                if find_spec(kind, specs).name == standing.gpu:
                    return kind
        return standing.gpu


def share(
    cards: CardPool,
    tasks: Sequence[T],
    work: Callable[[T], None],
    stop: Callable[[], bool] = lambda: False,
) -> list[T]:
    """Do tasks, as many at once as there are cards; returns those that were not begun.

    `work` does a task in a thread of its own, and takes a card itself. What it raises ends all
    tasks. No further task begins once `stop` returns True.

    Raises
    ------
    BaseException
        What `work` raised first, or Ctrl-C; all tasks have ended.
    """
    failed = threading.Event()

    def begin(task: T) -> bool:
        if failed.is_set() or cards.ended or stop():
            return False
        try:
            work(task)
        except BaseException:
            failed.set()
            raise
        return True

    places = max(1, min(len(cards), len(tasks)))
    with ThreadPoolExecutor(places, thread_name_prefix="run") as executor:
        running = [executor.submit(begin, task) for task in tasks]
        try:
            return [task for task, each in zip(tasks, running, strict=True) if not each.result()]
        except BaseException:
            cards.cancel()
            raise
