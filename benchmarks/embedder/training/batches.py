"""Pairs of a training step: drawn by weight from one pool, one pair of a function at most."""

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
"""Questions for our own entries are few, and resemble technique queries."""


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
    generator = np.random.default_rng(seed)
    members: dict[str, list[int]] = {}
    for index, pair in enumerate(pairs):
        if kinds.get(pair.kind, 0) > 0:
            members.setdefault(POOL_OF[documents[pair.document].language], []).append(index)
    names = [name for name in pools if members.get(name) and pools[name] > 0]
    shares = np.array([pools[name] for name in names])
    streams = {name: _stream(members[name], pairs, documents, kinds, generator) for name in names}
    sizes = {
        name: min(size, len({documents[pairs[index].document].group for index in members[name]}))
        for name in names
    }
    while True:
        name = names[generator.choice(len(names), p=shares / shares.sum())]
        batch: dict[int, int] = {}
        while len(batch) < sizes[name]:
            index = next(streams[name])
            batch.setdefault(documents[pairs[index].document].group, index)
        yield np.array(list(batch.values()))


def _stream(
    pool: Sequence[int],
    pairs: Sequence[Pair],
    documents: Sequence[Document],
    kinds: Mapping[Kind, float],
    generator: np.random.Generator,
) -> Iterator[int]:
    """Yield pairs of a pool without end: in each pass every one, or a weighted part, in a new
    order."""
    weights = np.array(
        [
            kinds[pairs[index].kind]
            * (ENTRY_WEIGHT if documents[pairs[index].document].language == "entry" else 1.0)
            for index in pool
        ]
    )
    while True:
        # The integer part of the weight, and once more with its fraction as the probability.
        counts = np.floor(weights).astype(int) + (generator.random(len(pool)) < weights % 1)
        yield from generator.permutation(np.repeat(np.array(pool), counts)).tolist()
