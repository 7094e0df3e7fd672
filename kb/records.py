"""The records an index holds: sources, and the chunks that were made from them."""

import hashlib
from dataclasses import dataclass, fields
from typing import Literal

Kind = Literal["technique", "kernel", "code", "doc", "note"]
KINDS: tuple[Kind, ...] = ("technique", "kernel", "code", "doc", "note")
QUESTION = "question"
"""The role of a chunk that holds a question which its entry answers: it finds the entry, and is not
what is shown."""


@dataclass(frozen=True, slots=True)
class Source:
    """One ingested source: what its results are cited by, and the state of its files."""

    name: str
    location: str
    """Where it was read from, so that it can be read again."""
    version: str | None = None
    licence: str | None = None
    url: str | None = None
    sha256: str | None = None
    """Of the archive that a published source was read from."""
    quality: float = 0.8
    """Ranking weight in [0, 1]; 0.8 is that of an unknown source."""
    files: tuple[tuple[str, str], ...] = ()
    """(path relative to the source's root, sha256 of its bytes), sorted by path."""
    chunking: str = ""
    """What the chunks depend on beside the files: chunker version and tagging rules."""
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    """Patterns it was ingested with, so that a rebuild takes the same files."""

    def citation(self) -> dict[str, str | None]:
        """What its results are cited by."""
        return {name: getattr(self, name) for name in ("name", "version", "licence", "url")}


@dataclass(frozen=True, slots=True)
class Chunk:
    """One retrievable piece of a source."""

    id: str
    kind: Kind
    source: str
    title: str
    path: str
    """Relative to the source's root, with `/`."""
    start_line: int
    end_line: int
    """1-based and inclusive."""
    language: str
    text: str
    """Exactly what is shown."""
    symbol: str | None = None
    signature: str | None = None
    entry: str | None = None
    """Slug of the technique or kernel entry that it belongs to."""
    section: str | None = None
    """Heading path of a document piece; `card` for the summary of an entry."""
    op: str | None = None
    techniques: tuple[str, ...] = ()
    bottlenecks: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    role: str = ""
    """What code is for (`ingest.roles`): `kernel`, `device`, `host`, `type` or `other`; or
    `QUESTION`."""
    fold: str = ""
    """Digest of the code without comments and spacing: equal for near-duplicates."""

    def embedding_text(self) -> str:
        """What is embedded: a short context header, then the text.

        The header says what the text alone may not: where it stands and what it is about.
        Measurements are not part of it, so measuring again stales no embedding. Nor are the
        techniques that patterns recognise in code: new patterns would embed all of it again.
        """
        header = [self.title]
        if self.section and self.section != "card":
            header.append(self.section)
        if self.kind != "technique":
            header.append(self.path)
        if self.symbol and self.symbol not in self.title:
            header.append(self.symbol)
        if self.kind not in {"technique", "code"} and self.techniques:
            header.append("techniques: " + ", ".join(self.techniques))
        return " | ".join(header) + "\n" + self.text

    def digest(self) -> str:
        """Changes whenever anything stored about the chunk changes."""
        parts = (repr(getattr(self, field.name)) for field in fields(self))
        return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


def chunk_id(source: str, path: str, symbol: str | None, text: str, occurrence: int) -> str:
    """Content-derived id: the same after re-ingest and on another machine.

    `occurrence` counts equal pieces of one file, so that each has an id of its own.
    """
    key = "\0".join((source, path, symbol or "", text, str(occurrence)))
    return hashlib.blake2b(key.encode(), digest_size=12).hexdigest()


def text_hash(text: str) -> str:
    """Key of a text in the embedding cache: its sha256."""
    return hashlib.sha256(text.encode()).hexdigest()
