"""Fitted weights as `kb/data` holds them, and how what they add is put beside what has none."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from kb.vocabulary import read_data


@dataclass(frozen=True, slots=True)
class Weights:
    """What was fitted, in units of the fused score."""

    embedder: str
    """Cosines mean different things under different models: these were fitted with this one."""
    features: Mapping[str, float]


@cache
def read_weights(name: str) -> Weights:
    """The weights in the file `name` of `kb/data`."""
    return Weights(**read_data(name))


def ordering(added: NDArray[np.float64], plain: NDArray[np.float64]) -> NDArray[np.float64]:
    """`added` to scores `plain`, (n,) each, with the best of them at the score it had without.

    So weights order what they were fitted on among itself, and it stands to the rest as before.
    """
    shifted: NDArray[np.float64] = added + (plain.max() - (plain + added).max())
    return shifted
