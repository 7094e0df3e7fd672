"""Contenders of a measurement as bars, all against the floor."""

from collections.abc import Sequence

from kb.corpus.entries import Verified
from kb.corpus.measured import BASELINES, COMPILED, EAGER, LIBRARY
from server.web.figures.svg import WIDTH, Drawing, Picture
from server.web.words import figures

_NAMES = {EAGER: "eager PyTorch", COMPILED: "torch.compile", LIBRARY: "vendor's library"}
_ROW, _BAR = 36, 14
# A contender that takes this many times what the kernel and the floor take is cut: the others
# would be lines.
_MOST = 6.0


def contenders(title: str, records: Sequence[Verified]) -> list[Picture]:
    """One picture for each GPU, date, shape and dtype that was measured."""
    groups: dict[tuple[object, ...], list[Verified]] = {}
    for record in records:
        key = (record.gpu, record.date, record.shape, record.dtype, record.measured_ms)
        groups.setdefault(key, []).append(record)
    return [_picture(title, n, group) for n, group in enumerate(groups.values())]


def _picture(title: str, number: int, records: Sequence[Verified]) -> Picture:
    first = records[0]
    floor = (first.floor_fraction or 0.0) * first.measured_ms
    times = [("this kernel", first.measured_ms, "hot")]
    for kind, is_baseline in (("two", True), ("three", False)):
        times += [
            (_NAMES.get(record.baseline, record.baseline), record.baseline_ms, kind)
            for record in records
            if (record.baseline in BASELINES) is is_baseline
        ]
    if floor:
        times.insert(0, ("floor", floor, "floor"))
    longest = min(max(ms for _, ms, _ in times), _MOST * max(first.measured_ms, floor))
    texts = [f"{name}: {figures(ms)} ms{_over(ms, floor)}" for name, ms, _ in times]
    drawing = Drawing(f"times-{number}", f"Times of {title}", "; ".join(texts))
    for row, ((_, ms, kind), words) in enumerate(zip(times, texts, strict=True)):
        y = row * _ROW
        drawing.text(0, y + 13, words)
        drawing.rect(0, y + 18, min(ms / longest, 1.0) * WIDTH, _BAR, kind)
        if ms > longest:  # a bar that goes on
            drawing.line([(WIDTH - 14, y + 16), (WIDTH - 8, y + 34)], "cut")
            drawing.line([(WIDTH - 8, y + 16), (WIDTH - 2, y + 34)], "cut")
        if floor:
            x = floor / longest * WIDTH
            drawing.line([(x, y + 16), (x, y + 34)], "limit")
    note = (
        "The mark on each bar is the floor: the least time that the hardware allows. "
        if floor
        else ""
    )
    return drawing.picture(
        f"{note}{first.shape} {first.dtype} on {first.gpu}, {first.date}; shorter is faster."
    )


def _over(ms: float, floor: float) -> str:
    return f", {ms / floor:.3g}× the floor" if floor and ms != floor else ""
