"""The training set's records, and their files: two of compressed JSON lines, and a manifest."""

import json
import lzma
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any, Literal

DOCUMENTS_FILE = "documents.jsonl.xz"
PAIRS_FILE = "pairs.jsonl.xz"
MANIFEST_FILE = "manifest.json"

Kind = Literal["docstring", "comment", "heading", "symbol", "error", "question", "analogue"]
"""What a query was made of: the sentence that documents a function, a comment inside it, the
heading of a section, a function's name, the text of an error, a written question, a function that
does the same."""


@dataclass(slots=True)
class Document:
    """What a query is to find, written as the product embeds it."""

    text: str
    """A header (title, path, symbol) on the first line, then the content with its white space as
    one space each, which the tokenizer does not tell apart."""
    language: str
    package: str
    group: int
    """Documents of one group (copies of a function, sections of an entry) answer alike."""
    held_out: bool = False


@dataclass(slots=True)
class Pair:
    """A query and the document that answers it."""

    query: str
    document: int
    """Index into the documents."""
    kind: Kind
    asked_with: int = -1
    """A document whose code is the query, where `query` is empty; -1 for none."""


@dataclass(frozen=True, slots=True)
class TrainingSet:
    """Every record."""

    documents: list[Document]
    pairs: list[Pair]
    manifest: dict[str, Any] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Write the files; the same set gives the same bytes."""
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / DOCUMENTS_FILE, self.documents)
        _write(folder / PAIRS_FILE, self.pairs)
        text = json.dumps(self.manifest, indent=1, ensure_ascii=False) + "\n"
        (folder / MANIFEST_FILE).write_text(text, encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> "TrainingSet":
        """The set that was written to `folder`."""
        documents = [Document(*row) for row in _rows(folder / DOCUMENTS_FILE)]
        pairs = [Pair(*row) for row in _rows(folder / PAIRS_FILE)]
        return cls(documents, pairs, json.loads((folder / MANIFEST_FILE).read_text()))


def _write(path: Path, records: Sequence[Document | Pair]) -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 3, "dict_size": 1 << 26}]
    with lzma.open(path, "wt", encoding="utf-8", format=lzma.FORMAT_XZ, filters=filters) as stream:
        for row in map(astuple, records):
            stream.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")


def _rows(path: Path) -> Iterator[list[Any]]:
    with lzma.open(path, "rt", encoding="utf-8") as stream:
        for line in stream:
            yield json.loads(line)
