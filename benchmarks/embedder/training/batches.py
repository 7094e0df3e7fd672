"""Which pairs a step trains on: drawn by weight from one pool, none of a function twice.

Where clusters are given, a pool's pairs come in blocks of one cluster each, so that a query is held
away from documents that are like its own.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.embedder.training.records import Document, Pair
from benchmarks.embedder.training.trial import Trial

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
    trial: Trial,
    clusters: NDArray[np.int64] | None = None,
) -> Iterator[NDArray[np.int64]]:
    """Indices of the pairs of each step, without end. A seed gives one sequence.

    `clusters` holds one number for each pair.
    """
    chance = np.random.default_rng(trial.seed)
    pools: dict[str, list[int]] = {}
    for at, pair in enumerate(pairs):
        if trial.kinds.get(pair.kind, 0) > 0:
            pools.setdefault(POOL_OF[documents[pair.document].language], []).append(at)
    names = [name for name in trial.pools if pools.get(name) and trial.pools[name] > 0]
    shares = np.array([trial.pools[name] for name in names])
    streams = {
        name: _stream(pools[name], pairs, documents, trial, chance, clusters) for name in names
    }
    sizes = {
        name: min(trial.batch, len({documents[pairs[at].document].group for at in pools[name]}))
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
    trial: Trial,
    chance: np.random.Generator,
    clusters: NDArray[np.int64] | None,
) -> Iterator[int]:
    """Pairs of a pool without end: in each pass every one, or a weighted part, in a new order."""
    weights = np.array(
        [
            trial.kinds[pairs[at].kind]
            * (ENTRY_WEIGHT if documents[pairs[at].document].language == "entry" else 1.0)
            for at in pool
        ]
    )
    members = np.array(pool)
    while True:
        # Whole times as often as the weight says, and once more by chance for the rest.
        counts = np.floor(weights).astype(int) + (chance.random(len(pool)) < weights % 1)
        order = chance.permutation(np.repeat(members, counts))
        if clusters is not None:
            order = _in_blocks(order, clusters[order], trial.block, chance)
        yield from order.tolist()


def _in_blocks(
    order: NDArray[np.int64], clusters: NDArray[np.int64], size: int, chance: np.random.Generator
) -> NDArray[np.int64]:
    """The same pairs with those of a cluster beside each other, `size` at a time."""
    together = order[np.argsort(clusters, kind="stable")]
    borders = np.flatnonzero(np.diff(np.sort(clusters))) + 1
    blocks = [
        part[begin : begin + size]
        for part in np.split(together, borders)
        for begin in range(0, len(part), size)
    ]
    return np.concatenate([blocks[at] for at in chance.permutation(len(blocks))])
