"""What an index holds, in memory: sources, entries and chunks, before or after it is on disk."""

import hashlib
import json
from dataclasses import dataclass

from pydantic import TypeAdapter

from kb.corpus.entries import Kernel, Technique
from kb.problems.matching import OperatorGraph
from kb.records import Chunk, Source


@dataclass(frozen=True, slots=True)
class TechniqueRecord:
    """A technique entry, the source it came with, and its file."""

    entry: Technique
    source: str
    path: str
    body: str
    body_line: int


@dataclass(frozen=True, slots=True)
class KernelRecord:
    """A kernel entry, the source it came with, its file without front matter, the launch code
    beside a `.cu`, and the operators of its reference where no family of operators has it."""

    entry: Kernel
    source: str
    path: str
    code: str
    launcher: str = ""
    reference: OperatorGraph | None = None


@dataclass(frozen=True, slots=True)
class Entries:
    """The entries of an index, as a generation holds them in one file."""

    techniques: tuple[TechniqueRecord, ...]
    kernels: tuple[KernelRecord, ...]


_ENTRIES = TypeAdapter(Entries)
_SOURCES = TypeAdapter(tuple[Source, ...])


@dataclass(frozen=True, slots=True)
class IndexState:
    """Everything that one generation says."""

    sources: tuple[Source, ...] = ()
    techniques: tuple[TechniqueRecord, ...] = ()
    kernels: tuple[KernelRecord, ...] = ()
    chunks: tuple[Chunk, ...] = ()

    def source(self, name: str) -> Source | None:
        """The source of that name, or None."""
        return next((source for source in self.sources if source.name == name), None)

    def without(self, *names: str) -> "IndexState":
        """The state with nothing from these sources."""
        return IndexState(
            tuple(source for source in self.sources if source.name not in names),
            tuple(technique for technique in self.techniques if technique.source not in names),
            tuple(kernel for kernel in self.kernels if kernel.source not in names),
            tuple(chunk for chunk in self.chunks if chunk.source not in names),
        )

    def merged(self, other: "IndexState") -> "IndexState":
        """Both states together, in the one order that equal content always has."""
        return IndexState(
            tuple(sorted(self.sources + other.sources, key=lambda source: source.name)),
            tuple(sorted(self.techniques + other.techniques, key=lambda record: record.entry.slug)),
            tuple(sorted(self.kernels + other.kernels, key=lambda record: record.entry.slug)),
            tuple(
                sorted(
                    self.chunks + other.chunks,
                    key=lambda chunk: (chunk.source, chunk.path, chunk.start_line, chunk.id),
                )
            ),
        )

    def entries_json(self) -> str:
        """The entries as one JSON document."""
        data = _ENTRIES.dump_python(Entries(self.techniques, self.kernels), mode="json")
        return json.dumps(data, ensure_ascii=False)

    def sources_json(self) -> str:
        """The sources as one JSON document."""
        data = _SOURCES.dump_python(self.sources, mode="json")
        return json.dumps(data, ensure_ascii=False)

    def content(self, embedder: str) -> str:
        """Digest of all that a generation made from this state holds."""
        digest = hashlib.blake2b(digest_size=16)
        for part in (embedder, self.sources_json(), self.entries_json()):
            digest.update(part.encode() + b"\0")
        for chunk in self.chunks:
            digest.update(chunk.digest().encode())
        return digest.hexdigest()


def parse_entries(text: str) -> Entries:
    """The inverse of `IndexState.entries_json`."""
    return _ENTRIES.validate_json(text)


def parse_sources(text: str) -> tuple[Source, ...]:
    """The inverse of `IndexState.sources_json`."""
    return _SOURCES.validate_json(text)
