"""One step of training: texts into vectors, the loss of a batch, and its gradients.

A batch that is too large for the memory is encoded twice, part by part: once for the vectors, whose
loss gives a gradient for each of them, and once to carry that gradient into the weights (Gao et al.
2021, "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup"). Nothing is dropped
out, so both times give the same vectors, and the gradient is that of the whole batch.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchmarks.embedder.training.device import DeviceTokens, TextEncoder, Texts, embed
from benchmarks.embedder.training.distillation import Targets, distillation_loss
from benchmarks.embedder.training.objective import contrastive_loss, nested_loss
from benchmarks.embedder.training.records import Pair
from benchmarks.embedder.training.trial import Trial

WHOLE = 6_144
"""Texts of a batch that are encoded at once: some 90 GB of activations of the shipped encoder. A
larger one takes fewer."""
PART = 2_048


@dataclass(frozen=True, slots=True)
class Rows:
    """Texts to encode: rows of a matrix of token ids, each cut to `most` tokens."""

    tokens: DeviceTokens
    rows: Tensor
    most: int

    def encoded(self, model: TextEncoder) -> Tensor:
        """Vectors of all of them."""
        return embed(model, *self.tokens.take(self.rows, self.most))

    def parts(self, size: int) -> Iterator["Rows"]:
        """The same in parts of `size` texts."""
        for part in self.rows.split(size):
            yield Rows(self.tokens, part, self.most)


def backward(
    model: TextEncoder,
    groups: Sequence[Rows],
    loss_of: Callable[[Sequence[Tensor]], Tensor],
) -> float:
    """Add the gradients of a loss of the groups' vectors to the weights, and return the loss."""
    part_size = max(1, PART // model.cost)
    if sum(len(each.rows) for each in groups) <= WHOLE // model.cost:
        loss = loss_of([each.encoded(model) for each in groups])
        loss.backward()
        return float(loss.detach())
    with torch.no_grad():
        leaves = [
            torch.cat([part.encoded(model) for part in each.parts(part_size)]) for each in groups
        ]
    for leaf in leaves:
        leaf.requires_grad_()
    loss = loss_of(leaves)
    loss.backward()
    for each, leaf in zip(groups, leaves, strict=True):
        if leaf.grad is None:
            continue
        for part, gradient in zip(each.parts(part_size), leaf.grad.split(part_size), strict=True):
            (part.encoded(model) * gradient).sum().backward()
    return float(loss.detach())


def batch_backward(
    model: TextEncoder,
    texts: Texts,
    pairs: Sequence[Pair],
    row_of: Tensor,
    groups: Tensor,
    negatives: Sequence[Sequence[int]],
    chosen: NDArray[np.int64],
    trial: Trial,
    chance: np.random.Generator,
    device: torch.device,
    targets: Targets | None = None,
) -> float:
    """The loss of the chosen pairs, its gradients added to the weights. With `targets`, a share of
    it is what teachers say of the same texts."""
    # Pairs that are asked with code come last, so that short queries are encoded together.
    chosen = np.array(sorted(chosen, key=lambda at: pairs[at].asked_with >= 0), dtype=np.int64)
    answers = torch.tensor([pairs[at].document for at in chosen], device=device)
    spoken = [at for at in chosen if pairs[at].asked_with < 0]
    coded = [pairs[at].asked_with for at in chosen if pairs[at].asked_with >= 0]
    hard = [
        int(chance.choice(negatives[at]))
        for at in chosen
        for _ in range(trial.negatives)
        if negatives[at]
    ]
    source = texts.bare if chance.random() < trial.without_header else texts.documents
    asked, asked_of = [], []
    if spoken:
        rows = row_of[torch.tensor(spoken, device=device)]
        asked.append(Rows(texts.queries, rows, trial.query_tokens))
        if targets:
            asked_of.append(targets.queries[rows])
    if coded:
        rows = torch.tensor(coded, device=device)
        asked.append(Rows(texts.bare, rows, trial.document_tokens))
        if targets:
            asked_of.append(targets.asking[targets.place[rows]])
    every = torch.cat([answers, torch.tensor(hard, device=device, dtype=torch.int64)])
    about = (groups[answers], groups[every[len(answers) :]], trial.temperature)

    def loss_of(vectors: Sequence[Tensor]) -> Tensor:
        queries, encoded = torch.cat(list(vectors[:-1])), vectors[-1]
        found, held_away = encoded[: len(answers)], encoded[len(answers) :]
        if trial.dimensions:
            loss = nested_loss(queries, found, held_away, *about, trial.dimensions)
        else:
            loss = contrastive_loss(queries, found, held_away, *about)
        if not targets:
            return loss
        taught = distillation_loss(
            queries,
            encoded,
            torch.cat(asked_of).float(),
            targets.documents[every].float(),
            trial.temperature,
            trial.target_temperature,
        )
        return (1 - trial.distilled) * loss + trial.distilled * taught

    return backward(model, [*asked, Rows(source, every, trial.document_tokens)], loss_of)
