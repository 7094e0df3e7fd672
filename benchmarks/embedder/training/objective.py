"""The training objective: each query is to be nearest to its document, and each document to its
query."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize


def contrastive_loss(
    queries: Tensor,
    documents: Tensor,
    negatives: Tensor,
    groups: Tensor,
    negative_groups: Tensor,
    temperature: float,
) -> Tensor:
    """Symmetric InfoNCE (van den Oord et al. 2018) over a batch, with hard negatives.

    Known as MultipleNegativesRankingLoss in sentence-transformers. A document of the group of
    another query's answer (a copy, a section of the same entry) is neither an answer nor a
    negative of it.

    Parameters
    ----------
    queries, documents
        Unit vectors (n, d); row i of one answers row i of the other.
    negatives
        Unit vectors (m, d), m may be 0: documents that every query is held away from.
    groups, negative_groups
        (n,) and (m,).
    """
    candidates = torch.cat([documents, negatives])
    candidate_groups = torch.cat([groups, negative_groups])
    scores = queries @ candidates.T / temperature
    own = torch.arange(len(queries), device=queries.device)
    same = groups[:, None] == candidate_groups[None, :]
    same[own, own] = False
    scores = scores.masked_fill(same, float("-inf"))
    backwards = scores[:, : len(documents)].T
    return (cross_entropy(scores, own) + cross_entropy(backwards, own)) / 2


def nested_loss(
    queries: Tensor,
    documents: Tensor,
    negatives: Tensor,
    groups: Tensor,
    negative_groups: Tensor,
    temperature: float,
    dimensions: Sequence[int],
) -> Tensor:
    """The mean of the loss over the first k dimensions, for each k (Kusupati et al. 2022)."""
    losses = [
        contrastive_loss(
            normalize(queries[:, :k], dim=-1),
            normalize(documents[:, :k], dim=-1),
            normalize(negatives[:, :k], dim=-1),
            groups,
            negative_groups,
            temperature,
        )
        for k in dimensions
    ]
    return torch.stack(losses).mean()
