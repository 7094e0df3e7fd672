"""The encoder in torch, and its weights on disk: as published, as shipped, and as what training
changed."""

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

HIDDEN, HEADS, LAYERS, FFN, VOCABULARY, POSITIONS = 384, 12, 6, 1536, 30_522, 512
INT8_MAX = 127
POSITIONS_FILE = "positions.npy"
_QKV = ("attention.self.query", "attention.self.key", "attention.self.value")
_LINEAR = ("attention.output.dense", "intermediate.dense", "output.dense")

Arrays = dict[str, NDArray[np.float32]]


class Encoder(nn.Module):
    """BERT with mean pooling: token ids and their mask (n, tokens) → unit vectors (n, 384)
    float32."""

    width = HIDDEN
    cost = 1

    def __init__(self, weights: Mapping[str, NDArray[np.float32]], layers: tuple[int, ...]) -> None:
        super().__init__()
        from transformers import BertConfig, BertModel

        config = BertConfig(
            vocab_size=VOCABULARY,
            hidden_size=HIDDEN,
            num_hidden_layers=len(layers),
            num_attention_heads=HEADS,
            intermediate_size=FFN,
            max_position_embeddings=POSITIONS,
            hidden_dropout_prob=0.0,  # few passes over many pairs leave nothing to regularise
            attention_probs_dropout_prob=0.0,
            attn_implementation="sdpa",
        )
        self.bert = BertModel(config, add_pooling_layer=False)
        state = {
            name: torch.from_numpy(np.array(value))
            for name, value in chosen_layers(weights, layers).items()
        }
        missing, unexpected = self.bert.load_state_dict(state, strict=False)
        assert not unexpected, unexpected
        assert all("position_ids" in name or "token_type_ids" in name for name in missing), missing

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Encode a batch."""
        hidden = self.bert(input_ids=ids, attention_mask=mask.long()).last_hidden_state.float()
        kept = mask.unsqueeze(-1).float()
        mean = (hidden * kept).sum(1) / kept.sum(1).clamp(min=1)
        return nn.functional.normalize(mean, dim=-1)

    def packed(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """Encode texts laid end to end, on a GPU (`packed.py`)."""
        from benchmarks.embedder.training.packed import packed_forward

        return packed_forward(self, ids, lengths)

    def arrays(self) -> Arrays:
        """The weights by the names of the published file."""
        return {
            name: value.detach().float().cpu().numpy()
            for name, value in self.bert.state_dict().items()
            if value.is_floating_point()
        }


def mixed(*models: tuple[float, Arrays]) -> Arrays:
    """The weighted mean of models that were trained from the same start (Wortsman et al. 2022)."""
    total = sum(share for share, _ in models)
    return {
        name: np.asarray(sum(share * each[name] for share, each in models) / total, np.float32)
        for name in models[0][1]
    }


def chosen_layers(weights: Mapping[str, NDArray[np.float32]], layers: tuple[int, ...]) -> Arrays:
    """The weights of a model that has only these layers, numbered anew."""
    place = {f"encoder.layer.{old}.": f"encoder.layer.{new}." for new, old in enumerate(layers)}
    kept: Arrays = {}
    for name, value in weights.items():
        if name.startswith("pooler") or name.endswith("position_ids"):
            continue
        if not name.startswith("encoder.layer."):
            kept[name] = value
            continue
        old = ".".join(name.split(".")[:3]) + "."
        if old in place:
            kept[name.replace(old, place[old], 1)] = value
    return kept


def read_start(path: Path) -> Arrays:
    """Weights to start from: a safetensors file, or an exported ONNX model, brought back to
    float32.

    The export holds 256 positions; the other 256 of the table are read from `positions.npy` beside
    it or, where there is none, are the first once more.
    """
    if path.suffix != ".onnx":
        from safetensors.numpy import load_file

        loaded = load_file(path)
        return {name: value.astype(np.float32) for name, value in loaded.items()}
    import onnx
    from onnx import numpy_helper

    stored = {each.name: numpy_helper.to_array(each) for each in onnx.load(path).graph.initializer}
    found: Arrays = {
        "embeddings.word_embeddings.weight": stored["words.int8"].astype(np.float32)
        * stored["words.scale"]
    }
    positions = stored["positions"]  # the type embedding of the only type is added in
    further = path.with_name(POSITIONS_FILE)
    rest = np.load(further).astype(np.float32) if further.is_file() else positions
    found["embeddings.position_embeddings.weight"] = np.concatenate([positions, rest])
    found["embeddings.token_type_embeddings.weight"] = np.zeros((2, HIDDEN), np.float32)
    for name, value in stored.items():
        if "LayerNorm" in name:
            found[name] = value
    for layer in range(LAYERS):
        prefix = f"encoder.layer.{layer}."
        packed, bias = _matrix(stored, prefix + _QKV[0])
        for at, part in enumerate(_QKV):
            rows = slice(at * HIDDEN, (at + 1) * HIDDEN)
            found[f"{prefix}{part}.weight"], found[f"{prefix}{part}.bias"] = (
                packed[rows],
                bias[rows],
            )
        for part in _LINEAR:
            found[f"{prefix}{part}.weight"], found[f"{prefix}{part}.bias"] = _matrix(
                stored, prefix + part
            )
    return found


def _matrix(
    stored: Mapping[str, NDArray[Any]], name: str
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """A matrix (outputs, inputs) stored in blocks of 8 bits, and its bias."""
    values = stored[f"{name}.int8"].astype(np.float32) - 128
    scaled = values * stored[f"{name}.scale"].reshape(*values.shape[:2], 1)
    return scaled.reshape(len(values), -1).astype(np.float32), stored[f"{name}.bias"]


def write_change(
    start: Arrays, trained: Arrays, path: Path, about: Mapping[str, Any], levels: int = INT8_MAX
) -> None:
    """Write what training changed, in 8 bits with a scale a row: finer than the weights in
    bfloat16. Fewer `levels` on either side of 0 are coarser and smaller. What `start` lacks began
    as 0.

    Half the size of the weights, which matters where the machine that trains is not the one that
    exports.
    """
    parts: list[bytes] = []
    places: list[dict[str, Any]] = []
    for name in sorted(trained):
        change = np.asarray(trained[name] - start.get(name, np.float32(0)), np.float32)
        rows = change.reshape(-1, change.shape[-1])
        scale = (np.abs(rows).max(axis=1, keepdims=True) / levels).astype(np.float32)
        scale[scale == 0] = 1
        places.append({"name": name, "shape": change.shape})
        parts += [scale.tobytes(), np.rint(rows / scale).astype(np.int8).tobytes()]
    header = json.dumps({"about": dict(about), "tensors": places}).encode()
    content = len(header).to_bytes(8, "little") + header + b"".join(parts)
    # Nothing repeats in it, but small changes are more frequent than large ones.
    coder = zlib.compressobj(level=1, strategy=zlib.Z_HUFFMAN_ONLY)
    path.write_bytes(coder.compress(content) + coder.flush())


def read_change(start: Arrays, content: bytes) -> tuple[Arrays, dict[str, Any]]:
    """The trained weights, and what was written about them."""
    raw = zlib.decompress(content)
    size = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + size])
    at = 8 + size
    weights: Arrays = {}
    for each in header["tensors"]:
        shape = tuple(each["shape"])
        count = int(np.prod(shape))
        rows = count // shape[-1]
        scale = np.frombuffer(raw, np.float32, rows, at).reshape(rows, 1)
        values = np.frombuffer(raw, np.int8, count, at + 4 * rows).reshape(rows, -1)
        at += 4 * rows + count
        change = (values * scale).reshape(shape)
        began = start.get(each["name"], np.float32(0))
        weights[each["name"]] = np.asarray(began + change, np.float32)
    return weights, header["about"]
