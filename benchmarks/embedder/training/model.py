"""The encoder in torch, its weights out of an exported model, and means of weights.

On a GPU it reads texts laid end to end, so no token is computed that no text has: attention runs on
FlashAttention's variable-length kernel, and hidden states are kept in bfloat16.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import numpy_helper
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.embedder.graph import (
    HEADS,
    HIDDEN,
    LAYER_NORM_EPSILON,
    LAYERS,
    UINT8_ZERO,
    Float32,
    Weights,
)
from benchmarks.embedder.graph import MAX_TOKENS as POSITIONS

FFN, VOCABULARY = 1536, 30_522
_QKV = ("attention.self.query", "attention.self.key", "attention.self.value")
_LINEAR = ("attention.output.dense", "intermediate.dense", "output.dense")


class Encoder(nn.Module):  # type: ignore[misc]
    """BERT with mean pooling: token ids and mask (n, tokens) → unit vectors (n, 384) float32."""

    def __init__(self, weights: Weights) -> None:
        super().__init__()
        from transformers import BertConfig, BertModel

        config = BertConfig(
            vocab_size=VOCABULARY,
            hidden_size=HIDDEN,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            intermediate_size=FFN,
            max_position_embeddings=POSITIONS,
            hidden_dropout_prob=0.0,  # few passes over many pairs leave nothing to regularise
            attention_probs_dropout_prob=0.0,
            attn_implementation="sdpa",
        )
        self.bert = BertModel(config, add_pooling_layer=False)
        state = {name: torch.from_numpy(np.array(value)) for name, value in weights.items()}
        self.bert.load_state_dict(state)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Encode a padded batch, on a GPU without computing its padding."""
        if ids.device.type == "cuda":
            return packed_forward(self, ids[mask], mask.sum(1))
        hidden = self.bert(input_ids=ids, attention_mask=mask.long()).last_hidden_state.float()
        weights = mask.unsqueeze(-1).float()
        mean = (hidden * weights).sum(1) / weights.sum(1).clamp(min=1)
        return functional.normalize(mean, dim=-1)

    def arrays(self) -> Weights:
        """Return the weights by the names of the published file."""
        return {
            name: value.detach().float().cpu().numpy()
            for name, value in self.bert.state_dict().items()
            if value.is_floating_point()
        }


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

    dtype = torch.bfloat16
    embeddings = model.bert.embeddings
    hidden = (
        functional.embedding(ids, embeddings.word_embeddings.weight)
        + functional.embedding(positions, embeddings.position_embeddings.weight)
        + embeddings.token_type_embeddings.weight[0]
    ).to(dtype)
    hidden = _norm(embeddings.LayerNorm, hidden)
    for layer in model.bert.encoder.layer:
        attention = layer.attention
        parts = (attention.self.query, attention.self.key, attention.self.value)
        weight = torch.cat([part.weight for part in parts]).to(dtype)
        bias = torch.cat([part.bias for part in parts]).to(dtype)
        packed = functional.linear(hidden, weight, bias).view(-1, 3, HEADS, HIDDEN // HEADS)
        query, key, value = (tensor.contiguous() for tensor in packed.unbind(1))
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


def mix(*models: tuple[float, Weights]) -> Weights:
    """Return the weighted mean of models trained from one start (Wortsman et al. 2022)."""
    total = sum(share for share, _ in models)
    return {
        name: np.asarray(sum(share * model[name] for share, model in models) / total, np.float32)
        for name in models[0][1]
    }


def read_start(path: Path) -> Weights:
    """Return the weights of an exported model, brought back to float32."""
    tensors = onnx.load(path).graph.initializer
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in tensors}
    weights: dict[str, Float32] = {
        "embeddings.word_embeddings.weight": stored["words.int8"].astype(np.float32)
        * stored["words.scale"],
        # The type embedding of the only type is added in.
        "embeddings.position_embeddings.weight": stored["positions"],
        "embeddings.token_type_embeddings.weight": np.zeros((2, HIDDEN), np.float32),
    }
    weights |= {name: value for name, value in stored.items() if "LayerNorm" in name}
    for layer in range(LAYERS):
        prefix = f"encoder.layer.{layer}."
        packed, bias = _matrix(stored, prefix + _QKV[0])
        for index, part in enumerate(_QKV):
            rows = slice(index * HIDDEN, (index + 1) * HIDDEN)
            weights[f"{prefix}{part}.weight"] = packed[rows]
            weights[f"{prefix}{part}.bias"] = bias[rows]
        for part in _LINEAR:
            weight, bias = _matrix(stored, prefix + part)
            weights[f"{prefix}{part}.weight"], weights[f"{prefix}{part}.bias"] = weight, bias
    return weights


def _matrix(stored: Mapping[str, NDArray[Any]], name: str) -> tuple[Float32, Float32]:
    """Return a matrix (outputs, inputs) stored in blocks of 8 bits, and its bias."""
    values = stored[f"{name}.int8"].astype(np.float32) - UINT8_ZERO
    scaled = values * stored[f"{name}.scale"].reshape(*values.shape[:2], 1)
    return scaled.reshape(len(values), -1).astype(np.float32), stored[f"{name}.bias"]
