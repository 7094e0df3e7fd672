"""The encoder over texts laid end to end: the same function as `model.Encoder`, without padding.

Attention runs on FlashAttention's variable-length kernel, so no token is computed that no text has,
and hidden states are kept in bfloat16. For a GPU only; the CPU takes `model.Encoder`.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.embedder.graph import HEADS, HIDDEN, LAYER_NORM_EPSILON
from benchmarks.embedder.training.model import Encoder


def packed_forward(model: Encoder, ids: Tensor, lengths: Tensor) -> Tensor:
    """Unit vectors (n, 384) float32 of texts.

    Parameters
    ----------
    ids
        Token ids of all texts, one after another, (tokens,) int64.
    lengths
        Tokens of each, (n,) int64; they add up to `tokens`.
    """
    starts = functional.pad(lengths.cumsum(0), (1, 0)).to(torch.int32)
    rows = torch.repeat_interleave(
        torch.arange(len(lengths), device=ids.device), lengths, output_size=len(ids)
    )
    positions = torch.arange(len(ids), device=ids.device) - starts[rows]
    hidden = _body(model, ids, positions, starts, int(lengths.max()))
    sums = torch.zeros(len(lengths), HIDDEN, device=ids.device).index_add(0, rows, hidden.float())
    return functional.normalize(sums / lengths[:, None], dim=-1)


def _body(model: Encoder, ids: Tensor, positions: Tensor, starts: Tensor, longest: int) -> Tensor:
    from torch.nn.attention.varlen import varlen_attn

    kind = torch.bfloat16
    embeddings = model.bert.embeddings
    hidden = (
        functional.embedding(ids, embeddings.word_embeddings.weight)
        + functional.embedding(positions, embeddings.position_embeddings.weight)
        + embeddings.token_type_embeddings.weight[0]
    ).to(kind)
    hidden = _norm(embeddings.LayerNorm, hidden)
    for layer in model.bert.encoder.layer:
        attention = layer.attention
        parts = (attention.self.query, attention.self.key, attention.self.value)
        weight = torch.cat([part.weight for part in parts]).to(kind)
        bias = torch.cat([part.bias for part in parts]).to(kind)
        mixed = functional.linear(hidden, weight, bias).view(-1, 3, HEADS, HIDDEN // HEADS)
        query, key, value = (each.contiguous() for each in mixed.unbind(1))
        context = varlen_attn(query, key, value, starts, starts, longest, longest)
        inner = _linear(attention.output.dense, context.flatten(1))
        hidden = _norm(attention.output.LayerNorm, inner + hidden)
        wide = functional.gelu(_linear(layer.intermediate.dense, hidden))
        hidden = _norm(layer.output.LayerNorm, _linear(layer.output.dense, wide) + hidden)
    return hidden


def _linear(layer: nn.Linear, x: Tensor) -> Tensor:
    return functional.linear(x, layer.weight.to(x.dtype), layer.bias.to(x.dtype))


def _norm(layer: nn.LayerNorm, x: Tensor) -> Tensor:
    return functional.layer_norm(
        x, (HIDDEN,), layer.weight.to(x.dtype), layer.bias.to(x.dtype), LAYER_NORM_EPSILON
    )
