"""Chunk metadata as columns, so that a filter is a few array operations at any size."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kb.errors import IndexUnavailableError
from kb.parsing import PARSING
from kb.records import Chunk

Values = tuple[str, ...]
_FIELDS: dict[str, Callable[[Chunk], Values]] = {
    "kinds": lambda chunk: (chunk.kind,),
    "languages": lambda chunk: (chunk.language,),
    "sources": lambda chunk: (chunk.source,),
    "techniques": lambda chunk: chunk.techniques,
    "bottlenecks": lambda chunk: chunk.bottlenecks,
    "architectures": lambda chunk: chunk.architectures,
    "dtypes": lambda chunk: chunk.dtypes,
    "roles": lambda chunk: (chunk.role,) if chunk.role else (),
    "ops": lambda chunk: (chunk.op,) if chunk.op else (),
    # Of entries alone: the headings of documents are as many as there are.
    "sections": lambda chunk: (chunk.section,) if chunk.entry and chunk.section else (),
    "entries": lambda chunk: (f"{chunk.kind}:{chunk.entry}",) if chunk.entry else (),
    "paths": lambda chunk: (chunk.path,),
    "symbols": lambda chunk: (chunk.symbol,) if chunk.symbol else (),
    "folds": lambda chunk: (chunk.fold,) if chunk.fold else (),
}


class Column:
    """One field: the distinct combinations of its values, and a code per chunk.

    A predicate is evaluated once per distinct combination, then spread over the chunks.
    """

    def __init__(self, values: Sequence[Values], codes: NDArray[np.uint32]) -> None:
        self.values = values
        self.codes = codes

    def of(self, row: int) -> Values:
        """The values of one chunk."""
        return self.values[int(self.codes[row])]

    def mask(self, accepts: Callable[[Values], bool]) -> NDArray[np.bool_]:
        """Which chunks' values are accepted, (n,)."""
        return self.accepted(accepts)[self.codes]

    def accepted(self, accepts: Callable[[Values], bool]) -> NDArray[np.bool_]:
        """Which distinct combinations are accepted, (distinct,)."""
        return np.fromiter((accepts(value) for value in self.values), bool, len(self.values))

    @cached_property
    def having(self) -> Mapping[str, Sequence[int]]:
        """Single value → the codes of the combinations that hold it."""
        found: dict[str, list[int]] = {}
        for code, values in enumerate(self.values):
            for value in values:
                found.setdefault(value, []).append(code)
        return found


class Columns:
    """All filterable fields of a generation."""

    def __init__(self, columns: dict[str, Column], count: int) -> None:
        self._columns = columns
        self.count = count

    def __getitem__(self, name: str) -> Column:
        return self._columns[name]


def write_columns(folder: Path, chunks: Sequence[Chunk]) -> None:
    """Write one `.npy` of codes per field, and the values in `values.json`."""
    folder.mkdir()
    tables: dict[str, list[Values]] = {}
    for name, values_of in _FIELDS.items():
        seen: dict[Values, int] = {}
        codes = np.fromiter(
            (seen.setdefault(values_of(chunk), len(seen)) for chunk in chunks),
            np.uint32,
            len(chunks),
        )
        np.save(folder / f"{name}.npy", codes)
        tables[name] = list(seen)
    text = json.dumps({"count": len(chunks), "values": tables}, ensure_ascii=False)
    (folder / "values.json").write_text(text, encoding="utf-8")


def differing_columns(columns: Columns, chunks: Iterable[Chunk]) -> list[str]:
    """Names of the fields that do not say what the chunks say; as many chunks as rows."""
    differing: set[str] = set()
    for row, chunk in enumerate(chunks):
        for name, values_of in _FIELDS.items():
            if columns[name].of(row) != values_of(chunk):
                differing.add(name)
    return sorted(differing)


def open_columns(folder: Path) -> Columns:
    """Open the columns of a generation, codes memory-mapped.

    Raises
    ------
    IndexUnavailableError
        Codes stand for no value: the file is damaged.
    """
    data = json.loads((folder / "values.json").read_text(encoding="utf-8"))
    count = int(data["count"])
    with PARSING:
        columns = {
            name: Column(
                [tuple(value) for value in data["values"][name]],
                # As a plain array: reading single values of a `memmap` is slow.
                np.asarray(np.load(folder / f"{name}.npy", mmap_mode="r")),
            )
            for name in _FIELDS
        }
    for name, column in columns.items():
        codes = column.codes
        sound = codes.dtype == np.uint32 and codes.shape == (count,)
        if not sound or (count and int(codes.max()) >= len(column.values)):
            raise IndexUnavailableError(f"{folder / name}.npy is damaged: run `kb rebuild`")
    return Columns(columns, count)
