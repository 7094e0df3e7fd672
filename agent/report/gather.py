"""Gathers the contents of a report from a run folder."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.optimize import budget
from agent.optimize.candidate import Judged
from agent.optimize.config import RunConfig
from agent.optimize.record import Record
from agent.optimize.run import read_run
from agent.optimize.summary import FORM_NAMES, Summary, gain_of_returned, summarise
from agent.report import story, tables
from agent.report.figure import draw_convergence
from agent.report.words import change, line

FIGURE = "convergence.svg"


@dataclass(frozen=True, slots=True)
class Report:
    """Contents of a report, for any output format."""

    config: RunConfig
    headline: str
    """The result of the run, in one sentence."""
    state: str
    """How it ended, or that it has not."""
    summary: Summary | None
    """None: the run was interrupted before its start was judged; then all else is empty."""
    contenders: list[tables.Contender]
    running: list[tables.Step]
    rounds: list[story.RoundStory]
    metrics: list[tables.MetricRow]
    lineage: list[story.Line]
    accounting: list[tuple[str, str]]
    environment: list[tuple[str, str]]
    chunks: list[str]
    """Ids of the retrieved chunks that the best and its ancestors used."""
    citations: list[str]
    """Citations of the contexts with these chunks."""
    figure: str | None

    @property
    def given_back(self) -> str | None:
        """Remark on a form of the problem's own model that is returned instead of the best
        kernel, or None."""
        if self.summary is None or self.summary.given_back is None:
            return None
        form = FORM_NAMES[self.summary.given_back]
        return (
            f"best.py is the problem's own model, run with {form}, which is faster. "
            "The rest of this report is about the best candidate."
        )

    @property
    def best(self) -> Judged | None:
        """The best kernel; the start where nothing is better."""
        return self.summary.best if self.summary is not None else None


def gather(root: Path) -> Report:
    """Read a run folder, also while another process works on it.

    Raises
    ------
    RunFolderError
        `root` is no run folder, or its journal is damaged.
    """
    config, record = read_run(root)
    summary = summarise(config, record, root) if record.standing is not None else None
    chunks = story.chunks_used(record, summary.best) if summary is not None else []
    return Report(
        config=config,
        headline=_headline(config, summary),
        state=_state(record),
        summary=summary,
        contenders=tables.contenders(record, summary) if summary is not None else [],
        running=tables.running_best(record) if summary is not None else [],
        rounds=story.round_stories(record) if summary is not None else [],
        metrics=tables.metrics(summary.start, record.best) if summary is not None else [],
        lineage=story.lineage(record) if summary is not None else [],
        accounting=tables.accounting(record),
        environment=tables.environment(record, _machine(root)),
        chunks=chunks,
        citations=story.citations(record, chunks),
        figure=draw_convergence(record),
    )


def _headline(config: RunConfig, summary: Summary | None) -> str:
    if summary is None:
        return "The run was interrupted before its start was judged: there are no results yet."
    if summary.dry:
        return (
            f"A dry run without a GPU: {summary.right} of {summary.judged} candidates are right at "
            "reduced sizes; nothing was timed."
        )
    if summary.given_back is not None:
        form, gain = FORM_NAMES[summary.given_back], gain_of_returned(summary)
        over = f", {gain:.2f}x over the start" if gain is not None else ""
        return f"Returned: the problem's own model, run with {form}{over}. No candidate is faster."
    if not summary.better:
        start = "the given kernel" if config.given else "eager PyTorch"
        return f"Speedup: none. No candidate is faster than the start ({start})."
    rows = {row.name: row for row in summary.rows}
    speedups = [
        f"{change(rows[name])} over {label}"
        for name, label in (
            ("start", "the start"),
            ("torch.compile", "torch.compile"),
            ("max-autotune", "max-autotune"),
        )
        if name in rows and rows[name].ratio is not None
    ]
    unsure = "" if summary.confirmed else " Not confirmed in one session with all baselines."
    return f"Speedup of the best kernel: {'; '.join(speedups)}.{unsure}"


def _state(record: Record) -> str:
    if record.stopped is None:
        return "Not finished: it was interrupted or is still running."
    return f"Ended: {line(budget.describe_end(record.stopped))}."


def _machine(root: Path) -> dict[str, Any]:
    """`environment.json`; empty where it is lost, which a report survives."""
    try:
        data = json.loads((root / "environment.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}
