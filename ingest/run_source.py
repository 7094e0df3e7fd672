"""A run of `kb optimize` as a source: its notes, one chunk each."""

import hashlib
from pathlib import Path

from ingest.reading import Reading
from kb.corpus.frontmatter import split_front_matter, validate_front_matter
from kb.errors import EntryError, SourceError
from kb.files import read_below
from kb.index.state import IndexState
from kb.notes import FOLDER, Note
from kb.records import Chunk, Source, chunk_id
from kb.vocabulary import taxonomy

# A source with a name for how it was read is no corpus; there is no dash, so it is not tagged anew.
CHUNKING = "run1"
# Measured, but for one problem on one card: as good as an unknown source, not as the corpus.
QUALITY = 0.8


def run_state(root: Path, reading: Reading) -> IndexState:
    """Read the notes of a run into their part of an index.

    Raises
    ------
    SourceError
        The run has no notes (nothing was verified in it, or they were not written), or patterns
        were given: a run is ingested whole.
    EntryError
        A note is malformed; names file and line.
    """
    if reading.include or reading.exclude:
        raise SourceError(f"{root} is a run, which is ingested whole: omit --include and --exclude")
    files: list[tuple[str, str]] = []
    chunks: list[Chunk] = []
    for path in sorted((root / FOLDER).glob("*.md")):
        relative = f"{FOLDER}/{path.name}"
        try:
            data = read_below(root, relative)
            text = data.decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SourceError(f"cannot read {path}: {error}") from error
        files.append((relative, hashlib.sha256(data).hexdigest()))
        chunks.append(_chunk(reading.name, relative, text))
    if not chunks:
        raise SourceError(
            f"{root} is a run without notes: nothing in it was verified and timed yet, or "
            f"`kb report {root}` has not written them"
        )
    reading.report.compare(files, reading.former.source(reading.name))
    source = Source(
        name=reading.name,
        location=str(root.resolve()),
        quality=QUALITY if reading.quality is None else reading.quality,
        files=tuple(files),
        chunking=CHUNKING,
    )
    return IndexState((source,), (), (), tuple(chunks))


def _chunk(source: str, path: str, text: str) -> Chunk:
    front = split_front_matter(text, path)
    if front is None:
        raise EntryError(f"{path}:1: a note must begin with front matter between two --- lines")
    note = validate_front_matter(front, Note, path)
    body = front.body.strip("\n")
    techniques = (note.technique,) if note.technique is not None else ()
    relieved = tuple(
        bottleneck for bottleneck, slugs in taxonomy().items() if note.technique in slugs
    )
    return Chunk(
        id=chunk_id(source, path, None, body, 0),
        kind="note",
        source=source,
        title=note.title,
        path=path,
        start_line=front.body_line,
        end_line=front.body_line + body.count("\n"),
        language="markdown",
        text=body,
        op=note.operator.lower(),
        techniques=techniques,
        bottlenecks=relieved,
        architectures=(note.architecture,),
        dtypes=(note.dtype,) if note.dtype is not None else (),
    )
