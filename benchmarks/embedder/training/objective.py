"""The training objective: each query is to be nearest to its document, and each document to its
query."""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy


def contrastive_loss(
    queries: Tensor, documents: Tensor, groups: Tensor, temperature: float
) -> Tensor:
    """Return the symmetric InfoNCE loss (van den Oord et al. 2018) of a batch.

    Known as MultipleNegativesRankingLoss in sentence-transformers. A document of the group of
    another query's answer (a copy, a section of the same entry) is neither an answer nor a
    negative of it.

    Parameters
    ----------
    queries, documents
        Unit vectors (n, d); row i of one answers row i of the other.
    groups
        Of the documents, (n,).
    """
    scores = queries @ documents.T / temperature
    own = torch.arange(len(queries), device=queries.device)
    same = groups[:, None] == groups[None, :]
    same[own, own] = False
    scores = scores.masked_fill(same, float("-inf"))
    return (cross_entropy(scores, own) + cross_entropy(scores.T, own)) / 2
