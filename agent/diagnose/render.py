"""A diagnosis as text for a terminal: wrapped lines, nothing cut off."""

import textwrap
from collections.abc import Callable, Iterator

from agent.diagnose.result import Advice, Diagnosis, Finding, Opinion, Roofline
from kb.profiles.values import quantity, si

WIDTH = 80
_SEVERE, _MEDIUM = 0.6, 0.3


def render(
    diagnosis: Diagnosis, width: int = WIDTH, strong: Callable[[str], str] = str
) -> Iterator[str]:
    """The lines to print, of `width` columns; `strong` marks a heading up.

    Only words longer than that, such as metric names, may stand alone beyond the width.
    """
    for line in _wrap(diagnosis.headline, width):
        yield strong(line)
    yield from _wrap(roofline_words(diagnosis.roofline, diagnosis.gpu), width)
    shown: set[str] = set()
    for number, finding in enumerate(diagnosis.findings, start=1):
        yield ""
        yield from _finding(f"{number}.", finding, width, strong)
        yield from _techniques(finding, width, shown)
        shown |= {each.slug for each in finding.techniques}
    if diagnosis.opinion is not None:
        yield ""
        yield from _opinion(diagnosis.opinion, width, strong)
    notes = list(diagnosis.notes)
    if diagnosis.ignored:
        some = ", ".join(diagnosis.ignored[:4]) + (", ..." if len(diagnosis.ignored) > 4 else "")
        notes.append(f"ignored, since they name no known metric: {some}")
    if notes:
        yield ""
    for note in notes:
        yield from _wrap(f"Note: {note}.", width, hang=6)


def roofline_words(position: Roofline, gpu: str | None) -> str:
    """The position in one sentence; what is unknown is said to be."""
    parts = []
    bandwidth, roof = position.attained_bps, position.memory_roof
    if bandwidth is not None and roof is not None:
        parts.append(
            f"{si(bandwidth)}B/s of {si(roof.value)}B/s ({position.memory_fraction:.0%}, "
            f"{roof.name}, {roof.source})"
        )
    elif position.memory_fraction is not None:
        parts.append(f"{position.memory_fraction:.0%} of DRAM's peak")
    else:
        parts.append("bandwidth unknown")
    rate, compute = position.attained_flops, position.compute_roof
    if rate is not None and compute is not None and position.compute_fraction is not None:
        share = position.compute_fraction
        shown = f"{share:.1%}" if share < 0.1 else f"{share:.0%}"
        parts.append(
            f"{si(rate)}FLOP/s of {si(compute.value)}FLOP/s ({shown}, {compute.name}, "
            f"{compute.source})"
        )
    if position.intensity is not None:
        ridge = f", ridge at {position.ridge:.3g}" if position.ridge is not None else ""
        side = f": the {position.region} side" if position.region else ""
        parts.append(f"{position.intensity:.3g} FLOP/byte{ridge}{side}")
    if position.floor_fraction is not None:
        parts.append(f"{position.floor_fraction:.0%} of the floor")
    card = f" ({gpu})" if gpu else ""
    return f"Roofline{card}: {'; '.join(parts)}."


def severity_word(severity: float) -> str:
    """The severity in a word."""
    return "high" if severity >= _SEVERE else "medium" if severity >= _MEDIUM else "low"


def _finding(
    mark: str, finding: Finding, width: int, strong: Callable[[str], str]
) -> Iterator[str]:
    head = f"{mark} {finding.cause} [{finding.category}, {severity_word(finding.severity)}]"
    for line in _wrap(head, width, hang=len(mark) + 1):
        yield strong(line)
    for each in finding.evidence:
        value = f"{each.label}: {quantity(each.value, each.unit)}"
        told = f"{value}, {each.meaning}" if each.meaning else value
        yield from _wrap(f"   - {told} ({each.metric})", width, hang=5)


def _techniques(finding: Finding, width: int, shown: set[str]) -> Iterator[str]:
    if not finding.techniques:
        yield from _wrap("   No entry of the knowledge base answers it yet.", width, hang=3)
        return
    yield "   What may help:"
    for each in finding.techniques:
        if each.slug in shown:
            yield from _wrap(f"   * {each.title}: see above", width, hang=5)
        else:
            yield from _advice(each, width)


def _advice(advice: Advice, width: int) -> Iterator[str]:
    yield from _wrap(f"   * {advice.title}: kb show {advice.slug}", width, hang=5)
    for reason in advice.reasons:
        yield from _wrap(f"     + {reason}", width, hang=7)
    for reason in advice.against:
        yield from _wrap(f"     - against it: {reason}", width, hang=7)


def _opinion(opinion: Opinion, width: int, strong: Callable[[str], str]) -> Iterator[str]:
    head = f"Opinion of the model {opinion.model} (not of the rules): {opinion.bottleneck}"
    for line in _wrap(head, width):
        yield strong(line)
    yield from _wrap(f"   {opinion.summary}", width, hang=3)
    for letter, finding in zip("ab", opinion.findings, strict=False):
        yield from _finding(f"{letter}.", finding, width, str)
    for slug in opinion.techniques:
        yield f"   * kb show {slug}"


def _wrap(text: str, width: int, hang: int = 0) -> list[str]:
    start = text[: len(text) - len(text.lstrip())]
    return textwrap.wrap(
        text.strip(),
        width,
        initial_indent=start,
        subsequent_indent=" " * hang,
        break_on_hyphens=False,
    )
