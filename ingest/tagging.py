"""Tag code with what is recognised in it: techniques, operator, dtypes, oldest architecture."""

import hashlib
from dataclasses import replace

from ingest.roles import OTHER
from kb.corpus.detection import Detector
from kb.corpus.features import features, features_version
from kb.index.state import IndexState
from kb.patterns import LinearPattern, encoded
from kb.records import Chunk, Source

_STATEMENT = LinearPattern(r"^[ \t]*(?:for|while|if|with|@)\b|\bfor\b.*\bin\b")

TAGGER_VERSION = "1"
"""Raised when tagging by the same patterns and words gives something else."""


def detector_of(state: IndexState) -> Detector:
    """The detect patterns of all techniques in a state."""
    return Detector([record.entry for record in state.techniques])


def tags_version(detector: Detector) -> str:
    """A version that changes with anything that tags code, so that code is tagged again."""
    facts = "\0".join((TAGGER_VERSION, detector.version, features_version()))
    return hashlib.blake2b(facts.encode(), digest_size=8).hexdigest()


def techniques_of(text: str, language: str, role: str, detector: Detector) -> tuple[str, ...]:
    """Slugs of the techniques that a piece of code shows, sorted.

    Module-level Python lines without a statement that does something get none: they are imports
    and tables, which only name what other code does.
    """
    if role == OTHER and language == "python" and not _STATEMENT.search(encoded(text)):
        return ()
    return detector.techniques(text, language)


def tag_chunk(chunk: Chunk, detector: Detector) -> Chunk:
    """A chunk of code with its tags; a chunk of prose unchanged."""
    if chunk.kind != "code":
        return chunk
    techniques = techniques_of(chunk.text, chunk.language, chunk.role, detector)
    code_features = features(chunk.text, chunk.language, chunk.symbol, chunk.path)
    return replace(
        chunk,
        techniques=techniques,
        bottlenecks=detector.bottlenecks(techniques),
        op=code_features.op,
        dtypes=code_features.dtypes,
        architectures=code_features.architectures,
    )


def retag(state: IndexState) -> IndexState:
    """Tag code chunks again with the techniques that the state now has."""
    detector = detector_of(state)
    current = tags_version(detector)
    sources: list[Source] = []
    stale: set[str] = set()
    for source in state.sources:
        version, _, tags = source.chunking.partition("-")
        if tags and tags != current:
            stale.add(source.name)
            source = replace(source, chunking=f"{version}-{current}")  # noqa: PLW2901
        sources.append(source)
    if not stale:
        return state
    chunks = tuple(
        tag_chunk(chunk, detector) if chunk.source in stale else chunk for chunk in state.chunks
    )
    return replace(state, sources=tuple(sources), chunks=chunks)
