"""A folder or file as a source: code and document chunks, reused if a file is unchanged."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from ingest.chunking import chunking_version
from ingest.discovery import Skipped, UnreadableError, discover, read_text
from ingest.reading import Reading
from ingest.run_source import run_state
from ingest.sources.curated import quality_of
from kb.errors import SourceError
from kb.index.state import IndexState
from kb.notes import is_run
from kb.records import Chunk, Source

# How many reasons an error about an empty source names.
_REASONS_SHOWN = 3


def directory_state(root: Path, reading: Reading) -> IndexState:
    """Read a folder or file into its part of an index; of a run folder, only its notes.

    Raises
    ------
    SourceError
        If the root is missing, or holds nothing that can be ingested.
    """
    if is_run(root):
        return run_state(root, reading)
    name, report = reading.name, reading.report
    chunking = chunking_version(reading.detector)
    former = reading.former.source(name)
    digests, chunks = {}, {}
    if former is not None and former.chunking == chunking:
        digests, chunks = dict(former.files), _by_path(reading.former.chunks, name)
    files: list[tuple[str, str]] = []

    def changed_files() -> Iterator[tuple[str, str]]:
        for item in discover(root, include=reading.include, exclude=reading.exclude):
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
            if digests.get(item.path) == digest:
                report.unchanged_files += 1
            else:
                yield item.path, text

    chunks.update(reading.workers.chunks(name, changed_files(), reading.detector))
    if not files:
        raise SourceError(_nothing_found(root, report.skipped))
    report.files = len(files)
    report.removed_files = len(dict(former.files if former else ()).keys() - dict(files).keys())
    source = Source(
        name=name,
        location=str(root.resolve()),
        quality=quality_of(name) if reading.quality is None else reading.quality,
        files=tuple(sorted(files)),
        chunking=chunking,
        include=reading.include,
        exclude=reading.exclude,
    )
    ordered = tuple(chunk for path, _ in files for chunk in chunks.get(path, ()))
    return IndexState(sources=(source,), chunks=ordered)


def _by_path(chunks: Iterable[Chunk], source: str) -> dict[str, list[Chunk]]:
    by_path: dict[str, list[Chunk]] = {}
    for chunk in chunks:
        if chunk.source == source:
            by_path.setdefault(chunk.path, []).append(chunk)
    return by_path


def _nothing_found(root: Path, skipped: list[Skipped]) -> str:
    if not skipped:
        return f"{root} holds no file that can be ingested: it is empty or all files are ignored"
    reasons = Counter(item.reason for item in skipped).most_common(_REASONS_SHOWN)
    summary = "; ".join(f"{count}× {reason}" for reason, count in reasons)
    return f"{root} holds no file that can be ingested ({summary})"
