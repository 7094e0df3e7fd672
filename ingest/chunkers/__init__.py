"""Chunkers: a file becomes pieces that respect its structure and drop no line.

Contract, for every file and whatever its text: each line with a character other than white space
is in exactly one piece, pieces come in file order, and a piece's text is its lines. Two exceptions,
both by design: a line longer than `limits.MAX_CHARS` becomes slices that name the same line, and a
Markdown file's front matter (between its leading `---` lines) is left to the caller.
"""

from collections.abc import Callable
from functools import partial
from pathlib import PurePosixPath

from ingest.chunkers.piece import Piece
from ingest.chunkers.spans import chunk_plain

__all__ = ["SUPPORTED_SUFFIXES", "Piece", "chunk_file"]

MARKDOWN_SUFFIXES = frozenset({".md", ".markdown", ".mdx"})
PYTHON_SUFFIXES = frozenset({".py", ".pyi"})
CPP_SUFFIXES = frozenset(
    {".cu", ".cuh", ".hip", ".h", ".hh", ".hpp", ".hxx", ".inl", ".c", ".cc", ".cpp", ".cxx"}
)
TEXT_SUFFIXES = frozenset({".rst", ".txt"})
SUPPORTED_SUFFIXES = MARKDOWN_SUFFIXES | PYTHON_SUFFIXES | CPP_SUFFIXES | TEXT_SUFFIXES


def chunk_file(path: PurePosixPath, text: str) -> list[Piece]:
    """Chunk one file with the grammar for its suffix.

    Parameters
    ----------
    path
        Only its suffix matters. A file with a suffix outside `SUPPORTED_SUFFIXES` is chunked as
        plain text: the caller has decided to ingest it.
    text
        The file's text with line feeds as line ends (see `ingest.discovery.read_text`).

    Returns
    -------
    list of Piece
        In file order; empty when there is nothing but white space.
    """
    try:
        return _chunker(path.suffix.lower())(text)
    except RecursionError:  # scopes nested hundreds deep: no source a person wrote
        return chunk_plain(text)


def _chunker(suffix: str) -> Callable[[str], list[Piece]]:
    # Each grammar is loaded when the first file needs it.
    if suffix in MARKDOWN_SUFFIXES:
        from ingest.chunkers.markdown import chunk_markdown  # noqa: PLC0415

        return chunk_markdown
    if suffix in PYTHON_SUFFIXES:
        from ingest.chunkers.python import chunk_python  # noqa: PLC0415

        return chunk_python
    if suffix in CPP_SUFFIXES:
        from ingest.chunkers.cpp import chunk_cpp  # noqa: PLC0415

        return partial(chunk_cpp, cuda=suffix in {".cu", ".cuh", ".hip"})
    return chunk_plain
