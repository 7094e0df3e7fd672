"""Search/replace edits of a kernel file, as models write them.

::

    <<<<<<< SEARCH
    lines of the file, as they stand
    =======
    what takes their place
    >>>>>>> REPLACE

A change of two constants costs some tens of tokens, where the whole file costs a thousand.
"""

from dataclasses import dataclass
from typing import Final

SEARCH: Final = "<<<<<<< SEARCH"
_DIVIDER: Final = "======="
_REPLACE: Final = ">>>>>>> REPLACE"
# More is a file that was written anew; each edit costs a search through the file.
_MOST: Final = 100


class EditError(ValueError):
    """An edit cannot be read or carried out; the message tells the model what to correct."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Whole lines that take the place of others."""

    search: tuple[str, ...]
    replace: tuple[str, ...]


def read_edits(text: str) -> tuple[list[Edit], str]:
    """The edits in a text, and what stands outside of them, without fences.

    By lines, in time proportional to the text.

    Raises
    ------
    EditError
        An edit is not closed.
    """
    edits: list[Edit] = []
    outside: list[str] = []
    search: list[str] | None = None
    replace: list[str] | None = None
    for line in text.splitlines():
        bare = line.strip()
        if search is None:
            if bare == SEARCH:
                search = []
            elif not bare.startswith("```"):
                outside.append(line)
        elif replace is None:
            if bare == _DIVIDER:
                replace = []
            else:
                search.append(line)
        elif bare == _REPLACE:
            edits.append(Edit(tuple(search), tuple(replace)))
            search = replace = None
        else:
            replace.append(line)
    if search is not None:
        raise EditError(f"edit {len(edits) + 1} has no end: each needs '{_DIVIDER}', '{_REPLACE}'")
    return edits, "\n".join(outside)


def apply_edits(source: str, edits: list[Edit]) -> str:
    """The file after the edits, one after the other.

    Raises
    ------
    EditError
        What an edit looks for is not in the file once.
    """
    if len(edits) > _MOST:
        raise EditError(f"there are more than {_MOST} edits: answer with the whole file")
    lines = source.splitlines()
    for number, edit in enumerate(edits, 1):
        if not any(line.strip() for line in edit.search):
            raise EditError(f"edit {number} looks for nothing: copy lines of the file")
        at = _places(lines, edit.search)
        if len(at) != 1:
            problem = "is not in the file" if not at else "is in the file more than once"
            raise EditError(
                f"what edit {number} looks for {problem}: copy whole lines as they stand, "
                "enough of them to be unique, or answer with the whole file"
            )
        lines[at[0] : at[0] + len(edit.search)] = edit.replace
    return "\n".join(lines) + "\n"


def _places(lines: list[str], search: tuple[str, ...]) -> list[int]:
    """Where the lines stand, as far as the second place; spaces at their ends do not count.

    In time proportional to the file: `str.find` is linear also for texts that repeat themselves.
    """
    file, part = ("\n".join(["", *(row.rstrip() for row in seq), ""]) for seq in (lines, search))
    first = file.find(part)
    second = file.find(part, first + 1) if first >= 0 else -1
    return [file.count("\n", 0, at) for at in (first, second) if at >= 0]
