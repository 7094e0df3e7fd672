"""Which pairs a step trains on: drawn by weight from one pool, none of a function twice."""

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
    pairs: Sequence[Pair], documents: Sequence[Document], trial: Trial
) -> Iterator[NDArray[np.int64]]:
    """Indices of the pairs of each step, without end. A seed gives one sequence."""
    chance = np.random.default_rng(trial.seed)
    pools: dict[str, list[int]] = {}
    for at, pair in enumerate(pairs):
        if trial.kinds.get(pair.kind, 0) > 0:
            pools.setdefault(POOL_OF[documents[pair.document].language], []).append(at)
    names = [name for name in trial.pools if pools.get(name) and trial.pools[name] > 0]
    shares = np.array([trial.pools[name] for name in names])
    streams = {name: _stream(pools[name], pairs, documents, trial, chance) for name in names}
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
        yield from chance.permutation(np.repeat(members, counts)).tolist()
