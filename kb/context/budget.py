"""An exact budget in tokens or characters."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kb.embedders.tokens import count_tokens


@dataclass(frozen=True, slots=True)
class Budget:
    """How much a text may measure, and how texts are measured."""

    limit: int
    measure: Callable[[str], int]

    @classmethod
    def of(cls, max_tokens: int | None, max_chars: int | None, default_tokens: int) -> "Budget":
        """A budget in characters if `max_chars` is given, else in tokens."""
        if max_chars is not None:
            return cls(max_chars, len)
        return cls(max_tokens if max_tokens is not None else default_tokens, count_tokens)

    def fits(self, text: str) -> bool:
        """Whether the text is within the budget."""
        return self.measure(text) <= self.limit

    def longest(self, texts: Iterable[str]) -> str | None:
        """The last of ever longer texts that fits, or None if not even the first does."""
        best: str | None = None
        for text in texts:
            if not self.fits(text):
                break
            best = text
        return best

    def less(self, *texts: str) -> "Budget":
        """What is left once these texts are taken."""
        return Budget(self.limit - sum(self.measure(text) for text in texts), self.measure)
