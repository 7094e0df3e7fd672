"""Turn the spans that a grammar finds into pieces that cover every non-blank line."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from ingest.chunkers.limits import (
    MAX_CHARS,
    MEMBER_CHARS,
    PROSE_CHARS,
    SIGNATURE_CHARS,
    WINDOW_CHARS,
)
from ingest.chunkers.piece import Piece, is_licence_comment

_SPACES = re.compile(r"\s+")
_BLANK_BONUS = 0.5  # a blank line is a boundary the author drew: better than an equally deep one
_LAST_PART = 0.5  # cut in the last half of the room, or parts become needlessly small


@dataclass(slots=True)
class Span:
    """A run of rows (0-based, `end` exclusive) and its metadata."""

    start: int
    end: int
    language: str
    symbol: str | None = None
    signature: str | None = None
    heading: str | None = None
    is_kernel: bool = False
    calls: tuple[str, ...] = ()
    limit: int = MAX_CHARS
    """Largest piece made of this span, in characters."""
    breaks: Mapping[int, int] = field(default_factory=dict)
    """Rows at which a statement starts, and how deeply it is nested (0 outermost)."""


def assemble(lines: list[str], spans: Iterable[Span], filler: Span) -> list[Piece]:
    """Make pieces of `spans` and of all lines between them.

    Parameters
    ----------
    lines
        The file's lines, without line ends.
    spans
        In any order. Spans that share a row become one, since a piece holds whole lines.
    filler
        The metadata of lines outside all spans; its rows are ignored.

    Returns
    -------
    list of Piece
        In file order. Every line with a character other than white space is in exactly one piece
        (in several slices if the line alone exceeds `MAX_CHARS`).
    """
    pieces: list[Piece] = []
    at = 0
    for span in _disjoint(spans):
        pieces.extend(_pieces(lines, replace(filler, start=at, end=span.start)))
        pieces.extend(_pieces(lines, span))
        at = span.end
    pieces.extend(_pieces(lines, replace(filler, start=at, end=len(lines))))
    return pieces


def chunk_plain(text: str) -> list[Piece]:
    """Chunk plain text into windows of about `PROSE_CHARS` characters, cut at blank lines."""
    return assemble(text.split("\n"), [], Span(0, 0, "text", limit=PROSE_CHARS))


def assemble_code(lines: list[str], spans: Iterable[Span], language: str) -> list[Piece]:
    """Like `assemble`, but the licence is a separate piece and lines between spans are windows."""
    filler = Span(0, 0, language, limit=WINDOW_CHARS)
    return assemble(lines, [*_licence_span(lines, language), *spans], filler)


def _licence_span(lines: list[str], language: str) -> list[Span]:
    """Return a span over the licence comment a file starts with, or none.

    Apart from it, the window below would be embedded by the licence's words alone.
    """
    start, end = _trim(lines, 0, len(lines))
    for row in range(start, end):
        line = lines[row].strip()
        if lines[start].lstrip().startswith("/*"):
            if line.endswith("*/"):
                end = row + 1
                break
        elif not line.startswith(("//", "#")) or line.startswith(("#include", "#pragma", "#if")):
            end = row
            break
    licence = start < end and is_licence_comment("\n".join(lines[start:end]))
    return [Span(start, end, language)] if licence else []


def around_members(lines: list[str], whole: Span, members: Iterable[Span]) -> Iterator[Span]:
    """Yield a large class's methods, and the lines between them under the class's name.

    Methods below `MEMBER_CHARS` count as lines between.
    """
    rest = replace(whole, limit=WINDOW_CHARS)
    at = whole.start
    for member in sorted(members, key=lambda span: span.start):
        if member.start < at or span_chars(lines, member) < MEMBER_CHARS:
            continue
        if member.start > at:
            yield replace(rest, start=at, end=member.start)
        yield member
        at = member.end
    if whole.end > at:
        yield replace(rest, start=at)


def span_chars(lines: list[str], span: Span) -> int:
    """Return the characters of a span's text, line feeds included."""
    return sum(len(line) + 1 for line in lines[span.start : span.end])


def one_line(text: str) -> str | None:
    """Return `text` on one line, cut at `SIGNATURE_CHARS`, or None if nothing is left."""
    flat = _SPACES.sub(" ", text).strip()
    if len(flat) > SIGNATURE_CHARS:
        flat = flat[: SIGNATURE_CHARS - 1].rstrip() + "…"
    return flat or None


def _disjoint(spans: Iterable[Span]) -> list[Span]:
    out: list[Span] = []
    for span in sorted(spans, key=lambda s: (s.start, -s.end)):
        if out and span.start < out[-1].end:
            last = out[-1]
            # Both names cannot stay: a kernel's says most, a function's more than none.
            rank, best = (span.is_kernel, bool(span.symbol)), (last.is_kernel, bool(last.symbol))
            out[-1] = replace(
                span if rank > best else last,
                start=last.start,
                end=max(last.end, span.end),
                breaks={**last.breaks, **span.breaks},
                calls=tuple(dict.fromkeys(last.calls + span.calls)),
            )
        else:
            out.append(span)
    return out


def _pieces(lines: list[str], span: Span) -> Iterator[Piece]:
    start, end = _trim(lines, span.start, span.end)
    while start < end:
        stop = _cut(lines, start, end, span)
        first, last = _trim(lines, start, stop)
        if first < last:
            yield from _emit(lines, first, last, span)
        start = stop


def _emit(lines: list[str], first: int, last: int, span: Span) -> Iterator[Piece]:
    text = "\n".join(lines[first:last])
    # Only a single line can still be above the cap: a cut is always found between two lines.
    step = MAX_CHARS if last - first == 1 else len(text)
    facts = (
        span.language, span.symbol, span.signature, span.heading, span.is_kernel, span.calls,
    )  # fmt: skip
    for at in range(0, len(text), step):
        part = text[at : at + step]
        if part.strip():
            yield Piece(part, first + 1, last, *facts)


def _trim(lines: list[str], start: int, end: int) -> tuple[int, int]:
    while start < end and not lines[start].strip():
        start += 1
    while end > start and not lines[end - 1].strip():
        end -= 1
    return start, end


def _cut(lines: list[str], start: int, end: int, span: Span) -> int:
    """Return the row at which the part that begins at `start` should end."""
    size = 0
    stop = start
    while stop < end:
        size += len(lines[stop]) + 1
        if size > span.limit + 1 and stop > start:
            break
        stop += 1
    if stop >= end:
        return end
    best, best_score = stop, float("inf")
    floor = start + max(1, int((stop - start) * _LAST_PART))
    for row in range(stop, floor - 1, -1):
        score = _depth(lines, row, span)
        if row > start and not (lines[row - 1].strip() and lines[row].strip()):
            score -= _BLANK_BONUS
        if score < best_score:
            best, best_score = row, score
    return best


def _depth(lines: list[str], row: int, span: Span) -> float:
    """How bad it is to cut before `row`: nesting depth, by grammar or else by indentation."""
    if span.breaks:
        # A row inside a statement is worse than any statement start.
        return span.breaks.get(row, 1_000)
    line = lines[row]
    if not line.strip():
        return 1_000
    return len(line) - len(line.lstrip())
