"""The ways of running that are compared: other kernels to start from, all else the same."""

import random
from collections.abc import Callable, Sequence

from agent.proposers.recipe.carry import Stock
from agent.proposers.recipe.stock import EmptyShelf, Shelf
from kb.corpus.loader import load_corpus, shipped_corpus

INDEX = "index"


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


def families() -> list[str]:
    """Operator families of the shipped corpus's kernels."""
    corpus = load_corpus(shipped_corpus())
    return sorted({each.entry.op for each in corpus.kernels if each.entry.language == "triton"})


ARMS: dict[str, Callable[[Shelf, int], Shelf]] = {
    INDEX: lambda shelf, _: shelf,
    "empty": lambda *_: EmptyShelf(),
    "shuffled": lambda shelf, seed: OtherFamily(shelf, families(), seed),
}
"""Name → what makes an arm's shelf from the index's own and the seed."""
