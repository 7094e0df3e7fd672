"""The encoder in torch, its weights out of an exported model, and means of weights."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import numpy_helper
from torch import Tensor, nn

from benchmarks.embedder.graph import HEADS, HIDDEN, LAYERS, UINT8_ZERO
from benchmarks.embedder.graph import MAX_TOKENS as POSITIONS

FFN, VOCABULARY = 1536, 30_522
_QKV = ("attention.self.query", "attention.self.key", "attention.self.value")
_LINEAR = ("attention.output.dense", "intermediate.dense", "output.dense")

Arrays = dict[str, NDArray[np.float32]]


class Encoder(nn.Module):  # type: ignore[misc]
    """BERT with mean pooling: token ids and their mask (n, tokens) → unit vectors (n, 384)
    float32."""

    def __init__(self, weights: Mapping[str, NDArray[np.float32]]) -> None:
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
        """Encode a padded batch, on a GPU without computing its padding (`packed.py`)."""
        if ids.device.type == "cuda":
            from benchmarks.embedder.training.packed import packed_forward

            return packed_forward(self, ids[mask], mask.sum(1))
        hidden = self.bert(input_ids=ids, attention_mask=mask.long()).last_hidden_state.float()
        kept = mask.unsqueeze(-1).float()
        mean = (hidden * kept).sum(1) / kept.sum(1).clamp(min=1)
        return nn.functional.normalize(mean, dim=-1)

    def arrays(self) -> Arrays:
        """Return the weights by the names of the published file."""
        return {
            name: value.detach().float().cpu().numpy()
            for name, value in self.bert.state_dict().items()
            if value.is_floating_point()
        }


def mixed(*models: tuple[float, Arrays]) -> Arrays:
    """Return the weighted mean of models trained from one start (Wortsman et al. 2022)."""
    total = sum(share for share, _ in models)
    return {
        name: np.asarray(sum(share * each[name] for share, each in models) / total, np.float32)
        for name in models[0][1]
    }


def read_start(path: Path) -> Arrays:
    """Return the weights of an exported model, brought back to float32."""
    stored = {each.name: numpy_helper.to_array(each) for each in onnx.load(path).graph.initializer}
    found: Arrays = {
        "embeddings.word_embeddings.weight": stored["words.int8"].astype(np.float32)
        * stored["words.scale"],
        # The type embedding of the only type is added in.
        "embeddings.position_embeddings.weight": stored["positions"],
        "embeddings.token_type_embeddings.weight": np.zeros((2, HIDDEN), np.float32),
    }
    found |= {name: value for name, value in stored.items() if "LayerNorm" in name}
    for layer in range(LAYERS):
        prefix = f"encoder.layer.{layer}."
        packed, bias = _matrix(stored, prefix + _QKV[0])
        for at, part in enumerate(_QKV):
            rows = slice(at * HIDDEN, (at + 1) * HIDDEN)
            found[f"{prefix}{part}.weight"] = packed[rows]
            found[f"{prefix}{part}.bias"] = bias[rows]
        for part in _LINEAR:
            weight, bias = _matrix(stored, prefix + part)
            found[f"{prefix}{part}.weight"], found[f"{prefix}{part}.bias"] = weight, bias
    return found


def _matrix(
    stored: Mapping[str, NDArray[Any]], name: str
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return a matrix (outputs, inputs) stored in blocks of 8 bits, and its bias."""
    values = stored[f"{name}.int8"].astype(np.float32) - UINT8_ZERO
    scaled = values * stored[f"{name}.scale"].reshape(*values.shape[:2], 1)
    return scaled.reshape(len(values), -1).astype(np.float32), stored[f"{name}.bias"]
