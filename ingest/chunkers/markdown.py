"""Chunk Markdown by heading: one piece per section, long sections cut between paragraphs.

The langchain splitters decide where to cut. They do not keep positions, so each line travels
through the heading splitter as a marker that carries its row, and the text splitter runs in its
lossless mode, where the joined parts equal the text.
"""

import re
from collections.abc import Iterator

from ingest.chunkers.limits import MAX_CHARS, PROSE_CHARS
from ingest.chunkers.piece import Piece
from ingest.chunkers.spans import Span, assemble, one_line

_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})")
_ATX = re.compile(r" {0,3}(#{1,6})(?=[ \t]|$)")
_SETEXT = re.compile(r" {0,3}(=+|-+)[ \t]*$")
# A paragraph line that may be a setext heading's text: no list item, quote, table or indented code.
_PARAGRAPH = re.compile(r" {0,3}(?![-*+>|#\s]|\d+[.)])\S")
_LEVELS = [("#" * level, f"h{level}") for level in range(1, 7)]
# Stands in for the line feeds of a code block, so that no separator matches inside it.
_JOINED = "\ue000"


def chunk_markdown(text: str) -> list[Piece]:
    """Chunk Markdown by heading; front matter is not body and is left out.

    A heading with no text of its own goes with the section below it. Code blocks stay whole up to
    `MAX_CHARS`. `#` inside a code block is no heading.
    """
    lines = text.split("\n")
    body = front_matter_end(lines)
    spans = [part for section in _sections(lines, body) for part in _parts(lines, section)]
    pieces = assemble(lines, spans, Span(0, 0, "markdown"))
    return [piece for piece in pieces if piece.start_line > body]


def front_matter_end(lines: list[str]) -> int:
    """Return the row at which the body starts: 0 without (closed) front matter."""
    if lines[0].rstrip() != "---":
        return 0
    for row in range(1, len(lines)):
        if lines[row].rstrip() in {"---", "..."}:
            return row + 1
    return 0


def _sections(lines: list[str], body: int) -> list[Span]:
    from langchain_text_splitters import MarkdownHeaderTextSplitter  # noqa: PLC0415  # 0.4 s

    blocks = _code_blocks(lines, body)
    headings = _headings(lines, body, blocks)
    markers = []
    for row in range(body, len(lines)):
        level, _ = headings.get(row, (0, ""))
        marker = str(row) if lines[row].strip() else ""
        markers.append(f"{'#' * level} {row}" if level else marker)
    splitter = MarkdownHeaderTextSplitter(_LEVELS, strip_headers=False)
    sections: list[Span] = []
    for document in splitter.split_text("\n".join(markers)):
        rows = [int(word) for word in document.page_content.split() if word[0] != "#"]
        path = [
            headings[int(document.metadata[key])][1]
            for _, key in _LEVELS
            if key in document.metadata
        ]
        heading = " > ".join(title for title in path if title) or None
        sections.append(Span(rows[0], rows[-1] + 1, "markdown", heading=heading))
    return sections


def _code_blocks(lines: list[str], body: int) -> list[tuple[int, int]]:
    """Return fenced code blocks as (first row, row after the closing fence)."""
    blocks: list[tuple[int, int]] = []
    fence, start = "", 0
    for row in range(body, len(lines)):
        match = _FENCE.match(lines[row])
        if not fence:
            if match:
                fence, start = match[1], row
        elif match and match[1].startswith(fence) and not lines[row][match.end() :].strip():
            blocks.append((start, row + 1))
            fence = ""
    if fence:  # an unclosed fence runs to the end, as in CommonMark
        blocks.append((start, len(lines)))
    return blocks


def _headings(
    lines: list[str], body: int, blocks: list[tuple[int, int]]
) -> dict[int, tuple[int, str]]:
    """Return row -> (level, title) of ATX and setext headings outside code blocks."""
    inside = {row for start, end in blocks for row in range(start, end)}
    headings: dict[int, tuple[int, str]] = {}
    for row in range(body, len(lines)):
        if row in inside:
            continue
        if match := _ATX.match(lines[row]):
            headings[row] = (len(match[1]), _title(lines[row][match.end() :]))
        elif (
            (match := _SETEXT.match(lines[row]))
            and row > body
            and row - 1 not in inside
            and row - 1 not in headings
            and _PARAGRAPH.match(lines[row - 1])
            and (row - 1 == body or not lines[row - 2].strip() or row - 2 in headings)
        ):
            headings[row - 1] = (1 if match[1][0] == "=" else 2, one_line(lines[row - 1]) or "")
    return headings


def _title(text: str) -> str:
    """Return an ATX heading's text without the closing hashes it may have."""
    title = one_line(text) or ""
    bare = title.rstrip("#")
    return bare.rstrip() if not bare or bare.endswith(" ") else title


def _parts(lines: list[str], section: Span) -> Iterator[Span]:
    """Yield a section's parts: itself where it fits, else cut between paragraphs."""
    text = "\n".join(lines[section.start : section.end])
    if len(text) <= PROSE_CHARS or _JOINED in text:
        yield section
        return
    from langchain_text_splitters import RecursiveCharacterTextSplitter  # noqa: PLC0415

    splitter = RecursiveCharacterTextSplitter(
        separators=["\n\n", "\n"],
        keep_separator="start",
        chunk_size=PROSE_CHARS,
        chunk_overlap=0,
        strip_whitespace=False,
    )
    row = section.start
    for part in splitter.split_text(_join_blocks(text)):
        # A part begins with the line feed that ends the line before it, except the first.
        count = part.count("\n") + part.count(_JOINED)
        end = row + count + (1 if row == section.start else 0)
        yield Span(row, end, "markdown", heading=section.heading)
        row = end


def _join_blocks(text: str) -> str:
    """Replace the line feeds inside code blocks that fit in one piece; the length stays."""
    lines = text.split("\n")
    out: list[str] = []
    row = 0
    for start, end in _code_blocks(lines, 0):
        block = "\n".join(lines[start:end])
        if len(block) <= MAX_CHARS:
            out.extend(lines[row:start])
            out.append(block.replace("\n", _JOINED))
            row = end
    out.extend(lines[row:])
    return "\n".join(out)
