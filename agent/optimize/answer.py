"""Writes the result of a run as a self-contained file with a header."""

from agent.optimize.config import RunConfig
from agent.optimize.record import Record
from agent.optimize.run import RunFolder
from agent.optimize.summary import FORM_NAMES, FORMS, Summary, summarise
from judge.problem.forms import as_kernel


def keep_best(folder: RunFolder) -> None:
    """Write the best so far."""
    best = folder.record.best
    header = _header(folder.config, folder.record)
    folder.keep_best(best.candidate.source, best.candidate.suffix, header)


def keep_answer(folder: RunFolder) -> None:
    """At the end: write the best, or the form of the problem's own model that is faster."""
    summary = summarise(folder.config, folder.record, folder.root)
    if summary.given_back is None:
        keep_best(folder)
        return
    source = as_kernel(folder.config.problem.source, summary.given_back)
    folder.keep_best(source, ".py", _form_header(folder.config, summary))


def _form_header(config: RunConfig, summary: Summary) -> str:
    """Header of a file that holds a form of the problem's own model."""
    form = summary.given_back
    assert form is not None
    rows = {FORMS[row.name]: row for row in summary.rows if row.name in FORMS}
    lines = [
        f"Returned by `kb optimize {config.problem.name}`: the problem's own model, run "
        f"with {FORM_NAMES[form]}.",
        f"{rows[form].median_ms:.4g} ms on {summary.gpu}; no candidate is faster.",
    ]
    best = summary.best
    if summary.better and best.outcome.median_ms is not None:
        lines.append(
            f"The best candidate: kernels/{best.candidate.file}, {best.outcome.median_ms:.4g} ms."
        )
    lines.append(
        "The judge has not checked this file, since it compares with PyTorch's own forms: "
        f"check it with `kb evaluate {config.problem.name} best.py`."
    )
    return "\n".join(lines)


def _header(config: RunConfig, record: Record) -> str:
    """Header of the best kernel's file."""
    best = record.best
    outcome = best.outcome
    standing = record.standing
    assert standing is not None
    if best.id == record.start.id:
        lines = [f"The start of `kb optimize {config.problem.name}`: no candidate is faster."]
    else:
        lines = [
            f"Found by `kb optimize {config.problem.name}`: candidate {best.id}, "
            f"{best.candidate.proposer} ({best.candidate.family})."
        ]
    if outcome.median_ms is not None:
        start = record.start.outcome.median_ms
        lines.append(
            f"{outcome.median_ms:.4g} ms on {standing.gpu}; the start took {start:.4g} ms."
        )
    lines.append(f"Verdict of the judge: {outcome.verdict}.")
    return "\n".join(lines)
