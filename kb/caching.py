"""Answers remembered by words that anybody may send, in bounded memory."""

from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

_T = TypeVar("_T")
_MOST = 1 << 16
# No name is longer; as many words of a whole query's length would take over a gigabyte.
LONGEST_WORD = 100


def cached_by_word(work: Callable[[str], _T]) -> Callable[[str], _T]:
    """Remember what a function answers to words; what is longer is worked out each time."""
    remembered = lru_cache(maxsize=_MOST)(work)

    def answer(word: str) -> _T:
        return remembered(word) if len(word) <= LONGEST_WORD else work(word)

    answer.__doc__ = work.__doc__
    return answer
