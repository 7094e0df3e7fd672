"""Pairs out of documents: a section's heading and the section, in Markdown and reStructuredText."""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import PurePosixPath

from benchmarks.embedder.training.code import MAX_CHARS, embedded_text
from benchmarks.embedder.training.records import Document
from benchmarks.embedder.training.sources import SourceFile
from ingest.chunkers import MARKDOWN_SUFFIXES, chunk_file
from kb.records import Chunk

MIN_WORDS = 25
"""Of a section: less is a list of links."""
MIN_HEADING_WORDS = 2
_UNDERLINE = re.compile(r"^([=\-~^\"'#*+`:.])\1{2,}[ \t]*$")
_MARKS = re.compile(r"[`*\[\]#]|\(https?:[^)]*\)|:\w+:")
_VAGUE = re.compile(
    r"licen[cs]e|changelog|release|version|contribut|install|citation|acknowledg|table of|see also"
    r"|requirements|getting started|readme|news|what's new|credits|merged|bug fixes",
    re.IGNORECASE,
)


def sections_of_file(file: SourceFile) -> Iterator[tuple[str, Document]]:
    """Each section of a document as (heading, section without it)."""
    if re.search(r"change|release|history|news|whats?_?new", str(file.path), re.IGNORECASE):
        return
    for heading, body in _sections(file.path, file.text):
        title = " ".join(_MARKS.sub("", heading).split())
        last = title.rsplit(" > ", 1)[-1]
        if len(title.split()) < MIN_HEADING_WORDS or _VAGUE.search(last):
            continue
        if len(body.split()) < MIN_WORDS:
            continue
        chunk = Chunk(
            "", "doc", file.package, str(file.path), str(file.path), 1, 1, "markdown", body
        )
        document = Document(embedded_text(chunk), "text", file.package, group=-1)
        yield title.replace(" > ", ": "), document


def _sections(path: PurePosixPath, text: str) -> Iterator[tuple[str, str]]:
    if path.suffix.lower() in MARKDOWN_SUFFIXES:
        for piece in chunk_file(path, text):
            if piece.heading:
                lines = piece.text.split("\n")
                body = lines[1:] if lines[0].lstrip().startswith("#") else lines
                yield piece.heading, "\n".join(body)
    elif path.suffix.lower() == ".rst":
        yield from _restructured(text)


def _restructured(text: str) -> Iterator[tuple[str, str]]:
    """Sections of reStructuredText: a line, and below it marks of at least its length."""
    lines = text.split("\n")
    titles = [
        row
        for row in range(len(lines) - 1)
        if lines[row].strip()
        and not lines[row].startswith((" ", ".."))
        and _UNDERLINE.match(lines[row + 1])
        and len(lines[row + 1].rstrip()) >= len(lines[row].rstrip())
        and not _UNDERLINE.match(lines[row])
    ]
    for row, end in pairwise([*titles, len(lines)]):
        yield lines[row].strip(), "\n".join(lines[row + 2 : end])[:MAX_CHARS]
