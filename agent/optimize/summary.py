"""Summary of a run, as a table of at most 80 columns."""

from pathlib import Path
from typing import Final

from agent.optimize import budget
from agent.optimize.candidate import Judged, Stage
from agent.optimize.config import RunConfig
from agent.optimize.proposers import Spending
from agent.optimize.record import Record
from judge.evaluate.result import Model, Verdict
from judge.evaluate.statistics import repeatability
from judge.problem.forms import MODEL_FORMS, ModelForm
from kb.printable import wrapped

FORM_ROWS: Final[tuple[tuple[ModelForm, str], ...]] = tuple(
    (form, "torch.compile" if form == "compile" else form) for form in MODEL_FORMS
)
"""The forms of the problem's own model, and what they are called in a table."""
ROWS: Final = (*FORM_ROWS, ("start", "start"))
"""Baselines by name, and what they are called in a table."""
FORMS: Final[dict[str, ModelForm]] = {row: form for form, row in FORM_ROWS}
"""The problem's own model, by the name of a row."""
FORM_NAMES: Final[dict[ModelForm, str]] = {
    "eager": "eager PyTorch",
    "compile": "torch.compile",
    "max-autotune": "torch.compile with max-autotune",
}
"""The forms of the problem's own model, as a reader knows them."""


class Row(Model):
    """One contender."""

    name: str
    """Display name."""
    median_ms: float
    floor_fraction: float | None = None
    ratio: float | None = None
    """How much faster the best is; None for the best itself."""
    low: float | None = None
    """The 95 % interval of a ratio that was measured in one session; None: medians of two."""
    high: float | None = None
    significant: bool = False


class Summary(Model):
    """The result of a run."""

    problem: str
    gpu: str | None
    dry: bool
    """Nothing was timed."""
    better: bool
    """Whether a candidate is faster than the start beyond the noise."""
    given_back: ModelForm | None = None
    """The form of the problem's own model that is faster than the best beyond the noise, and is
    returned in its place; None: the best itself is returned."""
    best: Judged
    start: Judged
    confirmed: bool
    """Whether the times of the best are of a last session with all contenders."""
    rows: tuple[Row, ...]
    """The contenders, the best last."""
    rounds: int
    judged: int
    right: int
    """Number of correct candidates among those judged."""
    stopped: str
    spent: Spending
    gpu_seconds: float
    baseline_seconds: float = 0.0
    """Compiling and tuning baselines; in no GPU time."""
    seconds: float
    notes: tuple[str, ...] = ()
    folder: str


def summarise(config: RunConfig, record: Record, folder: Path) -> Summary:
    """The summary of what is recorded. There must be a standing."""
    standing = record.standing
    assert standing is not None
    best = record.best
    confirmed = record.confirmed.get(best.id)
    history = record.history
    notes = standing.notes
    rows = _rows(record, best, confirmed.judged if confirmed is not None else None)
    if confirmed is not None:
        disclosed = confirmed.judged.outcome.disclosures  # told with the contenders
        notes = (*notes, *(note for note in confirmed.notes if note not in disclosed))
    if best.outcome.verdict is Verdict.LIBRARY and best.id != record.start.id:
        notes = (*notes, *best.outcome.reasons[:1])
    return Summary(
        problem=config.problem.name,
        gpu=standing.gpu,
        dry=config.interpret,
        better=best.id != record.start.id,
        best=best,
        start=record.start,
        confirmed=confirmed is not None,
        rows=rows,
        given_back=_given_back(rows),
        rounds=len(record.closed),
        judged=sum(judged.outcome.stage is not Stage.SLOWER for judged in history),
        right=sum(judged.outcome.right for judged in history),
        stopped=budget.describe_end(record.stopped) if record.stopped else "not finished",
        spent=record.total,
        gpu_seconds=record.gpu_seconds,
        baseline_seconds=record.baseline_seconds,
        seconds=record.wall,
        notes=notes,
        folder=str(folder),
    )


def _rows(record: Record, best: Judged, confirmed: Judged | None) -> tuple[Row, ...]:
    final = confirmed or best
    time = final.outcome
    if time.median_ms is None:
        return ()
    is_start = best.id == record.start.id
    rows = []
    for key, name in ROWS:
        if (entry := record.baselines.get(key)) is not None:
            row = Row(name=name, median_ms=entry.median_ms, floor_fraction=entry.floor_fraction)
            rows.append(row if is_start and key == "start" else compare(row, key, final))
    if not is_start:
        rows.append(Row(name="best", median_ms=time.median_ms, floor_fraction=time.floor_fraction))
    return tuple(rows)


