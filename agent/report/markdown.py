"""A report as Markdown: tables and lists that read well as plain text."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from agent.optimize.events import Advised
from agent.report.gather import FIGURE, Report
from agent.report.story import Attempt, RoundStory, failure_reason
from agent.report.words import line, milliseconds, percent, visible

# What Markdown or HTML would take as markup; a backslash before each makes it a character.
_MARKUP: Final = re.compile(r"([\\`*_{}\[\]<>()#+!|~&$])")
_FENCE: Final = re.compile(r"`{3,}")


def escape(text: str, max_chars: int = 400) -> str:
    """Untrusted text as one line, with markup escape."""
    return _MARKUP.sub(r"\\\1", line(text, max_chars))


def fence_source(source: str, language: str) -> str:
    """Source in a fence that it cannot close."""
    longest = max((len(run) for run in _FENCE.findall(source)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{visible(source).rstrip()}\n{fence}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """A table; columns of `numbers` are set to the right."""
    rule = ["---:" if number in numbers else "---" for number in range(len(head))]
    lines = [" | ".join(row) for row in (head, rule, *rows)]
    return "\n".join(f"| {text} |" for text in lines)


def render_markdown(report: Report) -> str:
    """The whole report."""
    blocks = [
        f"# {escape(report.config.problem.name)}: run report",
        report.headline,
        escape(report.state),
        *_contenders(report),
        *_running(report),
        *_best(report),
        *_metrics(report),
        *(block for round_ in report.rounds for block in _round(round_)),
        *_lineage(report),
        "## Cost",
        table(("what", "how much"), [(escape(k), escape(v)) for k, v in report.accounting]),
        "## Environment",
        table(("what", "value"), [(escape(k), escape(v)) for k, v in report.environment]),
    ]
    return "\n\n".join(blocks) + "\n"


def _contenders(report: Report) -> list[str]:
    if report.summary is None:
        return []
    blocks = ["## Contenders"]
    if not report.contenders:
        return [*blocks, "Nothing was timed."]
    rows = [
        (
            contender.name,
            milliseconds(contender.median_ms),
            percent(contender.floor_fraction),
            contender.gain,
            contender.verdict,
        )
        for contender in report.contenders
    ]
    head = ("contender", "median ms", "of the floor", "best is faster by", "verdict")
    blocks.append(table(head, rows, (1, 2)))
    blocks.append(
        "Ratios of medians with their 95 % intervals, measured in one session; *none* where the "
        "difference is inside the noise, *two sessions* where no interval can be given. "
        "The floor is the least time that the measured memory bandwidth and compute rate allow "
        "for the problem's bytes and operations; a kernel above 100 % needs fewer."
    )
    remarks = [f"- {contender.name}: {escape(disclosure)}" for contender in report.contenders
            for disclosure in contender.disclosures]  # fmt: skip
    remarks += [f"- Note: {escape(note)}" for note in report.summary.notes]
    if remarks:
        blocks.append("\n".join(remarks))
    if report.figure is not None:
        blocks.append(f"![Times of all candidates by round]({FIGURE})")
    return blocks


def _running(report: Report) -> list[str]:
    if not report.running:
        return []
    rows = [
        (
            f"{step.round}" + ("" if step.finished else " (interrupted)"),
            str(step.judged),
            str(step.right),
            f"`{step.best.id}`",
            milliseconds(step.best.outcome.median_ms),
            percent(step.best.outcome.floor_fraction),
            step.gain,
            step.over_start,
        )
        for step in report.running
    ]
    head = ("round", "judged", "right", "best", "median ms", "of the floor", "gain", "over start")
    return ["## Running best", table(head, rows, (0, 1, 2, 4, 5))]


def _best(report: Report) -> list[str]:
    best = report.best
    if best is None:
        return []
    candidate = best.candidate
    facts = [
        f"`{best.id}` by {escape(candidate.proposer)}, family {escape(candidate.family)}, "
        f"round {candidate.round}; verdict: {best.outcome.verdict or 'not judged'}."
    ]
    if report.chunks:
        chunk_names = ", ".join(escape(chunk, 80) for chunk in report.chunks)
        facts.append(f"Knowledge that this kernel or its ancestors list as used: {chunk_names}.")
    if report.citations:
        facts.append("The contexts that showed it cite:")
        facts.append("\n".join(f"- {escape(citation)}" for citation in report.citations))
    language = "cuda" if candidate.suffix == ".cu" else "python"
    if report.given_back is not None:
        facts = [escape(report.given_back), *facts]
    return ["## Best kernel", *facts, fence_source(candidate.source, language)]


def _metrics(report: Report) -> list[str]:
    if not report.metrics:
        return []
    rows = [
        (escape(metric.section), escape(metric.label), metric.before, metric.after, metric.change)
        for metric in report.metrics
    ]
    head = ("section", "metric", "start", "best", "change")
    return ["## Metrics before and after", table(head, rows, (2, 3, 4))]


def _round(story: RoundStory) -> list[str]:
    round_ = story.round
    state = "" if round_.closed is not None else " (interrupted)"
    blocks = [f"## Round {round_.number}{state}"]
    if round_.advised is not None:
        blocks += _advised(round_.advised)
    if round_.proposed is not None and round_.proposed.crossover is not None:
        first, second = round_.proposed.crossover
        blocks.append(f"Asked to combine `{first}` and `{second}`.")
    if story.attempts:
        blocks.append("\n".join(text for attempt in story.attempts for text in _attempt(attempt)))
    lines = [f"- `{candidate.id}` was proposed but not judged" for candidate in story.unjudged]
    lines += [f"- Retired: family {escape(family)}" for family in story.retired]
    lines += [f"- Note: {escape(note)}" for note in story.notes]
    reflections = round_.reflected.notes if round_.reflected is not None else ()
    lines += [f"- Reflection: {escape(reflection, 1000)}" for reflection in reflections]
    return [*blocks, "\n".join(lines)] if lines else blocks


def _advised(advised: Advised) -> list[str]:
    blocks = []
    diagnosis, context = advised.diagnosis, advised.context
    if diagnosis is not None:
        lines = [f"Diagnosis of `{advised.leader}`: {escape(diagnosis.headline)}"]
        for finding in diagnosis.findings:
            lines.append(f"- {escape(finding.cause)} ({finding.category})")
            for item in finding.evidence:
                text = f"{item.label}: {item.value:.4g} {item.unit}"
                lines.append(f"  - {escape(text)}: {escape(item.meaning)}")
        blocks.append("\n".join(lines))
    if context.chunks:
        chunk_names = ", ".join(escape(chunk, 80) for chunk in context.chunks)
        blocks.append(f"Context, {context.tokens} tokens: {chunk_names}")
        if context.citations:
            blocks.append("\n".join(f"- {escape(citation)}" for citation in context.citations))
    return blocks


def _attempt(attempt: Attempt) -> list[str]:
    candidate, outcome = attempt.judged.candidate, attempt.judged.outcome
    time = f", {milliseconds(outcome.median_ms)} ms" if outcome.timed else ""
    gain = f", over the leader: {attempt.gain}" if attempt.gain else ""
    lines = [
        f"- `{attempt.judged.id}` {escape(candidate.proposer)}, {escape(candidate.family)}"
        f"{time}{gain}: **{escape(attempt.fate)}**"
    ]
    if candidate.hypothesis is not None:
        lines.append(f"  - Hypothesis: {escape(candidate.hypothesis.claim)}")
    if attempt.tested:
        lines.append(f"  - {escape(attempt.tested)}")
    if candidate.note:
        lines.append(f"  - {escape(candidate.note)}")
    if candidate.chunks:
        chunk_names = ", ".join(escape(chunk, 80) for chunk in candidate.chunks)
        lines.append(f"  - Used: {chunk_names}")
    if reason := failure_reason(attempt.judged):
        lines.append(f"  - Reason: {escape(reason)}")
    return lines


def _lineage(report: Report) -> list[str]:
    if not report.lineage:
        return []
    lines = []
    for entry in report.lineage:
        outcome = entry.judged.outcome
        time = f"{milliseconds(outcome.median_ms)} ms" if outcome.timed else str(outcome.stage)
        status = time if outcome.right else f"failed at {outcome.stage}"
        also = f", also from {', '.join(entry.other_parents)}" if entry.other_parents else ""
        family = escape(entry.judged.family)
        lines.append(f"{'  ' * entry.depth}- `{entry.judged.id}` {family}: {status}{also}")
    return ["## Lineage", "\n".join(lines)]
