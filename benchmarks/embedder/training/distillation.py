"""What a student learns from teachers: how alike they find the texts of a batch.

Similarities are compared, not vectors, so teacher and student may have any width, and a document
that answers a query though nobody wrote it down is no mistake of the student when the teacher finds
it too (Hinton et al. 2015, over in-batch candidates).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor, nn
from torch.nn.functional import kl_div, log_softmax

from benchmarks.embedder.training.device import TextEncoder, Texts, embed, encode
from benchmarks.embedder.training.records import TrainingSet
from benchmarks.embedder.training.trial import Trial


class Together(nn.Module):
    """Models side by side: their unit vectors, each by the root of its share, as one of width
    Σ width. The similarity of two texts is the mean of the models' own, weighted by the shares."""

    def __init__(self, models: Sequence[tuple[float, TextEncoder]]) -> None:
        super().__init__()
        total = sum(share for share, _ in models)
        self.models = [(sqrt(share / total), model) for share, model in models]
        self.width = sum(model.width for _, model in self.models)
        self.cost = max(model.cost for _, model in self.models)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Unit vectors (n, Σ width) float32."""
        return torch.cat([root * embed(model, ids, mask) for root, model in self.models], dim=1)

    def packed(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """The same of texts laid end to end."""
        return torch.cat([root * each.packed(ids, lengths) for root, each in self.models], dim=1)


@dataclass(frozen=True, slots=True)
class Targets:
    """Teachers' vectors, float16, of every document (documents, d), every query (pairs, d), and of
    the documents that are asked with, without their header."""

    documents: Tensor
    queries: Tensor
    asking: Tensor
    place: Tensor
    """Of a document in `asking`, (documents,) int64."""


@torch.no_grad()
def targets_of(
    teacher: TextEncoder, texts: Texts, training: TrainingSet, trial: Trial, device: torch.device
) -> Targets:
    """Encode the training set with a teacher. Documents are read with their header also where the
    student reads them without."""
    count = len(training.documents)
    every = torch.arange(count, device=device)
    documents = encode(teacher, texts.documents, every, trial.document_tokens, device).half()
    rows = torch.arange(len(training.pairs), device=device)
    queries = encode(teacher, texts.queries, rows, trial.query_tokens, device).half()
    asked = sorted({pair.asked_with for pair in training.pairs if pair.asked_with >= 0})
    asking = torch.tensor(asked, device=device, dtype=torch.int64)
    place = torch.full((count,), -1, device=device, dtype=torch.int64)
    place[asking] = torch.arange(len(asked), device=device)
    bare = encode(teacher, texts.bare, asking, trial.document_tokens, device).half()
    return Targets(documents, queries, bare, place)


def distillation_loss(
    queries: Tensor,
    candidates: Tensor,
    target_queries: Tensor,
    target_candidates: Tensor,
    temperature: float,
    target_temperature: float,
) -> Tensor:
    """Kullback-Leibler divergence of the student's similarities from the teacher's.

    The mean of three: of each query over the candidates, of each query's own document over the
    queries, and of each candidate over the others.

    Parameters
    ----------
    queries, candidates
        The student's unit vectors (n, d) and (m, d), m ≥ n; row i of both belong together.
    target_queries, target_candidates
        The teacher's, of the same texts, of any width.
    """
    scores = queries @ candidates.T / temperature
    wanted = target_queries @ target_candidates.T / target_temperature
    own = torch.eye(len(candidates), dtype=torch.bool, device=candidates.device)
    alike = (candidates @ candidates.T / temperature).masked_fill(own, _NEVER)
    wanted_alike = (target_candidates @ target_candidates.T / target_temperature).masked_fill(
        own, _NEVER
    )
    count = len(queries)
    return (
        _divergence(scores, wanted)
        + _divergence(scores[:, :count].T, wanted[:, :count].T)
        + _divergence(alike, wanted_alike)
    ) / 3


_NEVER = -1e4
"""The score of what is not to be chosen; minus infinity would give no number in the divergence."""


def _divergence(scores: Tensor, wanted: Tensor) -> Tensor:
    return kl_div(
        log_softmax(scores, dim=1),
        log_softmax(wanted, dim=1),
        log_target=True,
        reduction="batchmean",
    )
