"""The ways of running that are compared: one thing changed in each, all else the same."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from agent.optimize.config import Strategy
from agent.recipe.stock import EmptyShelf, Shelf
from benchmarks.optimize.retrieval.shelves import OtherFamily, WorstFirst, families

INDEX = "index"


@dataclass(frozen=True, slots=True)
class Arm:
    """One way."""

    name: str
    about: str
    change: Callable[[Shelf, int], Shelf] = lambda shelf, _: shelf
    """Makes the shelf from the index's own and the seed."""
    strategy: dict[str, Any] = field(default_factory=dict)
    """Switches that differ."""

    def rules(self) -> Strategy:
        """How this arm searches."""
        return Strategy.model_validate({"profile_leaders": False, **self.strategy})


ARMS = {
    each.name: each
    for each in (
        Arm(INDEX, "kernels of the index, as it ranks them"),
        Arm("empty", "no kernels", lambda *_: EmptyShelf()),
        Arm(
            "shuffled",
            "kernels of another operator family",
            lambda shelf, seed: OtherFamily(shelf, families(), seed),
        ),
        Arm("reversed", "the right kernels, the worst first", lambda shelf, _: WorstFirst(shelf)),
        Arm("no-crossover", "nobody is asked to combine", strategy={"crossover": False}),
        Arm("no-retirement", "no family is given up", strategy={"retirement": False}),
    )
}
