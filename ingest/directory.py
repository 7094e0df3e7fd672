"""A folder or file as a source: code and document chunks, taken over where a file is unchanged."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from ingest.chunkers import chunk_file
from ingest.discovery import Found, Skipped, UnreadableError, discover, read_text
from ingest.folding import fold_key
from ingest.report import SourceReport
from ingest.roles import role_of
from ingest.run_source import run_state
from ingest.tagging import tagged, tags_version
from kb.corpus.detection import Detector
from kb.corpus.quality import quality_of
from kb.errors import SourceError
from kb.index.state import IndexState
from kb.notes import is_run
from kb.records import Chunk, Source, chunk_id

CHUNKER_VERSION = "2"
"""Raised when a chunker's output changes, so that unchanged files are chunked anew."""

_DOCUMENT_LANGUAGES = {"markdown", "text"}
# How many reasons an error about an empty source names.
_REASONS_SHOWN = 3


def directory_state(
    root: Path,
    name: str,
    detector: Detector,
    former: IndexState,
    report: SourceReport,
    *,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    quality: float | None = None,
) -> IndexState:
    """Read a folder or file into the part of an index that it makes up; of a run, its notes.

    Parameters
    ----------
    former
        The current state; chunks of files with an unchanged digest are taken from it.

    quality
        Ranking weight in [0, 1]; by default what `corpus/sources.toml` gives the name.

    Raises
    ------
    SourceError
        If the root is missing, or holds nothing that can be ingested.
    """
    if is_run(root):
        return run_state(
            root, name, former, report, include=include, exclude=exclude, quality=quality
        )
    chunking = f"{CHUNKER_VERSION}-{tags_version(detector)}"
    known, former_chunks = _known(former, name, chunking)
    files: list[tuple[str, str]] = []
    chunks: list[Chunk] = []
    for item in discover(root, include=include, exclude=exclude):
        if isinstance(item, Skipped):
            report.skipped.append(item)
            continue
        try:
            text = read_text(item)
        except UnreadableError as error:
            report.skipped.append(Skipped(item.path, str(error)))
            continue
        digest = hashlib.sha256(text.encode()).hexdigest()
        files.append((item.path, digest))
        if known.get(item.path) == digest:
            report.unchanged_files += 1
            chunks += former_chunks.get(item.path, [])
        else:
            chunks += _file_chunks(name, item, text, detector)
    if not files:
        raise SourceError(_nothing_found(root, report.skipped))
    report.files = len(files)
    report.removed_files = len({path for path, _ in _files_of(former, name)} - dict(files).keys())
    source = Source(
        name=name,
        location=str(root.resolve()),
        quality=quality_of(name) if quality is None else quality,
        files=tuple(sorted(files)),
        chunking=chunking,
        include=tuple(include),
        exclude=tuple(exclude),
    )
    return IndexState(sources=(source,), chunks=tuple(chunks))


def _files_of(state: IndexState, name: str) -> tuple[tuple[str, str], ...]:
    return next((source.files for source in state.sources if source.name == name), ())


def _known(
    former: IndexState, name: str, chunking: str
) -> tuple[dict[str, str], dict[str, list[Chunk]]]:
    source = next((each for each in former.sources if each.name == name), None)
    if source is None or source.chunking != chunking:
        return {}, {}
    by_path: dict[str, list[Chunk]] = {}
    for chunk in former.chunks:
        if chunk.source == name:
            by_path.setdefault(chunk.path, []).append(chunk)
    return dict(source.files), by_path


def _nothing_found(root: Path, skipped: list[Skipped]) -> str:
    if not skipped:
        return f"{root} holds no file that can be ingested: it is empty or all is ignored"
    reasons = Counter(item.reason for item in skipped).most_common(_REASONS_SHOWN)
    listed = "; ".join(f"{count}× {reason}" for reason, count in reasons)
    return f"{root} holds no file that can be ingested ({listed})"


def _file_chunks(source: str, item: Found, text: str, detector: Detector) -> list[Chunk]:
    seen: Counter[tuple[str, str]] = Counter()
    chunks: list[Chunk] = []
    for piece in chunk_file(PurePosixPath(item.path), text):
        if piece.is_trivial:
            continue
        document = piece.language in _DOCUMENT_LANGUAGES
        key = (piece.symbol or "", piece.text)
        chunks.append(
            tagged(
                Chunk(
                    id=chunk_id(source, item.path, piece.symbol, piece.text, seen[key]),
                    kind="doc" if document else "code",
                    source=source,
                    title=piece.symbol or piece.heading or item.path,
                    path=item.path,
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
        seen[key] += 1
    return chunks