def _given_back(rows: tuple[Row, ...]) -> ModelForm | None:
    """The fastest of the model's own forms that is faster than the best, if there is one."""
    faster = [row for row in rows if row.ratio is not None and row.ratio < 1]
    forms = [row for row in faster if row.significant and row.name in FORMS]
    return FORMS[min(forms, key=lambda row: row.ratio or 1.0).name] if forms else None


def compare(row: Row, key: str, best: Judged) -> Row:
    """The row with how much faster `best` is: paired in one session, else by the two medians."""
    paired = best.outcome.over(key)
    if paired is not None:
        fields = {"ratio", "low", "high", "significant"}
        return row.model_copy(update=paired.model_dump(include=fields))
    ms, best_ms = row.median_ms, best.outcome.median_ms
    assert best_ms is not None
    significant = max(ms, best_ms) / min(ms, best_ms) > 1 + repeatability(max(ms, best_ms))
    return row.model_copy(update={"ratio": ms / best_ms, "significant": significant})


def render(summary: Summary) -> str:
    """The summary as text of at most 80 columns."""
    blocks = [_headline(summary), _table(summary), _footer(summary)]
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _headline(summary: Summary) -> list[str]:
    where = "in Triton's interpreter" if summary.dry else f"on {summary.gpu}"
    if summary.dry:
        result = f"{summary.right} of {summary.judged} candidates right; a dry run has no times"
    elif summary.given_back is not None:
        form = FORM_NAMES[summary.given_back]
        result = f"no candidate is faster than {form}, which is now in best.py"
        if (gain := gain_of_returned(summary)) is not None:
            result += f" ({gain:.2f}x faster than the start)"
    elif not summary.better:
        result = "no candidate is faster than the start, which is returned"
    else:
        rows = {row.name: row for row in summary.rows}
        ratio = rows["start"].ratio if "start" in rows else None
        result = f"{ratio:.2f}x faster than the start" if ratio is not None else "faster"
    return wrapped(f"{summary.problem} {where}: {result}.")


def _table(summary: Summary) -> list[str]:
    if not summary.rows:
        return []
    lines = [f"{'contender':<16}{'median ms':>12}{'of floor':>10}   best is faster by"]
    for row in summary.rows:
        share = "-" if row.floor_fraction is None else f"{row.floor_fraction:.0%}"
        lines.append(f"{row.name:<16}{row.median_ms:>12.4g}{share:>10}   {_ratio(row)}".rstrip())
    return lines


def _ratio(row: Row) -> str:
    if row.ratio is None:
        return ""
    text = f"{row.ratio:.3f}" if row.significant else f"{row.ratio:.3f}, within the noise"
    if row.low is not None and row.high is not None:
        return f"{text} ({row.low:.3f} to {row.high:.3f})"
    return f"{text} (two sessions)"


def _footer(summary: Summary) -> list[str]:
    lines = []
    best = summary.best
    if summary.better:
        candidate = best.candidate
        title = "Best" if summary.given_back is None else "Best candidate"
        lines += wrapped(
            f"{title}: {best.id} by {candidate.proposer} ({candidate.family}, round "
            f"{candidate.round}), {best.outcome.verdict or 'not judged'}"
            + ("." if summary.confirmed else "; not confirmed in a session with all baselines.")
        )
    spent = summary.spent
    costs = (
        f"{pluralize(summary.rounds, 'round')}, {pluralize(summary.judged, 'candidate')}, "
        f"{summary.right} right; "
        f"{summary.seconds:.0f} s, {summary.gpu_seconds:.0f} s of GPU time"
    )
    if summary.baseline_seconds:
        costs += f" and {summary.baseline_seconds:.0f} s to compile baselines"
    if spent.tokens_in + spent.tokens_out:
        costs += f", {spent.tokens_in} + {spent.tokens_out} tokens, {spent.money:.2f}"
    lines += wrapped(f"{costs}. Ended: {summary.stopped}.")
    lines += [line for note in summary.notes for line in wrapped(f"Note: {note}")]
    # Not wrapped: a path is there to be copied.
    return [*lines, f"Run: {summary.folder}"]


def gain_of_returned(summary: Summary) -> float | None:
    """How much faster than the start the returned form is, by medians of one table; None if the
    form is the start itself, or this is not known."""
    rows = {row.name: row for row in summary.rows}
    form = next((name for name, key in FORMS.items() if key == summary.given_back), None)
    if form is None or form not in rows or "start" not in rows:
        return None
    ratio = rows["start"].median_ms / rows[form].median_ms
    return None if ratio == 1 else ratio


def pluralize(number: int, what: str) -> str:
    """A number of things, in words: `2 rounds`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
