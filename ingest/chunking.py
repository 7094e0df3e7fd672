"""Chunk and tag one file; the result depends only on its path, its text and the tags."""

import hashlib
from collections import Counter
from pathlib import PurePosixPath

from ingest.chunkers import chunk_file
from ingest.roles import role_of
from ingest.tagging import tag_chunk, tags_version
from kb.corpus.comments import without_comments
from kb.corpus.detection import Detector
from kb.records import Chunk, chunk_id

CHUNKER_VERSION = "2"
"""Raised when a chunker's output changes, so that unchanged files are chunked anew."""

_DOCUMENT_LANGUAGES = {"markdown", "text"}
# Shorter pieces are too common to say that two places hold the same thing.
_SHORTEST = 40


def chunking_version(detector: Detector) -> str:
    """A version that changes when the chunks of an unchanged file would change."""
    return f"{CHUNKER_VERSION}-{tags_version(detector)}"


def fold_key(code: str, language: str) -> str:
    """A key equal for copies that differ only in comments and spacing; empty for short code."""
    bare = "".join(without_comments(code, language, keep_docstrings=True).split())
    if len(bare) < _SHORTEST:
        return ""
    return hashlib.blake2b(bare.encode(), digest_size=8).hexdigest()


def file_chunks(source: str, path: str, text: str, detector: Detector) -> list[Chunk]:
    """The chunks of a file that is not a corpus entry."""
    occurrences: Counter[tuple[str, str]] = Counter()
    chunks: list[Chunk] = []
    for piece in chunk_file(PurePosixPath(path), text):
        if piece.is_trivial:
            continue
        document = piece.language in _DOCUMENT_LANGUAGES
        key = (piece.symbol or "", piece.text)
        chunks.append(
            tag_chunk(
                Chunk(
                    id=chunk_id(source, path, piece.symbol, piece.text, occurrences[key]),
                    kind="doc" if document else "code",
                    source=source,
                    title=piece.symbol or piece.heading or path,
                    path=path,
                    start_line=piece.start_line,
                    end_line=piece.end_line,
                    language=piece.language,
                    text=piece.text,
                    symbol=piece.symbol,
                    signature=piece.signature,
                    section=piece.heading,
                    role=role_of(piece),
                    fold="" if document else fold_key(piece.text, piece.language),
                ),
                detector,
            )
        )
        occurrences[key] += 1
    return chunks
