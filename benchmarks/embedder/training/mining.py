"""What the model itself finds alike: hard negatives, and pairs that make a batch harder."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchmarks.embedder.training.device import ENCODE_BATCH, TextEncoder, Texts, encode
from benchmarks.embedder.training.distillation import Targets
from benchmarks.embedder.training.records import Pair, TrainingSet
from benchmarks.embedder.training.trial import Trial

MINED = 8
"""Negatives kept for a pair, and the share of its own score from which another document may be an
answer that nobody wrote down, and is none."""
TOO_ALIKE = 0.95
DEPTH = 40
PER_CLUSTER = 256
"""Pairs of a cluster, on average."""
ROUNDS = 8
LANGUAGES = ("triton", "cuda", "entry", "python")


@torch.no_grad()
def mine(
    model: TextEncoder,
    texts: Texts,
    training: TrainingSet,
    pairs: Sequence[Pair],
    row_of: Tensor,
    negatives: list[list[int]],
    trial: Trial,
    device: torch.device,
) -> None:
    """Put the documents that the model itself confuses with a pair's own before those that it
    has."""
    languages = [each.language for each in training.documents]
    pool = [
        at
        for at, each in enumerate(training.documents)
        if each.language in LANGUAGES and not each.held_out
    ]
    rows = torch.tensor(pool, device=device)
    vectors = encode(model, texts.documents, rows, trial.document_tokens, device)
    groups = torch.tensor([training.documents[at].group for at in pool], device=device)
    asking = [
        at for at, p in enumerate(pairs) if p.asked_with < 0 and languages[p.document] in LANGUAGES
    ]
    place = {at: row for row, at in enumerate(pool)}
    for begin in range(0, len(asking), ENCODE_BATCH):
        part = asking[begin : begin + ENCODE_BATCH]
        wanted = row_of[torch.tensor(part, device=device)]
        queries = encode(model, texts.queries, wanted, trial.query_tokens, device)
        scores = queries @ vectors.T
        own = torch.tensor([place[pairs[at].document] for at in part], device=device)
        reached = scores.gather(1, own[:, None])
        scores[groups[own][:, None] == groups[None, :]] = -2
        scores[scores > TOO_ALIKE * reached] = -2
        best, found = scores.topk(min(DEPTH, scores.shape[1]), dim=1)
        for at, row, kept in zip(part, found.tolist(), (best > -1).tolist(), strict=True):
            fresh = [pool[each] for each, good in zip(row, kept, strict=True) if good][:MINED]
            negatives[at] = fresh + negatives[at][:2]


@torch.no_grad()
def clusters_of(
    model: TextEncoder,
    texts: Texts,
    pairs: Sequence[Pair],
    trial: Trial,
    device: torch.device,
    targets: Targets | None = None,
) -> NDArray[np.int64]:
    """The cluster of each pair, by k-means over its document's vector (Hofstätter et al. 2021):
    the model's own, or the teachers'."""
    answers = torch.tensor([pair.document for pair in pairs], device=device)
    distinct, where = answers.unique(return_inverse=True)
    if targets:
        vectors = targets.documents[distinct].float()
    else:
        vectors = encode(model, texts.documents, distinct, trial.document_tokens, device)
    count = max(1, len(pairs) // PER_CLUSTER)
    chance = np.random.default_rng(trial.seed)
    first = chance.choice(len(vectors), min(count, len(vectors)), replace=False)
    centres = vectors[torch.from_numpy(first).to(device)]
    nearest = _nearest(vectors, centres)
    for _ in range(ROUNDS):
        sums = torch.zeros_like(centres).index_add(0, nearest, vectors)
        centres = torch.nn.functional.normalize(sums, dim=-1)
        nearest = _nearest(vectors, centres)
    found: NDArray[np.int64] = nearest[where].cpu().numpy()
    return found


def _nearest(vectors: Tensor, centres: Tensor) -> Tensor:
    parts = [(part @ centres.T).argmax(1) for part in vectors.split(16_384)]
    return torch.cat(parts)
