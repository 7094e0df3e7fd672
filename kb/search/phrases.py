"""Find names of several words in a text's tokens in one pass."""

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from kb.index.tokens import terms

T = TypeVar("T")


class Phrases(Generic[T]):
    """Names as token sequences, each with its meaning."""

    def __init__(self, names: Iterable[tuple[str, T]]) -> None:
        self._by_first: dict[str, list[tuple[list[str], T]]] = {}
        for name, meaning in names:
            phrase = terms(name)
            self._by_first.setdefault(phrase[0], []).append((phrase, meaning))

    def _occurrences(self, tokens: list[str]) -> Iterator[tuple[list[str], T]]:
        for position, first in enumerate(tokens):
            for phrase, meaning in self._by_first.get(first, ()):
                if tokens[position : position + len(phrase)] == phrase:
                    yield phrase, meaning

    def terms_in(self, tokens: list[str]) -> set[str]:
        """Tokens of the names that occur in a text."""
        return {token for phrase, _ in self._occurrences(tokens) for token in phrase}

    def matches(self, tokens: list[str]) -> dict[T, int]:
        """Meaning → tokens of its longest name that occurs in a text."""
        lengths: dict[T, int] = {}
        for phrase, meaning in self._occurrences(tokens):
            lengths[meaning] = max(lengths.get(meaning, 0), len(phrase))
        return lengths
