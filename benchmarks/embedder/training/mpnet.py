"""A larger encoder, for teaching the shipped one: all-mpnet-base-v2 (12 layers, 768 dimensions).

Its pieces of words are the shipped tokenizer's under other numbers, so it reads the same token ids.
Texts go through the linear layers end to end, without padding; attention, to whose scores MPNet
(Song et al. 2020) adds a bias by distance, is computed on texts of like length side by side.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.embedder.training.model import VOCABULARY, Arrays, read_change

EPSILON = 1e-5
"""Of the layer norms, as the model was published."""
FIRST_POSITION = 2
ADDED = 4
"""Its vocabulary is BERT's behind four marks of its own; a fifth follows."""
MARKS = {0: 1, 101: 0, 102: 2}
"""Padding, begin and end, BERT's number → its own."""
SIDE_BY_SIDE = 256
"""Texts whose attention is computed together; they are padded to the longest of them."""


@dataclass(frozen=True, slots=True)
class _Block:
    """Texts of like length: `texts` of at most `longest` tokens."""

    texts: int
    longest: int
    places: Tensor
    """Of each token in the padded matrix, (tokens,) int64."""
    bias: Tensor
    """Added to the scores, (texts, heads, longest, longest)."""


class MpnetEncoder(nn.Module):
    """MPNet with mean pooling: BERT token ids → unit vectors (n, width) float32.

    Its size is that of the weights: 768 wide with 12 layers as published.
    """

    cost = 3
    """Memory of a text's activations, about, as a multiple of the shipped encoder's."""

    def __init__(self, weights: Mapping[str, NDArray[np.float32]]) -> None:
        super().__init__()
        from transformers import MPNetConfig, MPNetModel

        words = weights["embeddings.word_embeddings.weight"]
        self.width = words.shape[1]
        self.heads = weights["encoder.relative_attention_bias.weight"].shape[1]
        config = MPNetConfig(
            vocab_size=VOCABULARY + ADDED + 1,
            hidden_size=self.width,
            num_hidden_layers=sum(name.endswith(".output.dense.weight") for name in weights),
            num_attention_heads=self.heads,
            intermediate_size=len(weights["encoder.layer.0.intermediate.dense.bias"]),
            max_position_embeddings=len(weights["embeddings.position_embeddings.weight"]),
            layer_norm_eps=EPSILON,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
        self.mpnet = MPNetModel(config, add_pooling_layer=False)
        state = {name: torch.from_numpy(np.array(value)) for name, value in weights.items()}
        self.mpnet.load_state_dict(state)
        # 384 numbers, as published: their gradient would cost more than they can give.
        self.mpnet.encoder.relative_attention_bias.requires_grad_(False)
        numbers = torch.arange(VOCABULARY) + ADDED
        for bert, own in MARKS.items():
            numbers[bert] = own
        self.register_buffer("numbers", numbers, persistent=False)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Encode a padded batch: token ids and their mask, (n, tokens)."""
        return self.packed(ids[mask], mask.sum(1))

    def packed(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """Encode texts laid end to end: ids (tokens,) int64 and the tokens of each, (n,) int64."""
        starts = functional.pad(lengths.cumsum(0), (1, 0))
        blocks, order, rows = self._blocks(starts, lengths)
        embeddings = self.mpnet.embeddings
        kind = torch.bfloat16 if ids.device.type == "cuda" else torch.float32
        numbers = self.get_buffer("numbers")
        positions = order - starts[rows] + FIRST_POSITION
        hidden = (
            functional.embedding(numbers[ids[order]], embeddings.word_embeddings.weight)
            + functional.embedding(positions, embeddings.position_embeddings.weight)
        ).to(kind)
        hidden = _norm(embeddings.LayerNorm, hidden)
        for layer in self.mpnet.encoder.layer:
            attention = layer.attention.attn
            parts = (attention.q, attention.k, attention.v)
            weight = torch.cat([part.weight for part in parts]).to(kind)
            bias = torch.cat([part.bias for part in parts]).to(kind)
            context = _attention(functional.linear(hidden, weight, bias), blocks, self.heads)
            hidden = _norm(layer.attention.LayerNorm, _linear(attention.o, context) + hidden)
            wide = functional.gelu(_linear(layer.intermediate.dense, hidden))
            hidden = _norm(layer.output.LayerNorm, _linear(layer.output.dense, wide) + hidden)
        sums = torch.zeros(len(lengths), self.width, device=ids.device)
        sums = sums.index_add(0, rows, hidden.float())
        return functional.normalize(sums / lengths[:, None], dim=-1)

    @torch.no_grad()
    def _blocks(self, starts: Tensor, lengths: Tensor) -> tuple[list[_Block], Tensor, Tensor]:
        """Texts in blocks of like length; the place in the input of each token in their order, and
        its text."""
        kind = torch.bfloat16 if lengths.device.type == "cuda" else torch.float32
        blocks: list[_Block] = []
        orders: list[Tensor] = []
        owners: list[Tensor] = []
        for texts in lengths.argsort(stable=True).split(SIDE_BY_SIDE):
            longest = -(-int(lengths[texts[-1]]) // 16) * 16  # what attention's kernels ask for
            at = torch.arange(longest, device=lengths.device)
            inside = at < lengths[texts][:, None]
            orders.append((starts[texts][:, None] + at)[inside])
            owners.append(texts[:, None].expand(-1, longest)[inside])
            of_distance = self.mpnet.encoder.compute_position_bias(
                torch.empty(1, longest, device=lengths.device)
            ).to(kind)
            bias = of_distance.masked_fill(~inside[:, None, None, :], float("-inf"))
            places = inside.flatten().nonzero().flatten()
            blocks.append(_Block(len(texts), longest, places, bias))
        return blocks, torch.cat(orders), torch.cat(owners)

    def arrays(self) -> Arrays:
        """The weights by the names of the published file."""
        return {
            name: value.detach().float().cpu().numpy()
            for name, value in self.mpnet.state_dict().items()
            if value.is_floating_point()
        }


def read_teacher(path: Path) -> Arrays:
    """The weights that `teacher.py` writes: a safetensors file, or one in few bits (`.change`)."""
    if path.suffix == ".change":
        return read_change({}, path.read_bytes())[0]
    from safetensors.numpy import load_file

    return encoder_weights(load_file(path))


def encoder_weights(loaded: Mapping[str, NDArray[np.generic]]) -> Arrays:
    """Of a published file, what the encoder computes with."""
    return {
        name: value.astype(np.float32)
        for name, value in loaded.items()
        if not name.startswith("pooler") and np.issubdtype(value.dtype, np.floating)
    }


def _attention(mixed: Tensor, blocks: list[_Block], heads: int) -> Tensor:
    """Context (tokens, width) of queries, keys and values beside each other (tokens, 3·width)."""
    found = []
    width = mixed.shape[1] // 3
    for block, part in zip(blocks, mixed.split([len(each.places) for each in blocks]), strict=True):
        size = block.texts * block.longest
        padded = part.new_zeros(size, 3 * width).index_copy(0, block.places, part)
        apart = padded.view(block.texts, block.longest, 3, heads, width // heads)
        query, key, value = apart.permute(2, 0, 3, 1, 4)
        context = functional.scaled_dot_product_attention(query, key, value, attn_mask=block.bias)
        # Not by indexing, whose gradient sorts the places.
        found.append(context.transpose(1, 2).reshape(size, width).index_select(0, block.places))
    return torch.cat(found)


def _linear(layer: nn.Linear, x: Tensor) -> Tensor:
    return functional.linear(x, layer.weight.to(x.dtype), layer.bias.to(x.dtype))


def _norm(layer: nn.LayerNorm, x: Tensor) -> Tensor:
    weight, bias = layer.weight.to(x.dtype), layer.bias.to(x.dtype)
    return functional.layer_norm(x, weight.shape, weight, bias, EPSILON)
