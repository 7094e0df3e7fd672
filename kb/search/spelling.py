"""Correct misspelt words of a query to the words of the field that were meant.

A word that the index lacks counts as the rarest of all, and the embedder does not understand it
either: in a short query one wrong letter decides. Only plain words are corrected, never
identifiers, names in capitals, numbers or text in backquotes; English words are kept.
"""

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache, cached_property
from importlib.resources import files

from symspellpy import SymSpell, Verbosity

from kb.caching import cached_by_word
from kb.index.reader import Generation

# One edit makes another word of most shorter ones: `wrap` and `warp`, `tile` and `time`.
_MIN_LENGTH = 5
# As long a word may have two edits in it, of which a shorter one would be beyond knowing.
_LONG_WORD = 9
_MAX_EDITS = 2
# A word of one entry's prose is hardly of the field; one of its names is.
_MIN_ENTRIES = 2
# So many words of a query are looked at: each may take a millisecond, and a question has fewer.
_MAX_WORDS = 400
# Of two words equally near, the one that so many times the entries have is meant.
_CLEAR = 3
# Between spaces, without the punctuation around it: a plain word, or several with hyphens.
_WORD = re.compile(
    r"""(?<![^\s"'(\[])(?<!\w["'(\[])[A-Za-z][a-z]+(?:-[A-Za-z]?[a-z]+)*(?=["')\].,;:!?]*(?!\S))"""
)
_PLAIN = re.compile(r"(?<![\w`.])[A-Za-z]?[a-z]+(?![\w`(]|\.\w)")
_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


class Spelling:
    """Corrects queries with the vocabulary of one generation's entries."""

    def __init__(self, generation: Generation) -> None:
        self._generation = generation
        self._lexical = generation.lexical

    def correct(self, query: str) -> tuple[str, dict[str, str]]:
        """The corrected query, and misspelt word → corrected word."""
        corrections: dict[str, str] = {}
        remaining = iter(range(_MAX_WORDS))

        def corrected(match: re.Match[str]) -> str:
            for word in match.group().split("-"):
                if next(remaining, None) is None:
                    break
                if (correction := self._correction(word)) is not None:
                    corrections[word] = correction
            return "-".join(corrections.get(word, word) for word in match.group().split("-"))

        return _WORD.sub(corrected, query), corrections

    def _correction(self, word: str) -> str | None:
        if len(word) < _MIN_LENGTH or self._is_known(word) or _is_english(word.lower()):
            return None
        word_meant = self._nearest(word.lower())
        return word_meant.capitalize() if word_meant and word[0].isupper() else word_meant

    def _is_known(self, word: str) -> bool:
        tokens = self._lexical.query_tokens(word)
        return not tokens or bool(self._lexical.known(tokens))

    def _nearest(self, word: str) -> str | None:
        """The word of the field that is fewest edits away, if one is clearly meant."""
        edits = _MAX_EDITS if len(word) >= _LONG_WORD else 1
        near: Counter[tuple[str, ...]] = Counter()
        spelled: dict[tuple[str, ...], str] = {}
        # Those with the fewest edits alone, the commonest first.
        for suggestion in self._field.lookup(word, Verbosity.CLOSEST, max_edit_distance=edits):
            if suggestion.term[0] == word[0]:  # the first letter is seldom the wrong one
                stem = tuple(self._lexical.query_tokens(suggestion.term))
                near[stem] += suggestion.count
                spelled.setdefault(stem, suggestion.term)
        if not near:
            return None
        (best, entries), *others = near.most_common(2)
        return spelled[best] if all(entries >= _CLEAR * count for _, count in others) else None

    @cached_property
    def _field(self) -> SymSpell:
        """Each word of the field with the number of entries that have it; made when needed."""
        entries: Counter[str] = Counter()
        for names, prose in self._texts():
            name_words = _words(names)
            entries.update(name_words | _words(prose))
            entries.update(dict.fromkeys(name_words, 1))
        field = SymSpell(max_dictionary_edit_distance=_MAX_EDITS)
        for word, count in entries.items():
            if count >= _MIN_ENTRIES and self._is_known(word):
                field.create_dictionary_entry(word, count)
        return field

    def _texts(self) -> Iterator[tuple[str, str]]:
        """Names and prose of each entry."""
        for slug, technique in self._generation.techniques.items():
            entry = technique.entry
            prose = (*entry.questions, entry.effect, *entry.risks, _FENCED.sub("", technique.body))
            yield "\n".join((slug, entry.title, *entry.aliases)), "\n".join(prose)
        for slug, kernel in self._generation.kernels.items():
            yield "\n".join((slug, kernel.entry.title, kernel.entry.op)), ""


def _words(text: str) -> set[str]:
    """Plain words of a text, in lower case, that are long enough."""
    words = (word.lower() for word in _PLAIN.findall(text))
    return {word for word in words if len(word) >= _MIN_LENGTH}


@cached_by_word
def _is_english(word: str) -> bool:
    return f"\n{word} " in _english()


@cache
def _english() -> str:
    """The 82,765 commonest English words, one a line with its frequency, as symspellpy brings it.

    A search of the text takes 0.3 ms, and reading it as a set 90 ms.
    """
    dictionary = files("symspellpy") / "frequency_dictionary_en_82_765.txt"
    return "\n" + dictionary.read_text(encoding="utf-8-sig")
