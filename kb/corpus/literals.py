"""What a text must hold for a regular expression to match it: cheap to look for, before the match.

Most chunks of code hold not one word of an expression. The words are read off it as `re` parses it,
so they follow from it and cannot disagree.
"""

import functools
import re
from collections.abc import Iterable, Sequence
from typing import Any

# Typeshed does not know the parser of `re`; an unknown construct only makes the check weaker.
_parser: Any = getattr(re, "_parser", None)
# A shorter word is in most code and rules nothing out.
_SHORTEST = 3

Clauses = tuple[frozenset[str], ...]
"""Each clause must be met; it is met by any one of its words. All in lower case."""


# The shipped corpus has some hundred, which every index that is opened asks for again.
@functools.lru_cache(maxsize=1 << 12)
def required(pattern: str) -> Clauses:
    """The words that a text must hold, in lower case, for `pattern` to match it; maybe none."""
    if _parser is None:
        return ()
    try:
        parsed = _parser.parse(pattern, re.MULTILINE)
    except (re.error, RecursionError, OverflowError):  # RE2 has forms that `re` does not know
        return ()
    clauses = {clause for clause in _sequence(parsed) if clause}
    useful = [clause for clause in clauses if min(map(len, clause)) >= _SHORTEST]
    # The most telling first: few and long words.
    return tuple(sorted(useful, key=lambda clause: (len(clause), -min(map(len, clause)))))


def holds(lowered: str, clauses: Clauses) -> bool:
    """Whether a text, in lower case, meets all clauses."""
    # Loops, not generators: this runs some hundred times a query and thousands of times a file.
    for clause in clauses:
        for word in clause:
            if word in lowered:
                break
        else:
            return False
    return True


class Screen:
    """Which of many expressions may match a short text: those whose words its trigrams may spell.

    Trying each one's words costs as much as the query that they are tried on; the trigrams of the
    text lead to the few that may be in it.
    """

    def __init__(self, asked: Sequence[Clauses]) -> None:
        """`asked` is what each expression asks for, by `required`."""
        self._asked = asked
        self._always = [number for number, clauses in enumerate(asked) if not clauses]
        self._by_start: dict[str, list[tuple[str, int]]] = {}
        for number, clauses in enumerate(asked):
            for word in clauses[0] if clauses else ():
                self._by_start.setdefault(word[:_SHORTEST], []).append((word, number))

    def passed(self, lowered: str) -> list[int]:
        """Places of the expressions whose clauses a text, in lower case, meets; ascending."""
        starts = {lowered[at : at + _SHORTEST] for at in range(len(lowered) - _SHORTEST + 1)}
        found = {
            number
            for start in starts & self._by_start.keys()
            for word, number in self._by_start[start]
            if word in lowered
        }
        return sorted(
            [*self._always, *(each for each in found if holds(lowered, self._asked[each]))]
        )


def _sequence(items: Iterable[tuple[Any, Any]]) -> list[frozenset[str]]:
    """The clauses of parts that follow each other."""
    clauses: list[frozenset[str]] = []
    run = ""
    for kind, value in items:
        name = str(kind)
        # Lower case may have another length or several forms beyond ASCII: not worth the care.
        if name == "LITERAL" and value < 128:
            run += chr(value).lower()
            continue
        if name == "AT":  # \b and ^ stand between two characters, and so do not part them
            continue
        if run:
            clauses.append(frozenset({run}))
            run = ""
        if name == "SUBPATTERN":
            clauses += _sequence(value[3])
        elif name in {"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"} and value[0] > 0:
            clauses += _sequence(value[2])
        elif name == "ATOMIC_GROUP":
            clauses += _sequence(value)
        elif name == "BRANCH":
            clauses += _branches(value[1])
    if run:
        clauses.append(frozenset({run}))
    return clauses


def _branches(branches: Iterable[Any]) -> list[frozenset[str]]:
    """What all branches ask for, and one clause of the most telling one of each."""
    asked = [{clause for clause in _sequence(branch) if clause} for branch in branches]
    if not all(asked):
        return []
    told = (max(sorted(each, key=sorted), key=lambda c: min(map(len, c))) for each in asked)
    return [*set.intersection(*asked), frozenset().union(*told)]
