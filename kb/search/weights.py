"""Fitted weights in `kb/data`, and how weighted scores are combined with unweighted ones."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from kb.vocabulary import read_data


@dataclass(frozen=True, slots=True)
class Weights:
    """Fitted weights, in units of the fused score."""

    embedder: str
    """Cosines mean different things under different models: these were fitted with this one."""
    features: Mapping[str, float]


@cache
def read_weights(name: str) -> Weights:
    """The weights in the file `name` of `kb/data`."""
    return Weights(**read_data(name))


def shift_to_best(added: NDArray[np.float64], plain: NDArray[np.float64]) -> NDArray[np.float64]:
    """Shift `added` so that adding it to the scores `plain`, (n,) each, keeps the best score.

    So weights reorder the items they were fitted on, but not relative to all others.
    """
    shifted: NDArray[np.float64] = added + (plain.max() - (plain + added).max())
    return shifted
