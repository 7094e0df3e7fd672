"""Which pairs a step trains on: drawn by weight from one pool, none of a function twice."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.embedder.training.records import Document, Kind, Pair

POOL_OF = {
    "triton": "gpu",
    "cuda": "gpu",
    "python": "python",
    "cpp": "cpp",
    "text": "text",
    "entry": "text",
}
ENTRY_WEIGHT = 4.0
"""Questions for our own entries are few, and are what technique queries are like."""


def batches(
    pairs: Sequence[Pair],
    documents: Sequence[Document],
    size: int,
    pools: Mapping[str, float],
    kinds: Mapping[Kind, float],
    seed: int,
) -> Iterator[NDArray[np.int64]]:
    """Yield the indices of the pairs of each step, without end. A seed gives one sequence.

    Parameters
    ----------
    pools, kinds
        As `train.Trial` has them.
    """
    chance = np.random.default_rng(seed)
    members: dict[str, list[int]] = {}
    for at, pair in enumerate(pairs):
        if kinds.get(pair.kind, 0) > 0:
            members.setdefault(POOL_OF[documents[pair.document].language], []).append(at)
    names = [name for name in pools if members.get(name) and pools[name] > 0]
    shares = np.array([pools[name] for name in names])
    streams = {name: _stream(members[name], pairs, documents, kinds, chance) for name in names}
    sizes = {
        name: min(size, len({documents[pairs[at].document].group for at in members[name]}))
        for name in names
    }
    while True:
        name = names[chance.choice(len(names), p=shares / shares.sum())]
        chosen: dict[int, int] = {}
        while len(chosen) < sizes[name]:
            at = next(streams[name])
            chosen.setdefault(documents[pairs[at].document].group, at)
        yield np.array(list(chosen.values()))


def _stream(
    pool: Sequence[int],
    pairs: Sequence[Pair],
    documents: Sequence[Document],
    kinds: Mapping[Kind, float],
    chance: np.random.Generator,
) -> Iterator[int]:
    """Yield pairs of a pool without end: in each pass every one, or a weighted part, in a new
    order."""
    weights = np.array(
        [
            kinds[pairs[at].kind]
            * (ENTRY_WEIGHT if documents[pairs[at].document].language == "entry" else 1.0)
            for at in pool
        ]
    )
    while True:
        # Whole times as often as the weight says, and once more by chance for the rest.
        counts = np.floor(weights).astype(int) + (chance.random(len(pool)) < weights % 1)
        yield from chance.permutation(np.repeat(np.array(pool), counts)).tolist()
