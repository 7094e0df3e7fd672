"""Replaced interfaces, found by the old or the new name."""

import re
from dataclasses import dataclass
from functools import cache

from kb.vocabulary import read_data

_NAME = re.compile(r"[A-Za-z_]\w*(?:(?:\.|::)\w+)*")
_SEPARATOR = re.compile(r"\.|::")
# A last name alone says which interface is meant where it is as long as this: `Max` is none.
_DISTINCTIVE_LENGTH = 8
# More than these in one question are a list, not a question.
_MAX_MATCHES = 4


@dataclass(frozen=True, slots=True)
class Replacement:
    """An interface and its replacement."""

    library: str
    old: str
    new: str
    since: str
    """Version of the library from which the newer one is there."""
    note: str
    source: str

    @property
    def words(self) -> str:
        """One sentence with version and source."""
        since = self.since if self.since[0].isalpha() else f"{self.library} {self.since}"
        also = f"; {self.note}" if self.note else ""
        return f"{self.old}: replaced by {self.new} since {since}{also} ({self.source})."


def replacements_in(text: str) -> list[Replacement]:
    """Interfaces in a text that are replaced or replace others. Linear in its length."""
    matches: dict[Replacement, None] = {}
    for match in _NAME.finditer(text):
        for replacement in _by_name().get(_key(match.group()), ()):
            matches[replacement] = None
        if len(matches) >= _MAX_MATCHES:
            break
    return list(matches)[:_MAX_MATCHES]


def all_replacements() -> list[Replacement]:
    """Every entry of the data file, in its order."""
    return [
        Replacement(
            group["library"], row["old"], row["new"], row["since"], row.get("note", ""),
            group["source"],
        )
        for group in read_data("replacements.yaml")
        for row in group["names"]
    ]  # fmt: skip


def _key(name: str) -> str:
    """A name as it is compared: by its last part where that tells enough."""
    plain = name.replace("::", ".").lower()
    last = _SEPARATOR.split(plain)[-1]
    return last if len(last.strip("_")) >= _DISTINCTIVE_LENGTH else plain


@cache
def _by_name() -> dict[str, tuple[Replacement, ...]]:
    table: dict[str, tuple[Replacement, ...]] = {}
    for replacement in all_replacements():
        for name in (replacement.old, replacement.new):
            if _NAME.fullmatch(name):
                table[_key(name)] = (*table.get(_key(name), ()), replacement)
    return table
