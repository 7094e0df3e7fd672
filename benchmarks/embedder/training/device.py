"""Token ids on a device, and texts of them turned into vectors there."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from benchmarks.embedder.training.records import TrainingSet
from benchmarks.embedder.training.tokens import Tokens, read_as, tokenized

MOST_DOCUMENT, MOST_QUERY = 512, 64
"""Tokens kept of a document and of a query; a trial may read fewer."""
ENCODE_BATCH = 1_024


class TextEncoder(Protocol):
    """A model that turns token ids into unit vectors (n, width) float32."""

    width: int
    cost: int
    """Memory of a text's activations, as a multiple of the shipped encoder's."""

    def __call__(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Of a padded batch and its mask, (n, tokens)."""

    def packed(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """Of texts laid end to end: ids (tokens,) and the tokens of each, (n,); for a GPU."""


class DeviceTokens:
    """A matrix of token ids on a device; rows are taken with their mask."""

    def __init__(self, tokens: Tokens, device: torch.device) -> None:
        self.ids = torch.from_numpy(np.array(tokens.ids).astype(np.int16)).to(device)
        self.lengths = torch.from_numpy(np.array(tokens.lengths)).to(device)

    def take(self, rows: Tensor, most: int) -> tuple[Tensor, Tensor]:
        """Ids (n, longest) int64 and mask, cut to `most` tokens, the last one the separator."""
        lengths = self.lengths[rows]
        cut = lengths > most
        lengths = lengths.clamp(max=most)
        width = min(most, -(-int(lengths.max()) // 16) * 16, self.ids.shape[1])
        ids = self.ids[rows, :width].long() & 0xFFFF
        ends = self.ids[rows, self.lengths[rows].long() - 1].long() & 0xFFFF
        mask = torch.arange(width, device=ids.device)[None] < lengths[:, None]
        if bool(cut.any()):
            last = torch.where(cut, ends, ids[:, width - 1])
            ids = torch.cat([ids[:, :-1], last[:, None]], dim=1)
        return ids, mask


@dataclass(frozen=True, slots=True)
class Texts:
    """Documents with and without their header, and queries, on the device."""

    documents: DeviceTokens
    bare: DeviceTokens
    queries: DeviceTokens


def load_texts(
    training: TrainingSet, tokenizer: Path, keep: Path | None, device: torch.device, reads: str
) -> Texts:
    """Token ids of everything as a model reads it, from `keep` or made now."""
    found = {}
    for name, most in (
        ("documents", MOST_DOCUMENT),
        ("bare", MOST_DOCUMENT),
        ("queries", MOST_QUERY),
    ):
        place = None if keep is None else keep / f"{reads}-{name}"
        if place is not None and place.with_suffix(".done").exists():
            tokens = Tokens.read(place)
        else:
            tokens = tokenized(read_as(_lines(training, name), reads), tokenizer, most)
            if place is not None:
                place.parent.mkdir(parents=True, exist_ok=True)
                tokens.write(place)
                place.with_suffix(".done").touch()
        found[name] = DeviceTokens(tokens, device)
    return Texts(**found)


def _lines(training: TrainingSet, name: str) -> Iterator[str]:
    if name == "queries":
        return (each.query for each in training.pairs)
    if name == "bare":
        return (each.text.partition("\n")[2] for each in training.documents)
    return (each.text for each in training.documents)


def embed(model: TextEncoder, ids: Tensor, mask: Tensor) -> Tensor:
    """Unit vectors (n, width) float32 of a padded batch, without its padding where a GPU can."""
    if ids.device.type == "cuda":
        return model.packed(ids[mask], mask.sum(1))
    return model(ids, mask)


@torch.no_grad()
def encode(
    model: TextEncoder, tokens: DeviceTokens, rows: Tensor, most: int, device: torch.device
) -> Tensor:
    """Unit vectors of the rows, (n, width) float32."""
    out = torch.empty(len(rows), model.width, device=device)
    for begin in range(0, len(rows), ENCODE_BATCH):
        part = rows[begin : begin + ENCODE_BATCH]
        out[begin : begin + ENCODE_BATCH] = embed(model, *tokens.take(part, most))
    return out
