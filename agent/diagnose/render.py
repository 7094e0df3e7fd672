"""A diagnosis as text for a terminal: wrapped lines, nothing cut off."""

from collections.abc import Callable, Iterator

from agent.diagnose.result import Advice, Diagnosis, Finding, Opinion, Roofline
from kb.printable import WIDTH, wrapped
from kb.profiles.values import quantity, si

_SEVERE, _MEDIUM = 0.6, 0.3


def render(
    diagnosis: Diagnosis, width: int = WIDTH, strong: Callable[[str], str] = str
) -> Iterator[str]:
    """The lines to print, of `width` columns; `strong` marks a heading up.

    Only words longer than that, such as metric names, may stand alone beyond the width.
    """
    for line in wrapped(diagnosis.headline, width=width):
        yield strong(line)
    yield from wrapped(roofline_words(diagnosis.roofline, diagnosis.gpu), width=width)
    shown_slugs: set[str] = set()
    for number, finding in enumerate(diagnosis.findings, start=1):
        yield ""
        yield from _finding(f"{number}.", finding, width, strong)
        yield from _techniques(finding, width, shown_slugs)
        shown_slugs |= {technique.slug for technique in finding.techniques}
    if diagnosis.opinion is not None:
        yield ""
        yield from _opinion(diagnosis.opinion, width, strong)
    notes = list(diagnosis.notes)
    if diagnosis.ignored:
        listed = ", ".join(diagnosis.ignored[:4]) + (", ..." if len(diagnosis.ignored) > 4 else "")
        notes.append(f"unknown metrics, ignored: {listed}")
    if notes:
        yield ""
    for note in notes:
        yield from wrapped(f"Note: {note}.", "", " " * 6, width)


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
        share_text = f"{share:.1%}" if share < 0.1 else f"{share:.0%}"
        parts.append(
            f"{si(rate)}FLOP/s of {si(compute.value)}FLOP/s ({share_text}, {compute.name}, "
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
    for line in wrapped(head, "", " " * (len(mark) + 1), width):
        yield strong(line)
    for evidence in finding.evidence:
        value = f"{evidence.label}: {quantity(evidence.value, evidence.unit)}"
        text = f"{value}, {evidence.meaning}" if evidence.meaning else value
        yield from wrapped(f"- {text} ({evidence.metric})", " " * 3, " " * 5, width)


def _techniques(finding: Finding, width: int, shown_slugs: set[str]) -> Iterator[str]:
    if not finding.techniques:
        yield from wrapped(
            "The knowledge base has no entry that answers it yet.", " " * 3, " " * 3, width
        )
        return
    yield "   What may help:"
    for technique in finding.techniques:
        if technique.slug in shown_slugs:
            yield from wrapped(f"* {technique.title}: see above", " " * 3, " " * 5, width)
        else:
            yield from _advice(technique, width)


def _advice(advice: Advice, width: int) -> Iterator[str]:
    yield from wrapped(f"* {advice.title}: kb show {advice.slug}", " " * 3, " " * 5, width)
    for reason in advice.reasons:
        yield from wrapped(f"+ {reason}", " " * 5, " " * 7, width)
    for reason in advice.against:
        yield from wrapped(f"- against it: {reason}", " " * 5, " " * 7, width)


def _opinion(opinion: Opinion, width: int, strong: Callable[[str], str]) -> Iterator[str]:
    head = f"Opinion of the model {opinion.model} (not of the rules): {opinion.bottleneck}"
    for line in wrapped(head, width=width):
        yield strong(line)
    yield from wrapped(opinion.summary, " " * 3, " " * 3, width)
    for letter, finding in zip("ab", opinion.findings, strict=False):
        yield from _finding(f"{letter}.", finding, width, str)
    for slug in opinion.techniques:
        yield f"   * kb show {slug}"
