"""Chunk metadata as columns, so that a filter is a few array operations at any size."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kb.errors import IndexUnavailableError
from kb.index.strings import StringTable, write_strings
from kb.index.tokens import last_name
from kb.parsing import PARSING
from kb.records import Chunk

Values = tuple[str, ...]


def _single(value: str | None) -> Values:
    return (value,) if value else ()


_FIELDS: dict[str, Callable[[Chunk], Values]] = {
    "kinds": lambda chunk: (chunk.kind,),
    "languages": lambda chunk: (chunk.language,),
    "sources": lambda chunk: (chunk.source,),
    "techniques": lambda chunk: chunk.techniques,
    "bottlenecks": lambda chunk: chunk.bottlenecks,
    "architectures": lambda chunk: chunk.architectures,
    "dtypes": lambda chunk: chunk.dtypes,
    "roles": lambda chunk: _single(chunk.role),
    "ops": lambda chunk: _single(chunk.op),
    # Of entries alone: the headings of documents are as many as there are.
    "sections": lambda chunk: _single(chunk.section) if chunk.entry else (),
    "entries": lambda chunk: (f"{chunk.kind}:{chunk.entry}",) if chunk.entry else (),
    "paths": lambda chunk: (chunk.path,),
    "symbols": lambda chunk: _single(chunk.symbol),
    # What a symbol is called where it is used: `Class.method` → `method`.
    "names": lambda chunk: _single(last_name(chunk.symbol or "")),
    "folds": lambda chunk: _single(chunk.fold),
}
# Those with about as many values as there are chunks, one to a chunk; "" stands for none. They are
# read where they are needed, and not when the generation is opened.
_TABLES = frozenset({"paths", "symbols", "names", "folds"})


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
        return self.accepted_codes(accepts)[self.codes]

    def accepted_codes(self, accepts: Callable[[Values], bool]) -> NDArray[np.bool_]:
        """Which distinct combinations are accepted, (distinct,)."""
        return np.fromiter((accepts(value) for value in self.values), bool, len(self.values))

    def count(self, value: str) -> int:
        """How many chunks have this value and no other."""
        return int(self.mask(lambda values: values == (value,)).sum())

    def find(self, value: str) -> int | None:
        """The code of a single value of a column of many."""
        assert isinstance(self.values, _SingleValues)
        return self.values.table.find(value)

    def rows_of(self, code: int) -> NDArray[np.intp]:
        """The rows of one code, ascending."""
        order, starts = self._by_code
        return order[starts[code] : starts[code + 1]]

    @cached_property
    def _by_code(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        counts = np.bincount(self.codes, minlength=len(self.values))
        return np.argsort(self.codes, kind="stable"), np.concatenate(([0], np.cumsum(counts)))

    @cached_property
    def codes_by_value(self) -> Mapping[str, Sequence[int]]:
        """Single value → the codes of the combinations that hold it."""
        codes: dict[str, list[int]] = {}
        for code, values in enumerate(self.values):
            for value in values:
                codes.setdefault(value, []).append(code)
        return codes


class _SingleValues(Sequence[Values]):
    """The values of a column that is one of `_TABLES`."""

    def __init__(self, table: StringTable) -> None:
        self.table = table

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, code: int) -> Values:  # type: ignore[override]
        return _single(self.table[code])


class Columns(dict[str, Column]):
    """All filterable fields of a generation, by name."""

    @property
    def count(self) -> int:
        """How many chunks there are."""
        return len(self["kinds"].codes)


def write_columns(folder: Path, chunks: Sequence[Chunk]) -> None:
    """Write one `.npy` of codes per field, and its values: in `values.json`, or many as a table."""
    folder.mkdir()
    tables: dict[str, list[Values]] = {}
    for name, values_of in _FIELDS.items():
        code_of: dict[Values, int] = {}
        codes = np.fromiter(
            (code_of.setdefault(values_of(chunk), len(code_of)) for chunk in chunks),
            np.uint32,
            len(chunks),
        )
        if name in _TABLES:
            strings = ("".join(values) for values in code_of)
            sorted_codes = np.empty(len(code_of), np.uint32)
            for code, value in enumerate(write_strings(folder / name, strings)):
                sorted_codes[code_of[_single(value)]] = code
            codes = sorted_codes[codes]
        else:
            tables[name] = list(code_of)
        np.save(folder / f"{name}.npy", codes)
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
        columns = Columns()
        for name in _FIELDS:
            columns[name] = Column(
                _SingleValues(StringTable(folder / name))
                if name in _TABLES
                else [tuple(value) for value in data["values"][name]],
                # As a plain array: reading single values of a `memmap` is slow.
                np.asarray(np.load(folder / f"{name}.npy", mmap_mode="r")),
            )
    for name, column in columns.items():
        codes = column.codes
        sound = codes.dtype == np.uint32 and codes.shape == (count,)
        if not sound or (count and int(codes.max()) >= len(column.values)):
            raise IndexUnavailableError(f"{folder / name}.npy is damaged: run `kb rebuild`")
    return columns
