"""The convergence of a run as one SVG: every candidate, the running best, baselines, the floor.

It stands alone as a file and inside a page, follows the reader's light or dark theme, and needs no
script. Time is on a logarithmic axis, so equal ratios are equal distances.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final, TypeGuard

from agent.optimize.candidate import Judged
from agent.optimize.record import Record
from agent.optimize.summary import FORM_ROWS
from agent.report.words import line, milliseconds
from judge.evaluate.statistics import repeatability

WIDTH: Final = 860
HEIGHT: Final = 440
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 150, 58, 62
# The strip above the plot in which failures stand: they have no time.
_FAILED_Y: Final = 34
_LABEL_GAP: Final = 15
_FEWEST_TICKS: Final = 3
_STYLE: Final = """
.kb-plot{--pg:#fff;--ink:#1b1f24;--dim:#57606a;--grid:#e3e6ea;--best:#0a53c4;--mark:#57606a;
--bad:#a4161a;--floor:#0b6127;font:12px system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
@media(prefers-color-scheme:dark){.kb-plot{--pg:#14171b;--ink:#e3e6ea;--dim:#a3abb6;--grid:#2b3139;
--best:#8cb8ff;--mark:#a3abb6;--bad:#ff9c97;--floor:#8fd8a0}}
.kb-plot text{fill:var(--ink)}.kb-plot .dim{fill:var(--dim)}.kb-plot .page{fill:var(--pg)}
.kb-plot .grid{stroke:var(--grid)}.kb-plot .axis{stroke:var(--dim)}
.kb-plot .base{stroke:var(--dim);stroke-dasharray:5 4}
.kb-plot .floor{stroke:var(--floor);stroke-width:1.5}
.kb-plot text.floor{fill:var(--floor);stroke:none}
.kb-plot .best{stroke:var(--best);stroke-width:2;fill:none}
.kb-plot .band{fill:var(--best);opacity:.16}
.kb-plot .dot{fill:var(--pg);stroke:var(--mark);stroke-width:1.5}
.kb-plot .lead{fill:var(--best);stroke:var(--best)}
.kb-plot .spread{stroke:var(--mark)}.kb-plot .bad{stroke:var(--bad);stroke-width:1.7;fill:none}
"""


@dataclass(frozen=True, slots=True)
class _Axes:
    """Where values stand on the drawing."""

    low: float
    high: float
    count: int

    def x(self, position: float) -> float:
        """Of a candidate by its number; 0 is the start."""
        return _LEFT + (position + 0.5) / (self.count + 1) * (WIDTH - _LEFT - _RIGHT)

    def y(self, ms: float) -> float:
        """Of a time."""
        share = math.log(ms / self.low) / math.log(self.high / self.low)
        return HEIGHT - _BOTTOM - share * (HEIGHT - _TOP - _BOTTOM)


def draw_convergence(record: Record) -> str | None:
    """The drawing as SVG text; None where nothing was timed (a dry run, or no start yet)."""
    if record.standing is None:
        return None
    points = [record.start, *record.history]
    floor = record.standing.floor.ms if record.standing.floor is not None else None
    lines = {
        label: record.baselines[key].median_ms
        for key, label in FORM_ROWS
        if key in record.baselines
    }
    if floor is not None:
        lines["floor"] = floor
    times = [point.outcome.median_ms for point in points if point.outcome.timed]
    usable_times = [ms for ms in (*times, *lines.values()) if _usable(ms)]
    if not any(_usable(ms) for ms in times):
        return None
    axes = _Axes(min(usable_times) / 1.25, max(usable_times) * 1.25, len(points) - 1)
    parts = [*_frame(axes), *_rounds(record, axes), *_lines(lines, axes)]
    parts += [*_running(record, points, axes), *_points(record, points, axes), *_legend()]
    description = _description(points, lines)
    return (
        f'<svg class="kb-plot" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'role="img" aria-label="{escape(description)}"><style>{_STYLE}</style>'
        f'<rect class="page" width="{WIDTH}" height="{HEIGHT}"/>' + "".join(parts) + "</svg>"
    )


def ticks(low: float, high: float) -> list[float]:
    """Round values between two times: powers of ten, with 2 and 5, or finer where few fit."""
    for steps in ((1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8), tuple(1 + i / 10 for i in range(90))):
        values = [
            step * 10.0**power
            for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
            for step in steps
            if low <= step * 10.0**power <= high
        ]
        if len(values) >= _FEWEST_TICKS:
            break
    return values


def _usable(ms: float | None) -> TypeGuard[float]:
    return ms is not None and math.isfinite(ms) and ms > 0


def _frame(axes: _Axes) -> list[str]:
    right, bottom = WIDTH - _RIGHT, HEIGHT - _BOTTOM
    parts = []
    for ms in ticks(axes.low, axes.high):
        y = axes.y(ms)
        parts.append(_level(y, "grid"))
        parts.append(_text(_LEFT - 8, y + 4, f"{ms:.4g}", anchor="end"))
    parts.append(f'<path class="axis" fill="none" d="M{_LEFT} {_TOP}V{bottom}H{right}"/>')
    middle = (_TOP + bottom) / 2
    parts.append(
        f'<text transform="translate(15 {middle:.0f}) rotate(-90)" text-anchor="middle">'
        "median time, ms (log scale)</text>"
    )
    parts.append(_text((_LEFT + right) / 2, bottom + 36, "candidates, in the order of judging"))
    return parts


def _rounds(record: Record, axes: _Axes) -> list[str]:
    parts = [_text(axes.x(0), HEIGHT - _BOTTOM + 16, "start", css="dim")]
    position = 0
    label_x = -math.inf
    for number, round_ in sorted(record.rounds.items()):
        count = len(round_.in_order())
        if not count:
            continue
        x = axes.x(position + 0.5)
        parts.append(
            f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{HEIGHT - _BOTTOM}"/>'
        )
        middle = axes.x(position + (count + 1) / 2)
        if middle - label_x >= 50:  # the width of a label: of many rounds some are named
            parts.append(_text(middle, HEIGHT - _BOTTOM + 16, f"round {number}", css="dim"))
            label_x = middle
        position += count
    return parts


def _lines(lines: dict[str, float], axes: _Axes) -> list[str]:
    """Horizontal lines with labels at the right, pushed apart where they would overlap."""
    parts = []
    label_y = -math.inf
    for label, ms in sorted(lines.items(), key=lambda item: -item[1]):
        if not _usable(ms):
            continue
        css = "floor" if label == "floor" else "base"
        y = axes.y(ms)
        label_y = max(y + 4, label_y + _LABEL_GAP)
        parts.append(_level(y, css))
        text = f"{label} {milliseconds(ms)}"
        text_css = "floor" if label == "floor" else ""
        parts.append(_text(WIDTH - _RIGHT + 8, label_y, text, anchor="start", css=text_css))
    return parts


def _running(record: Record, points: Sequence[Judged], axes: _Axes) -> list[str]:
    """The best so far as a step line, within the band that two runs of one kernel differ by."""
    steps: list[tuple[float, float]] = []
    if (first := points[0].outcome.median_ms) is not None and points[0].outcome.timed:
        steps.append((axes.x(0), first))
    positions = {point.id: number for number, point in enumerate(points)}
    for leader in dict.fromkeys(closed.leader for closed in record.closed):
        ms = points[positions[leader]].outcome.median_ms
        if _usable(ms) and leader != points[0].id:
            steps.append((axes.x(positions[leader]), ms))
    if not steps:
        return []
    end = axes.x(len(points) - 0.5)
    parts, path = [], f"M{steps[0][0]:.1f} {axes.y(steps[0][1]):.1f}"
    for number, (x, ms) in enumerate(steps):
        until = steps[number + 1][0] if number + 1 < len(steps) else end
        noise = 1 + repeatability(ms)
        top, bottom = axes.y(min(ms * noise, axes.high)), axes.y(max(ms / noise, axes.low))
        parts.append(
            f'<rect class="band" x="{x:.1f}" y="{top:.1f}" width="{max(0.0, until - x):.1f}" '
            f'height="{max(1.0, bottom - top):.1f}"/>'
        )
        path += f"V{axes.y(ms):.1f}H{until:.1f}"
    return [*parts, f'<path class="best" d="{path}"/>']


def _points(record: Record, points: Sequence[Judged], axes: _Axes) -> list[str]:
    leaders = {points[0].id, *(closed.leader for closed in record.closed)}
    parts = []
    for number, point in enumerate(points):
        outcome, x = point.outcome, axes.x(number)
        title = escape(line(f"{point.id}, {point.candidate.proposer}, {point.family}", 120))
        if not outcome.right:
            why = escape(line("; ".join(outcome.reasons[:1]) or str(outcome.stage), 160))
            mark = f"M{x - 4:.1f} {_FAILED_Y - 4}l8 8m0 -8l-8 8"
            parts.append(
                f'<path class="bad" d="{mark}"><title>{title}: failed at {outcome.stage}: {why}'
                "</title></path>"
            )
            continue
        ms = outcome.median_ms
        if not _usable(ms):
            continue
        if outcome.p10_ms is not None and outcome.p90_ms is not None and outcome.p10_ms > 0:
            top = axes.y(min(outcome.p90_ms, axes.high))
            bottom = axes.y(max(outcome.p10_ms, axes.low))
            parts.append(
                f'<line class="spread" x1="{x:.1f}" x2="{x:.1f}" y1="{top:.1f}" y2="{bottom:.1f}"/>'
            )
        css = "dot lead" if point.id in leaders else "dot"
        parts.append(
            f'<circle class="{css}" cx="{x:.1f}" cy="{axes.y(ms):.1f}" r="4">'
            f"<title>{title}: {milliseconds(ms)} ms</title></circle>"
        )
    if any(not point.outcome.right for point in points):
        parts.append(_text(_LEFT - 8, _FAILED_Y + 4, "failed", anchor="end", css="dim"))
    return parts


def _legend() -> list[str]:
    y = HEIGHT - 9
    return [
        f'<circle class="dot lead" cx="{_LEFT + 6}" cy="{y - 4}" r="4"/>',
        _text(_LEFT + 16, y, "best so far", anchor="start", css="dim"),
        f'<circle class="dot" cx="{_LEFT + 100}" cy="{y - 4}" r="4"/>',
        _text(_LEFT + 110, y, "right, 10th to 90th percentile", anchor="start", css="dim"),
        f'<path class="bad" d="M{_LEFT + 292} {y - 8}l8 8m0 -8l-8 8"/>',
        _text(_LEFT + 306, y, "failed", anchor="start", css="dim"),
        f'<rect class="band" x="{_LEFT + 358}" y="{y - 10}" width="16" height="11"/>',
        _text(_LEFT + 380, y, "noise between two runs", anchor="start", css="dim"),
    ]  # fmt: skip


def _description(points: Sequence[Judged], lines: dict[str, float]) -> str:
    timed = [point.outcome.median_ms for point in points if point.outcome.timed]
    failed = sum(not point.outcome.right for point in points)
    others = ", ".join(f"{label} {milliseconds(ms)} ms" for label, ms in lines.items())
    least = min(ms for ms in timed if ms is not None)
    return (
        f"Median times of {len(points)} candidates, including the start; {failed} failed; "
        f"the lowest is {milliseconds(least)} ms. {others}"
    ).strip()


def _level(y: float, css: str) -> str:
    """A horizontal line across the plot."""
    return f'<line class="{css}" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'


def _text(x: float, y: float, text: str, *, anchor: str = "middle", css: str = "") -> str:
    css_class = f' class="{css}"' if css else ""
    return f'<text{css_class} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
