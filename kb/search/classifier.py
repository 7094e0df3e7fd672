"""How likely each technique answers a question, learned from questions written for training.

A small network over the query's embedding and a linear model over its words (`wording.py`), trained
by `python -m benchmarks.retrieval.learn`; the logarithms of their probabilities are averaged. They
know what entries do not say: that a warp's odd lanes doing other work is divergence. They know only
the techniques that they were trained on. So their output is one feature among those that
`kb/search/weighing.py` adds up, and a technique that they do not know gets a middle value.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from io import BytesIO
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kb.parsing import PARSING
from kb.search.wording import Wording, log_softmax

FILE = "classifier_weights.npz"
# Log-probabilities below this one tell no more: thousands of times less likely than the best. In
# cross-validation -6 was 0.003 worse, and -4 0.003 worse again.
FLOOR = -8.0
# What a technique has that was not taught, where 1 is certainty and 0 is `FLOOR`. With a tenth of
# the techniques left out of training, questions for them have 0.880 here, 0.848 at 0.5 and 0.866
# without a classifier; the other questions have 0.890, 0.894 and 0.856.
UNKNOWN = 0.65

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Network:
    """A network of one hidden layer."""

    embedder: str
    """The embeddings that it reads are this one's."""
    techniques: tuple[str, ...]
    """Slugs of what it knows; the last output, beyond these, stands for "nothing applies"."""
    hidden: NDArray[np.float32]
    """(units, dimensions)."""
    hidden_bias: NDArray[np.float32]
    """(units,)."""
    output: NDArray[np.float32]
    """(techniques + 1, units)."""
    output_bias: NDArray[np.float32]
    """(techniques + 1,)."""

    def log_probabilities(self, vectors: NDArray[np.float32]) -> Floats:
        """Log-probabilities of the outputs, (..., techniques + 1), for (..., dimensions) inputs."""
        # On the calling thread, as in `kb.index.vectors`.
        active = np.maximum(np.vecdot(self.hidden, vectors[..., None, :]) + self.hidden_bias, 0.0)
        logits = np.vecdot(self.output, active[..., None, :]) + self.output_bias
        return log_softmax(logits.astype(np.float64))


class TrainedModels(NamedTuple):
    """Both models, trained together, with their outputs in the same order."""

    network: Network
    wording: Wording


@cache
def shipped() -> TrainedModels:
    """The models in `kb/data`."""
    data = BytesIO((files("kb") / "data" / FILE).read_bytes())
    with PARSING, np.load(data) as stored:  # NumPy parses the headers of arrays
        network = Network(
            str(stored["embedder"]),
            tuple(stored["techniques"].tolist()),
            *(
                stored[name].astype(np.float32)
                for name in ("hidden", "hidden_bias", "output", "output_bias")
            ),
        )
        wording = Wording(
            stored["rarity"].astype(np.float32), stored["weights"], stored["scale"], stored["bias"]
        )
        return TrainedModels(network, wording)


class Classifier:
    """The output of both models, in the order of one generation's entries."""

    def __init__(
        self, embedder: str, places: Mapping[str, int], models: TrainedModels | None = None
    ) -> None:
        """`places` maps each entry to its position; `models` defaults to the shipped models."""
        self._network, self._wording = models or shipped()
        self.applies: bool = self._network.embedder == embedder
        """Whether the index was made with the embedder that the network was trained with."""
        index = {f"technique:{slug}": at for at, slug in enumerate(self._network.techniques)}
        self._entries = np.array(
            [place for name, place in places.items() if name in index], dtype=np.intp
        )
        self._outputs = np.array([index[name] for name in places if name in index], dtype=np.intp)
        self._defaults = np.zeros(len(places))
        for name, place in places.items():
            if name.startswith("technique:"):
                self._defaults[place] = UNKNOWN

    def likelihoods(self, vector: NDArray[np.float32], text: str) -> Floats:
        """How likely each entry answers a query.

        Parameters
        ----------
        vector
            Its embedding, (dimensions,).
        text
            Its words.

        Returns
        -------
        Floats
            In [0, 1]: 1 for a technique that certainly does, 0 for kernels, (m,).
        """
        likelihoods = self._defaults.copy()
        if self.applies:
            logs = combine(
                self._network.log_probabilities(vector), self._wording.log_probabilities(text)
            )
            likelihoods[self._entries] = 1.0 - np.maximum(logs, FLOOR)[self._outputs] / FLOOR
        return likelihoods


def combine(first: Floats, second: Floats) -> Floats:
    """Log-probabilities of both models combined, (..., outputs), from those of each.

    For 0.428 of the held-out training questions the first technique is right; with the mean of the
    probabilities, for 0.422. On the judged questions there is no difference.
    """
    return log_softmax((first + second) / 2)
