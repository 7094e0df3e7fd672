"""Who does what when: waves, split-K, stream-K, software pipelines, specialized warps."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from server.web.figures.svg import WIDTH, Drawing, Picture

_ROW = 20
_LEFT = 74
_SERIES = ("one", "two", "three", "four")


@dataclass(frozen=True, slots=True)
class Span:
    """Something that a row does for a time."""

    row: int
    start: float
    end: float
    label: str
    kind: str


@dataclass(frozen=True, slots=True)
class _Panel:
    """One chart of a drawing."""

    heading: str
    rows: Sequence[str]
    spans: Sequence[Span]


def _charts(name: str, title: str, panels: Sequence[_Panel], caption: str) -> Picture:
    """Panels below each other on one scale of time; their headings say what is seen."""
    drawing = Drawing(name, title, "; ".join(panel.heading for panel in panels))
    scale = (WIDTH - _LEFT) / max(_end(panel.spans) for panel in panels)
    top = 0.0
    for panel in panels:
        drawing.text(0, top + 12, panel.heading, "heading")
        top += 20
        for number, row in enumerate(panel.rows):
            drawing.text(_LEFT - 6, top + number * _ROW + 14, row, "quiet", "end")
            drawing.rect(_LEFT, top + number * _ROW, WIDTH - _LEFT, _ROW - 2, "track")
        for span in panel.spans:
            left, width = _LEFT + span.start * scale, (span.end - span.start) * scale
            y = top + span.row * _ROW
            drawing.boxed(left, y, width, _ROW - 2, span.label, kind=span.kind)
        top += len(panel.rows) * _ROW + 8
    return drawing.picture(caption)


def _end(spans: Sequence[Span]) -> float:
    return max(span.end for span in spans)


def _sms(count: int) -> list[str]:
    return [f"SM {number}" for number in range(count)]


def in_waves(pieces: Sequence[tuple[str, float, str]], sms: int) -> list[Span]:
    """Pieces of work (label, duration, kind), each to the SM that is free first."""
    free = [0.0] * sms
    spans = []
    for label, duration, kind in pieces:
        row = min(range(sms), key=lambda sm: (free[sm], sm))
        spans.append(Span(row, free[row], free[row] + duration, label, kind))
        free[row] += duration
    return spans


def wave_quantization(tiles: int = 9, sms: int = 8) -> Picture:
    """One tile too many for a wave, and the same work in halves."""
    panels = []
    for parts, name, kind in ((1, "tiles", "one"), (2, "half tiles", "two")):
        spans = in_waves([(str(n), 1 / parts, kind) for n in range(parts * tiles)], sms)
        units = _end(spans)
        heading = f"{parts * tiles} {name}: {units:g} units, {tiles / sms / units:.0%} of the slots"
        panels.append(_Panel(heading, _sms(sms), spans))
    return _charts(
        "waves", "Tiles on SMs over time", panels,
        f"{tiles} equal tiles on {sms} SMs: the last wave holds {tiles % sms or sms} and takes as "
        "long as a full one. Halving the tile size halves the cost of the last wave, which pays if "
        "smaller tiles are as efficient.",
    )  # fmt: skip


def _by_tiles(tiles: int, steps: int, sms: int) -> _Panel:
    spans = in_waves([(str(t), steps, _SERIES[t % 4]) for t in range(tiles)], sms)
    return _Panel(f"One block for each of {tiles} tiles: {_end(spans):g} steps", _sms(sms), spans)


def split_k(tiles: int = 3, steps: int = 8, sms: int = 8, split: int = 2) -> Picture:
    """Fewer tiles than SMs, and each tile's main loop shared by several blocks."""
    pieces = [
        (f"{t}.{part}", steps / split, _SERIES[t % 4])
        for t in range(tiles)
        for part in range(split)
    ]
    spans = in_waves(pieces, sms)
    heading = f"Split-K by {split}, {tiles * split} blocks: {_end(spans):g} steps"
    return _charts(
        "split-k", "A tile's main loop in parts",
        [_by_tiles(tiles, steps, sms), _Panel(heading, _sms(sms), spans)],
        f"{tiles} tiles of {steps} main-loop steps on {sms} SMs. A label t.p is part p of tile t; "
        "the parts' sums are added afterwards, by atomics or by a second kernel.",
    )  # fmt: skip


