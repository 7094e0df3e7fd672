"""Shelves that give `recipe` something else than what it asks for."""

import random
from collections.abc import Sequence

from agent.recipe.carry import Stock
from agent.recipe.stock import Shelf
from kb.corpus.loader import load_corpus, shipped_corpus


class OtherFamily:
    """Kernels of another operator family than the one that is asked for, always the same one.

    What a search gives that finds the wrong thing: the kernels themselves are sound.

    Parameters
    ----------
    shelf
        Where kernels come from.
    families
        Those that there are.
    seed
        Of the permutation, which leaves no family where it was.
    """

    def __init__(self, shelf: Shelf, families: Sequence[str], seed: int) -> None:
        self._shelf = shelf
        order = sorted(families)
        random.Random(seed).shuffle(order)
        # One cycle through all of them: none comes to itself.
        self.instead = dict(zip(order, [*order[1:], *order[:1]], strict=True))

    def kernels(self, family: str, architecture: str | None, gpu: str | None) -> Sequence[Stock]:
        """See `Shelf.kernels`; kernels pass for members of `family`."""
        return self._shelf.kernels(self.instead.get(family, family), architecture, gpu)


class WorstFirst:
    """The right kernels in reverse order: what ranking is worth."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    def kernels(self, family: str, architecture: str | None, gpu: str | None) -> Sequence[Stock]:
        """See `Shelf.kernels`."""
        return list(reversed(self._shelf.kernels(family, architecture, gpu)))


def families() -> list[str]:
    """Operator families of the shipped corpus's kernels."""
    corpus = load_corpus(shipped_corpus())
    return sorted({each.entry.op for each in corpus.kernels if each.entry.language == "triton"})
