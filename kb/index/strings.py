"""Sorted strings on disk: a million open in no time and take no memory until they are read."""

import mmap
from bisect import bisect_left
from collections.abc import Iterable
from itertools import accumulate
from pathlib import Path

import numpy as np

from kb.errors import IndexUnavailableError

_TEXT = ".text"
_ENDS = ".ends"
# Paths of files may hold lone surrogates, which plain UTF-8 refuses.
_ERRORS = "surrogatepass"


def write_strings(stem: Path, strings: Iterable[str]) -> list[str]:
    """Write the distinct strings to `stem`.text and `stem`.ends; returns them in their order.

    They are sorted by their UTF-8 bytes. The first file holds them one after another, the second
    one where each ends, as little-endian 64-bit integers.
    """
    encoded = sorted({string.encode(errors=_ERRORS) for string in strings})
    stem.with_name(stem.name + _TEXT).write_bytes(b"".join(encoded))
    ends = np.fromiter(accumulate(map(len, encoded)), dtype="<i8", count=len(encoded))
    stem.with_name(stem.name + _ENDS).write_bytes(ends.tobytes())
    return [string.decode(errors=_ERRORS) for string in encoded]


class StringTable:
    """What `write_strings` wrote, memory-mapped."""

    def __init__(self, stem: Path) -> None:
        """Open it.

        Raises
        ------
        IndexUnavailableError
            If the two files do not fit each other.
        """
        self._text = _mapped(stem.with_name(stem.name + _TEXT))
        ends = _mapped(stem.with_name(stem.name + _ENDS))
        if len(ends) % 8:
            raise IndexUnavailableError(f"{stem}{_ENDS} is damaged: run `kb rebuild`")
        self._ends = memoryview(ends).cast("q")
        if (self._ends[-1] if len(self._ends) else 0) != len(self._text):
            raise IndexUnavailableError(f"{stem}{_TEXT} is damaged: run `kb rebuild`")

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, place: int) -> str:
        return self._encoded(place).decode(errors=_ERRORS)

    def _encoded(self, place: int) -> bytes:
        return self._text[self._ends[place - 1] if place else 0 : self._ends[place]]

    def find(self, string: str) -> int | None:
        """The place of a string, or None."""
        encoded = string.encode(errors=_ERRORS)
        place = bisect_left(range(len(self)), encoded, key=self._encoded)
        return place if place < len(self) and self._encoded(place) == encoded else None


def _mapped(path: Path) -> bytes | mmap.mmap:
    with path.open("rb") as stream:
        if not path.stat().st_size:
            return b""  # nothing cannot be mapped
        return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
