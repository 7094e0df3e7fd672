"""Tag code chunks with the techniques that an index's entries recognise in them."""

from dataclasses import replace

from kb.corpus.detection import Detector
from kb.index.state import IndexState
from kb.records import Chunk, Source


def detector_of(state: IndexState) -> Detector:
    """The detect patterns of all techniques in a state."""
    return Detector([record.entry for record in state.techniques])


def retag(state: IndexState) -> IndexState:
    """Code chunks tagged by the techniques that the state now has."""
    detector = detector_of(state)
    sources: list[Source] = []
    stale: set[str] = set()
    for source in state.sources:
        version, _, tags = source.chunking.partition("-")
        if tags and tags != detector.version:
            stale.add(source.name)
            source = replace(source, chunking=f"{version}-{detector.version}")  # noqa: PLW2901
        sources.append(source)
    if not stale:
        return state
    chunks: list[Chunk] = []
    for chunk in state.chunks:
        if chunk.source in stale and chunk.kind == "code":
            techniques = detector.techniques(chunk.text, chunk.language)
            bottlenecks = detector.bottlenecks(techniques)
            chunks.append(replace(chunk, techniques=techniques, bottlenecks=bottlenecks))
        else:
            chunks.append(chunk)
    return replace(state, sources=tuple(sources), chunks=tuple(chunks))
