"""Progress reports of a run. The command prints them."""

from collections.abc import Iterator
from typing import Protocol

from agent.optimize import budget, events
from agent.optimize.candidate import Judged
from agent.optimize.summary import pluralize


class Progress(Protocol):
    """Receives progress."""

    def event(self, event: events.Event) -> None:
        """An event that was recorded."""

    def working(self, candidate: str, line: str) -> None:
        """A line about what is being done to a candidate."""


class Silent:
    """Discards progress."""

    def event(self, event: events.Event) -> None:
        """See `Progress.event`."""

    def working(self, candidate: str, line: str) -> None:
        """See `Progress.working`."""


def line_of(judged: Judged) -> str:
    """One line about a candidate, such as `3f2a91bc tune tiling: 0.412 ms, 1.31x the leader`."""
    candidate, outcome = judged.candidate, judged.outcome
    head = f"{candidate.id} {candidate.proposer} {candidate.family}"
    if candidate.repairs is not None:
        head += f" (repairs {candidate.repairs})"
    if outcome.timed:
        ratio = outcome.over("leader")
        text = f"{outcome.median_ms:.4g} ms"
        if ratio is not None:
            text += f", {ratio.ratio:.2f}x the leader" if ratio.significant else ", like the leader"
    elif outcome.right:
        text = "right"
    else:
        word = outcome.verdict.value if outcome.verdict is not None else outcome.stage.value
        text = f"{word}: {outcome.reasons[0]}" if outcome.reasons else word
    return f"{head}: {' '.join(text.split())}"


def lines_of(event: events.Event) -> Iterator[str]:  # noqa: PLR0912 (a branch for each event)
    """The lines to print for an event."""
    match event:
        case events.Started(standing=standing) if not standing.measured:
            yield f"for {standing.gpu or 'an unknown GPU'}; nothing has been measured yet"
        case events.Started(standing=standing):
            where = standing.gpu or "no GPU: a dry run"
            cards = f" ({len(standing.devices)} devices)" if len(standing.devices) > 1 else ""
            yield f"start on {where}{cards}: {line_of(standing.start).partition(': ')[2]}"
            times = (f"{name} {time.median_ms:.4g} ms" for name, time in standing.baselines.items())
            if times_text := ", ".join(times):
                yield f"times: {times_text}"
            yield from (f"note: {note}" for note in standing.notes)
        case events.Continued():
            yield "continued"
        case events.Profiled(metrics=None, notes=notes):
            yield from (f"note: {note}" for note in notes)
        case events.Advised(diagnosis=diagnosis, context=context, notes=notes):
            yield f"round {event.round}"
            if diagnosis is not None and not diagnosis.empty:
                yield f"  diagnosis: {diagnosis.headline}"
            if context.techniques:
                yield f"  context: {context.tokens} tokens on {', '.join(context.techniques)}"
            yield from (f"  note: {note}" for note in notes)
        case events.Proposed(
            candidates=candidates, dropped=dropped, failures=failures, notes=notes
        ):
            skipped = f", {len(dropped)} skipped as tried or retired" if dropped else ""
            yield f"  {pluralize(len(candidates), 'proposal')}{skipped}"
            yield from (f"  {item.id}: {item.note}" for item in candidates if item.note)
            yield from (f"  {name} failed: {why}" for name, why in failures.items())
            yield from (f"  {name}: {note}" for name, texts in notes.items() for note in texts)
        case events.WasJudged(judged=judged):
            yield f"  {line_of(judged)}"
        case events.Repaired(candidate=None, why=why) if why:
            yield f"  {event.failed} was not repaired: {why}"
        case events.Reflected(notes=notes):
            yield from (f"  {' '.join(note.split())}" for note in notes)
        case events.Closed():
            yield f"  leader {event.leader}, gain {event.gain:.1%}"
            if event.retired:
                yield f"  retired: {', '.join(event.retired)}"
        case events.Confirmed(judged=judged):
            yield f"last session: {line_of(judged)}"
        case events.Stopped():
            yield f"ended: {budget.describe_end(event)}"
