"""Regular expressions on text that somebody else wrote: matched in time linear in the text.

`re` backtracks: three characters repeated can cost it minutes, and it holds the interpreter's lock
meanwhile. These expressions are RE2's, which releases the lock and has no look-around and no back
references. Two of their uses are kept, each as a bounded number of linear searches:

- `(?P<x>\\w+) ... (?P=x)`: the same word again. Each word that the group can be is tried.
- A group whose name begins with `unless`: a match in which it took part does not count, as in
  `unroll\\b(?P<unless>\\s*1$)?` or `stages=(?:(?P<unless>1\\b)|\\w)`.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any

import re2

from kb.caching import LONGEST_WORD
from kb.errors import InvalidInputError

# A pattern a person wrote is far below both; a program's size multiplies the time of a search.
MAX_PATTERN_CHARS = 2_000
_MAX_PROGRAM = 4_000
# Bytes that the automaton of one expression may take. RE2's own limit is eight times as much, which
# hostile text would fill for every expression of a corpus.
_MAX_MEMORY = 1 << 20
# Searches of one text by one pattern: so many in a piece of code, fewer in a long text, so that
# together they read about `_MAX_READ` bytes whatever the text holds.
_MAX_SEARCHES = 64
_MIN_SEARCHES = 4
# A repeated word occurs in the text more than once.
_MIN_REPEATS = 2
# Places at which a repeated word may be given; words repeat, so they are more.
_MAX_PLACES = 256
_MAX_READ = 400_000

_GROUP = re.compile(r"\(\?P<(\w+)>")
_AGAIN = re.compile(r"\(\?P=(\w+)\)")
_WORD_GROUP = r"\w+)"
# Marks beside the group that tell which words it can be: `^[ \t]+` before it, `\[` or `\s*=` after.
_BEFORE = re.compile(r"(?:\^(?:\[ \\t\][*+])?|\\s\+)$")
_NEXT = re.compile(r"(?:\\s[*+])?(?:\\[^\w\s]|[=;,])")


class LinearPattern:
    """One expression, compiled. `^` and `$` match at every line; texts are UTF-8 bytes."""

    def __init__(self, source: str) -> None:
        """Compile an expression.

        Raises
        ------
        InvalidInputError
            It is malformed, uses what cannot be matched in linear time, or is too large.
        """
        if len(source) > MAX_PATTERN_CHARS:
            raise InvalidInputError(f"has {len(source)} characters: at most {MAX_PATTERN_CHARS}")
        self.source = source
        self._repeated = _repeated_group(source)
        body = source if self._repeated is None else _substitute(source, self._repeated, r"\w+")
        self._body = _compile(body)
        self._vetoes = [n for name, n in self._body.groupindex.items() if _is_veto(name)]
        self.body = body
        """What RE2 is given: whatever the expression matches, this matches."""
        self._anywhere = _compile(body, groups=False)
        self._words, self._word = None, 0
        if self._repeated is not None:
            self._words = _compile(_words_of(source, self._repeated))
            self._word = self._words.groupindex[self._repeated.encode()]

    def search(self, text: bytes) -> bool:
        """Whether the expression matches anywhere in the text."""
        if self._anywhere.search(text) is None:
            return False
        if not self._vetoes and self._words is None:
            return True
        tries = max(_MIN_SEARCHES, min(_MAX_SEARCHES, _MAX_READ // (len(text) + 1)))
        budget = iter(range(tries))  # shared by all words, so that together they keep to it
        if self._words is None:
            return self._has_match(self._body, text, budget)
        name = str(self._repeated)
        places = islice(self._words.finditer(text), _MAX_PLACES)
        for word in dict.fromkeys(place[self._word] or b"" for place in places):
            if not 0 < len(word) <= LONGEST_WORD or text.count(word) < _MIN_REPEATS:
                continue
            if next(budget, None) is None:
                return False
            if self._has_match(_with_word(self.source, name, word.decode("ascii")), text, budget):
                return True
        return False

    def groups(self, text: str, most: int) -> Iterator[tuple[str | None, ...]]:
        """The groups of the first matches, `most` at most; each is a search of the whole text."""
        for match in islice(self._body.finditer(encoded(text)), most):
            decoded = (group and group.decode("utf-8", "replace") for group in match.groups())
            yield tuple(decoded)

    def _has_match(self, pattern: Any, text: bytes, budget: Iterator[int]) -> bool:
        """Whether there is a match in which no veto took part."""
        for match in pattern.finditer(text):
            if all(match.start(veto) < 0 for veto in self._vetoes):
                return True
            if next(budget, None) is None:
                return False
        return False


class AnyOf:
    """Several expressions of which one must match; those without groups are one search."""

    def __init__(self, sources: Sequence[str]) -> None:
        """Compile the expressions; raises as `LinearPattern` does."""
        self.source = "|".join(f"(?:{source})" for source in sources)
        plain = [f"(?:{source})" for source in sources if not _GROUP.search(source)]
        self._combined = _compile("|".join(plain), groups=False) if plain else None
        self._others = [LinearPattern(source) for source in sources if _GROUP.search(source)]

    def search(self, text: bytes) -> bool:
        """Whether any of them matches anywhere in the text."""
        if self._combined is not None and self._combined.search(text) is not None:
            return True
        return any(pattern.search(text) for pattern in self._others)


class Screen:
    """Which of many expressions may match a text: those whose words it holds.

    RE2 reads the words off the expressions and looks for all of them at once.
    """

    def __init__(self, sources: Sequence[str]) -> None:
        """Read the words off expressions of RE2, such as `LinearPattern.body`."""
        self._filter = re2.Filter()
        for source in sources:
            self._filter.Add(f"(?m){source}".encode(), _options(source, groups=False))
        self._is_empty = not sources  # which RE2 does not compile
        if sources:
            self._filter.Compile()

    def candidates(self, text: bytes) -> list[int]:
        """Places of the expressions that may match a text, ascending."""
        return [] if self._is_empty else self._filter.Match(text, potential=True) or []


@lru_cache(maxsize=1 << 11)
def linear_pattern(source: str) -> LinearPattern:
    """The compiled expression, which the check of an entry and its use share.

    Raises
    ------
    InvalidInputError
        As `LinearPattern`.
    """
    return LinearPattern(source)


def any_of(sources: Sequence[str]) -> AnyOf | None:
    """What matches where any of the expressions does; None where there is none."""
    return AnyOf(sources) if sources else None


def encoded(text: str) -> bytes:
    """A text as patterns take it; half a surrogate pair becomes a question mark."""
    return text.encode("utf-8", "replace")


def _is_veto(name: str | bytes) -> bool:
    return name.startswith("unless") if isinstance(name, str) else name.startswith(b"unless")


def _options(source: str, *, groups: bool) -> Any:
    options = re2.Options()
    options.log_errors = False  # else RE2 writes to stderr
    options.never_capture = not groups
    options.max_mem = _MAX_MEMORY
    if source.isascii():
        # bytes as they are: smaller programs than for UTF-8, and the same matches
        options.encoding = re2.Options.Encoding.LATIN1
    return options


def _compile(source: str, *, groups: bool = True) -> Any:
    try:
        pattern = re2.compile(f"(?m){source}".encode(), _options(source, groups=groups))
    except (re2.error, UnicodeEncodeError) as error:
        raise InvalidInputError(_reason(error)) from error
    if pattern.programsize > _MAX_PROGRAM:
        raise InvalidInputError("repeats too much: use *? for what may be long")
    return pattern


def _reason(error: Exception) -> str:
    detail = error.args[0] if error.args else str(error)
    text = detail.decode("utf-8", "replace") if isinstance(detail, bytes) else str(error)
    if "perl operator" in text or "escape sequence: \\" in text:
        text += "; patterns are RE2's, without look-around and numbered back references"
    return text


def _repeated_group(source: str) -> str | None:
    names: set[str] = set(_AGAIN.findall(source))
    if not names:
        return None
    name = next(iter(names))
    if len(names) > 1 or f"(?P<{name}>{_WORD_GROUP}" not in source or _is_veto(name):
        raise InvalidInputError(
            r"(?P=name) stands for one word, given once before as (?P<name>\w+)"
        )
    return name


@lru_cache(maxsize=128)  # an automaton each
def _with_word(source: str, name: str, word: str) -> Any:
    return _compile(_substitute(source, name, rf"\b{word}\b"))


def _substitute(source: str, name: str, replacement: str) -> str:
    """The expression with the group and all that repeats it replaced."""
    return source.replace(f"(?P<{name}>{_WORD_GROUP}", f"(?:{replacement})").replace(
        f"(?P={name})", f"(?:{replacement})"
    )


def _words_of(source: str, name: str) -> str:
    """What finds every word that the group can be: the group and the marks beside it."""
    group = f"(?P<{name}>{_WORD_GROUP}"
    start = source.index(group)
    before, after = _BEFORE.search(source[:start]), _NEXT.match(source, start + len(group))
    return (before[0] if before else "") + group + (after[0] if after else "")