def stream_k(tiles: int = 5, steps: int = 8, sms: int = 4) -> Picture:
    """Every SM gets the same number of main-loop steps, wherever tiles begin and end."""
    share = tiles * steps / sms
    spans = []
    for sm in range(sms):
        first, last = sm * share, (sm + 1) * share
        for tile in range(int(first // steps), math.ceil(last / steps)):
            start, end = max(first, tile * steps), min(last, (tile + 1) * steps)
            kind = _SERIES[tile % 4]
            spans.append(Span(sm, start - first, end - first, str(tile), kind))
    heading = f"Stream-K, equal shares: {_end(spans):g} steps"
    return _charts(
        "stream-k", "Equal shares of main-loop steps",
        [_by_tiles(tiles, steps, sms), _Panel(heading, _sms(sms), spans)],
        f"{tiles} tiles of {steps} main-loop steps on {sms} SMs; a label is the tile. A tile that "
        "two SMs share is assembled from their partial sums.",
    )  # fmt: skip


def pipeline(blocks: int, stages: int, latency: float, issue: float, work: float) -> list[Span]:
    """Loads into `stages` buffers, and the work on each block, which frees its buffer.

    Row `n` below `stages` is buffer n, the last row computes. A load takes `latency` and the next
    one may start `issue` later.
    """
    spans: list[Span] = []
    issued, finished = -issue, [0.0] * blocks
    for block in range(blocks):
        issued = max(issued + issue, finished[block - stages] if block >= stages else 0.0)
        arrived = issued + latency
        start = max(arrived, finished[block - 1] if block else 0.0)
        finished[block] = start + work
        spans.append(Span(block % stages, issued, arrived, str(block), "one"))
        spans.append(Span(stages, start, finished[block], str(block), "hot"))
    return spans


def software_pipelining(
    blocks: int = 6, stages: int = 3, latency: float = 3.0, work: float = 1.5
) -> Picture:
    """One buffer against several."""
    panels = []
    for count in (1, stages):
        spans = pipeline(blocks, count, latency, 0.5, work)
        rows = [*(f"buffer {n}" for n in range(count)), "compute"]
        heading = f"{count} stage{'s' if count > 1 else ''}: {_end(spans):g} units"
        panels.append(_Panel(heading, rows, spans))
    return _charts(
        "pipeline", "Loads and arithmetic over time", panels,
        f"A load takes {latency:g} units, the arithmetic on its block {work:g}. With {stages} "
        "buffers the next loads are under way while one block is computed. A number is the block.",
    )  # fmt: skip


def warp_specialization(
    tiles: int = 3, blocks: int = 3, copy: float = 0.8, work: float = 1.0, epilogue: float = 2.0
) -> Picture:
    """All warps do everything in turn, against a producer and two consumers that take turns."""
    alike: list[Span] = []
    now = 0.0
    for tile in range(tiles):
        # The first block of a tile is waited for; later ones are loaded ahead.
        for label, length, kind in (
            ("", copy, "one"),
            (f"mma {tile}", blocks * work, "hot"),
            (f"out {tile}", epilogue, "two"),
        ):
            alike.append(Span(0, now, now + length, label, kind))
            now += length
    apart = _specialized(tiles, blocks, copy, work, epilogue)
    rows = ["producer", "consumer 0", "consumer 1"]
    return _charts(
        "roles", "Warps with one role each",
        [
            _Panel(f"All warps alike: {now:g} units", ["all warps"], alike),
            _Panel(f"Specialized: {_end(apart):g} units", rows, apart),
        ],
        f"{tiles} tiles of {blocks} blocks each. The producer only copies (unlabelled), up to four "
        "blocks ahead. One consumer uses the tensor cores (mma) while the other stores its tile "
        "(out).",
    )  # fmt: skip


def _specialized(
    tiles: int, blocks: int, copy: float, work: float, epilogue: float, *, slots: int = 4
) -> list[Span]:
    spans: list[Span] = []
    copied, used = 0.0, [0.0] * (tiles * blocks)
    tensor_cores, ready = 0.0, [0.0, 0.0]
    for tile in range(tiles):
        consumer, began = tile % 2, None
        for block in range(tile * blocks, (tile + 1) * blocks):
            start = max(copied, used[block - slots] if block >= slots else 0.0)
            copied = start + copy
            spans.append(Span(0, start, copied, "", "one"))
            begin = max(copied, tensor_cores, ready[consumer])
            began = begin if began is None else began
            used[block] = tensor_cores = begin + work
        assert began is not None
        spans.append(Span(1 + consumer, began, tensor_cores, f"mma {tile}", "hot"))
        ready[consumer] = tensor_cores + epilogue
        spans.append(Span(1 + consumer, tensor_cores, ready[consumer], f"out {tile}", "two"))
    return spans
