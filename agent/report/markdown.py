"""A report as Markdown: tables and lists that read well as plain text."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from agent.optimize.events import Advised
from agent.report.gather import FIGURE, Report
from agent.report.story import Attempt, Telling, why_failed
from agent.report.words import line, milliseconds, percent, visible

# What Markdown or HTML would take as markup; a backslash before each makes it a character.
_MARKUP: Final = re.compile(r"([\\`*_{}\[\]<>()#+!|~&$])")
_FENCE: Final = re.compile(r"`{3,}")


def escaped(text: str, most: int = 400) -> str:
    """Untrusted text as one line, with markup escaped."""
    return _MARKUP.sub(r"\\\1", line(text, most))


def fenced(source: str, language: str) -> str:
    """Source in a fence that it cannot close."""
    longest = max((len(each) for each in _FENCE.findall(source)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{visible(source).rstrip()}\n{fence}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """A table; columns of `numbers` are set to the right."""
    rule = ["---:" if number in numbers else "---" for number in range(len(head))]
    lines = [" | ".join(row) for row in (head, rule, *rows)]
    return "\n".join(f"| {each} |" for each in lines)


def markdown(report: Report) -> str:
    """The whole report."""
    blocks = [
        f"# {escaped(report.config.problem.name)}: run report",
        report.headline,
        escaped(report.state),
        *_contenders(report),
        *_running(report),
        *_best(report),
        *_metrics(report),
        *(block for round_ in report.rounds for block in _round(round_)),
        *_lineage(report),
        "## Cost",
        table(("what", "how much"), [(escaped(a), escaped(b)) for a, b in report.accounting]),
        "## Environment",
        table(("what", "value"), [(escaped(a), escaped(b)) for a, b in report.environment]),
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
    told = [f"- {contender.name}: {escaped(one)}" for contender in report.contenders
            for one in contender.disclosures]  # fmt: skip
    told += [f"- Note: {escaped(note)}" for note in report.summary.notes]
    if told:
        blocks.append("\n".join(told))
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
        f"`{best.id}` by {escaped(candidate.proposer)}, family {escaped(candidate.family)}, "
        f"round {candidate.round}; verdict: {best.outcome.verdict or 'not judged'}."
    ]
    if report.chunks:
        named = ", ".join(escaped(chunk, 80) for chunk in report.chunks)
        facts.append(f"Knowledge that this kernel or its ancestors list as used: {named}.")
    if report.citations:
        facts.append("The contexts that showed it cite:")
        facts.append("\n".join(f"- {escaped(citation)}" for citation in report.citations))
    language = "cuda" if candidate.suffix == ".cu" else "python"
    if report.given_back is not None:
        facts = [escaped(report.given_back), *facts]
    return ["## Best kernel", *facts, fenced(candidate.source, language)]


def _metrics(report: Report) -> list[str]:
    if not report.metrics:
        return []
    rows = [
        (escaped(metric.section), escaped(metric.label), metric.before, metric.after, metric.moved)
        for metric in report.metrics
    ]
    head = ("section", "metric", "start", "best", "change")
    return ["## Metrics before and after", table(head, rows, (2, 3, 4))]


def _round(telling: Telling) -> list[str]:
    told = telling.round
    state = "" if told.closed is not None else " (interrupted)"
    blocks = [f"## Round {told.number}{state}"]
    if told.advised is not None:
        blocks += _advised(told.advised)
    if told.proposed is not None and told.proposed.crossover is not None:
        first, second = told.proposed.crossover
        blocks.append(f"Asked to combine `{first}` and `{second}`.")
    if telling.attempts:
        blocks.append("\n".join(told for attempt in telling.attempts for told in _attempt(attempt)))
    lines = [f"- `{candidate.id}` was proposed but not judged" for candidate in telling.unjudged]
    lines += [f"- Retired: family {escaped(each)}" for each in telling.retired]
    lines += [f"- Note: {escaped(note)}" for note in telling.notes]
    reflections = told.reflected.notes if told.reflected is not None else ()
    lines += [f"- Reflection: {escaped(reflection, 1000)}" for reflection in reflections]
    return [*blocks, "\n".join(lines)] if lines else blocks


def _advised(advised: Advised) -> list[str]:
    blocks = []
    diagnosis, context = advised.diagnosis, advised.context
    if diagnosis is not None:
        lines = [f"Diagnosis of `{advised.leader}`: {escaped(diagnosis.headline)}"]
        for finding in diagnosis.findings:
            lines.append(f"- {escaped(finding.cause)} ({finding.category})")
            for one in finding.evidence:
                told = f"{one.label}: {one.value:.4g} {one.unit}"
                lines.append(f"  - {escaped(told)}: {escaped(one.meaning)}")
        blocks.append("\n".join(lines))
    if context.chunks:
        named = ", ".join(escaped(chunk, 80) for chunk in context.chunks)
        blocks.append(f"Context, {context.tokens} tokens: {named}")
        if context.citations:
            blocks.append("\n".join(f"- {escaped(citation)}" for citation in context.citations))
    return blocks


def _attempt(attempt: Attempt) -> list[str]:
    candidate, outcome = attempt.judged.candidate, attempt.judged.outcome
    time = f", {milliseconds(outcome.median_ms)} ms" if outcome.timed else ""
    gain = f", over the leader: {attempt.gain}" if attempt.gain else ""
    lines = [
        f"- `{attempt.judged.id}` {escaped(candidate.proposer)}, {escaped(candidate.family)}"
        f"{time}{gain}: **{escaped(attempt.fate)}**"
    ]
    if candidate.hypothesis is not None:
        lines.append(f"  - Hypothesis: {escaped(candidate.hypothesis.claim)}")
    if attempt.tested:
        lines.append(f"  - {escaped(attempt.tested)}")
    if candidate.note:
        lines.append(f"  - {escaped(candidate.note)}")
    if candidate.chunks:
        named = ", ".join(escaped(chunk, 80) for chunk in candidate.chunks)
        lines.append(f"  - Used: {named}")
    if reason := why_failed(attempt.judged):
        lines.append(f"  - Reason: {escaped(reason)}")
    return lines


def _lineage(report: Report) -> list[str]:
    if not report.lineage:
        return []
    lines = []
    for each in report.lineage:
        outcome = each.judged.outcome
        time = f"{milliseconds(outcome.median_ms)} ms" if outcome.timed else str(outcome.stage)
        told = time if outcome.right else f"failed at {outcome.stage}"
        also = f", also from {', '.join(each.also)}" if each.also else ""
        family = escaped(each.judged.family)
        lines.append(f"{'  ' * each.depth}- `{each.judged.id}` {family}: {told}{also}")
    return ["## Lineage", "\n".join(lines)]
