"""A problem or a profile under the roofs of a card.

The roofline model is that of Williams, Waterman and Patterson, "Roofline: an insightful visual
performance model for multicore architectures", CACM 52(4), 2009.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kb.profiles.values import si
from server.web.figures.svg import WIDTH, Drawing, Picture
from server.web.words import figures

_LEFT, _TOP, _RIGHT, _BOTTOM = 44.0, 22.0, WIDTH - 6.0, 216.0


@dataclass(frozen=True, slots=True)
class Mark:
    """A point: what is done with each byte, and how fast."""

    label: str
    intensity: float
    """FLOP/byte."""
    rate: float | None = None
    """FLOP/s attained; without it the mark stands at the roof: the most that is possible."""


@dataclass(frozen=True, slots=True)
class Roofs:
    """What a card can do at most."""

    card: str
    bandwidth: float
    """Bytes/s of DRAM."""
    rates: Mapping[str, float]
    """Name of a pipe → FLOP/s."""

    def at(self, intensity: float, rate: float) -> float:
        """The most FLOP/s at an intensity, under one of the rates."""
        return min(rate, self.bandwidth * intensity)


def roofline(roofs: Roofs, marks: Sequence[Mark]) -> Picture:
    """Draw the roofs and the marks on logarithmic axes."""
    peak, least = max(roofs.rates.values()), min(roofs.rates.values())
    ridge = peak / roofs.bandwidth
    xs = [mark.intensity for mark in marks]
    low_x = _decade(min([*xs, least / roofs.bandwidth]) / 2, math.floor)
    high_x = _decade(max([*xs, ridge]) * 2, math.ceil)
    points = [(mark, mark.rate or roofs.at(mark.intensity, peak)) for mark in marks]
    low_y = _decade(min([roofs.bandwidth * low_x * 2, *(y for _, y in points)]) / 2, math.floor)
    high_y = _decade(peak * 1.5, math.ceil)

    def place(x: float, y: float) -> tuple[float, float]:
        across = math.log(x / low_x) / math.log(high_x / low_x)
        up = math.log(max(y, low_y) / low_y) / math.log(high_y / low_y)
        return _LEFT + across * (_RIGHT - _LEFT), _BOTTOM - up * (_BOTTOM - _TOP)

    sentences = [_sentence(mark, rate, ridge) for mark, rate in points]
    drawing = Drawing("roofline", f"Roofline of {roofs.card}", ". ".join(sentences))
    drawing.text(0, 12, "FLOP/s", "quiet")
    for power in range(round(math.log10(low_x)), round(math.log10(high_x)) + 1):
        x, _ = place(10.0**power, low_y)
        drawing.line([(x, _TOP), (x, _BOTTOM)], "grid")
        at = "middle" if x < _RIGHT - 20 else "end"
        drawing.text(x, _BOTTOM + 16, f"{10.0**power:,.10g}", "quiet", at)
    for power in range(round(math.log10(low_y)), round(math.log10(high_y)) + 1):
        _, y = place(low_x, 10.0**power)
        drawing.line([(_LEFT, y), (_RIGHT, y)], "grid")
        drawing.text(_LEFT - 5, y + 4, si(10.0**power).replace(" ", ""), "quiet", "end")
    drawing.text(_RIGHT, _BOTTOM + 32, "FLOP for each byte of DRAM", "quiet", "end")
    for name, rate in roofs.rates.items():
        corner = rate / roofs.bandwidth
        start = max(corner, low_x)
        drawing.line([place(start, roofs.at(start, rate)), place(high_x, rate)], "roof")
        x, y = place(high_x, rate)
        drawing.text(x, y - 8, f"{name} {si(rate)}", "", "end")
    drawing.line([place(low_x, roofs.bandwidth * low_x), place(ridge, peak)], "roof")
    for number, (mark, rate) in enumerate(points, start=1):
        x, y = place(mark.intensity, rate)
        drawing.line([(x, y), (x, _BOTTOM)], "foot")
        drawing.dot(x, y, "hot" if mark.rate is None or number > 1 else "two")
        drawing.text(x - 6, y + 16, number, "strong", "end")
        drawing.text(0, _BOTTOM + 36 + 17 * number, f"{number}. {sentences[number - 1]}")
    return drawing.picture(
        f"{roofs.card}, dense rates from the data sheet: {si(roofs.bandwidth)}B/s of DRAM (slope). "
        "Left of a corner, memory is the limit; right of it, compute."
    )


def _sentence(mark: Mark, rate: float, ridge: float) -> str:
    bound = "memory" if mark.intensity < ridge else "compute"
    most = "" if mark.rate is not None else "at most "
    return f"{mark.label}: {figures(mark.intensity)} FLOP/B, {most}{si(rate)}FLOP/s, {bound}"


def _decade(value: float, rounding: Callable[[float], int]) -> float:
    return 10.0 ** rounding(math.log10(value))
