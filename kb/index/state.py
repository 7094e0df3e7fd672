"""What an index holds, in memory: sources, entries and chunks, before or after it is on disk."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from kb.corpus.entries import Kernel, Technique
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
    """A kernel entry, the source it came with, its file without front matter, and the launch code
    beside a `.cu`."""

    entry: Kernel
    source: str
    path: str
    code: str
    launcher: str = ""


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
        data = {
            "techniques": [_dump(technique) for technique in self.techniques],
            "kernels": [_dump(kernel) for kernel in self.kernels],
        }
        return json.dumps(data, ensure_ascii=False)

    def sources_json(self) -> str:
        """The sources as one JSON document."""
        return json.dumps([source.to_json() for source in self.sources], ensure_ascii=False)

    def content(self, embedder: str) -> str:
        """Digest of all that a generation made from this state holds."""
        digest = hashlib.blake2b(digest_size=16)
        for part in (embedder, self.sources_json(), self.entries_json()):
            digest.update(part.encode() + b"\0")
        for chunk in self.chunks:
            digest.update(chunk.digest().encode())
        return digest.hexdigest()


def _dump(record: TechniqueRecord | KernelRecord) -> dict[str, Any]:
    values: dict[str, Any] = {name: getattr(record, name) for name in record.__slots__}
    values["entry"] = record.entry.model_dump(mode="json")
    return values


def parse_entries(text: str) -> tuple[tuple[TechniqueRecord, ...], tuple[KernelRecord, ...]]:
    """The inverse of `IndexState.entries_json`."""
    data = json.loads(text)
    techniques = tuple(
        TechniqueRecord(**{**values, "entry": Technique.model_validate(values["entry"])})
        for values in data["techniques"]
    )
    kernels = tuple(
        KernelRecord(**{**values, "entry": Kernel.model_validate(values["entry"])})
        for values in data["kernels"]
    )
    return techniques, kernels


def parse_sources(text: str) -> tuple[Source, ...]:
    """The inverse of `IndexState.sources_json`."""
    return tuple(Source.from_json(load) for load in json.loads(text))
