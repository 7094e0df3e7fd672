"""Runs on many problems, one on each card at a time."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from agent.cards.pool import CardPool
from agent.opening import open_search
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
class EndedRun:
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

    def run(self, root: Path, config: RunConfig, *, away: bool = False, **options: Any) -> EndedRun:
        """Begin the run in `root`, or take it up. One that has ended goes on by other limits alone.

        `away` and `options`: see `agent.opening.open_search`; a run away from a GPU takes no card.

        Raises
        ------
        KbError
            The start is not right, or nothing can be judged here.
        """
        exists = (root / "config.json").exists()
        limits = read_config(root).limits if exists else None
        run_folder = RunFolder.resume(root, config) if exists else RunFolder.create(root, config)
        with run_folder as folder:
            finished = folder.record.stopped is not None and folder.record.standing is not None
            if not finished or config.limits != limits:
                kind = self._kind(folder.record, **options)
                with nullcontext() if away else self.cards.lend(kind) as worker:
                    parts: dict[str, Any] = {"start_process": lambda: worker, "processes": 1}
                    progress = self.progress(root)
                    options |= {"progress": progress, "away": away} | parts
                    with open_search(folder, self.index, **options) as search:
                        search.run()
        if self.report:
            write_report(root)
        final_config, record = read_run(root)
        return EndedRun(final_config, record, summarise(final_config, record, root), root)

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


def run_all(
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

    def run_task(task: T) -> bool:
        if failed.is_set() or cards.is_cancelled or stop():
            return False
        try:
            work(task)
        except BaseException:
            failed.set()
            raise
        return True

    workers = max(1, min(len(cards), len(tasks)))
    with ThreadPoolExecutor(workers, thread_name_prefix="run") as executor:
        runs = [executor.submit(run_task, task) for task in tasks]
        try:
            return [task for task, run in zip(tasks, runs, strict=True) if not run.result()]
        except BaseException:
            cards.cancel()
            raise
