"""An exact budget in tokens or characters.

Tokens are counted with the shipped tokenizer, whose count is published. Current models' tokenizers
(o200k_base, cl100k_base) count more for short indented lines and other scripts. A budget in tokens
holds for both: a text's size is the larger of the count and an upper bound on theirs.
"""

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache

from kb.embedders.tokens import count_tokens

# Pieces that o200k_base does not join to others: words, numbers of three digits, line breaks with
# their indentation, runs of punctuation.
_PIECE = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]{1,3}|\n\s*|[ \t]{2,}|[^\sA-Za-z0-9]{1,3}")
# Letters of a word that one token holds at least, mostly; capitals are rarer and shorter.
_LETTERS, _CAPITALS = 9, 4
# On 600 pieces of code and documents o200k_base took at most 1.10 times the sum below.
_MARGIN = 1.12
# Texts recur: sections and code of entries are measured for every context that may show them. Of
# some 5 kB each they take about 10 MB.
_CACHED_TEXTS = 2048


def modern_tokens(text: str) -> int:
    """Return an upper bound on the tokens that current models count in a text."""
    count = 0
    for match in _PIECE.finditer(text):
        piece = match[0]
        if not piece.isascii():
            count += len(piece.encode(errors="replace"))
        elif piece[0].isalpha():
            count += 1 + (len(piece) - 1) // (_CAPITALS if piece.isupper() else _LETTERS)
        else:
            count += 1
    return math.ceil(_MARGIN * count)


@lru_cache(maxsize=_CACHED_TEXTS)
def budget_tokens(text: str) -> int:
    """Return the larger of the published count and the bound for current models."""
    return max(count_tokens(text), modern_tokens(text))


@dataclass(frozen=True, slots=True)
class Budget:
    """The largest size of a text, and how sizes are measured."""

    limit: int
    measure: Callable[[str], int]

    @classmethod
    def of(cls, max_tokens: int | None, max_chars: int | None, default_tokens: int) -> "Budget":
        """A budget in characters if `max_chars` is given, else in tokens."""
        if max_chars is not None:
            return cls(max_chars, len)
        return cls(max_tokens if max_tokens is not None else default_tokens, budget_tokens)

    def fits(self, text: str) -> bool:
        """Whether the text is within the budget."""
        return self.measure(text) <= self.limit

    def longest(self, texts: Iterable[str]) -> str | None:
        """The last text that fits of a series of growing texts, or None if the first does not."""
        best: str | None = None
        for text in texts:
            if not self.fits(text):
                break
            best = text
        return best

    def less(self, *texts: str) -> "Budget":
        """The budget left after these texts."""
        return Budget(self.limit - sum(self.measure(text) for text in texts), self.measure)
