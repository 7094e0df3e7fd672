"""The files of a run's report: report.md, report.html, the picture, and the notes."""

from dataclasses import dataclass
from pathlib import Path

from agent.optimize.files import write_atomically
from agent.report.gather import FIGURE, gather
from agent.report.html import render_html
from agent.report.markdown import render_markdown
from agent.report.notes import write_notes

MARKDOWN, HTML = "report.md", "report.html"


@dataclass(frozen=True, slots=True)
class ReportFiles:
    """The files of a report."""

    markdown: Path
    html: Path
    figure: Path | None
    """None where nothing was timed."""


def write_report(root: Path) -> ReportFiles:
    """Write the report and the notes of a run, which may be unfinished, into its folder.

    Raises
    ------
    RunFolderError
        `root` is no run folder, its journal is damaged, or it cannot be written.
    """
    report = gather(root)
    files = ReportFiles(
        root / MARKDOWN, root / HTML, root / FIGURE if report.figure is not None else None
    )
    if files.figure is not None and report.figure is not None:
        write_atomically(files.figure, report.figure)
    write_atomically(files.markdown, render_markdown(report))
    write_atomically(files.html, render_html(report))
    write_notes(root)
    return files
