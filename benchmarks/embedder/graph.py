"""Builds the sentence encoder as an ONNX graph with weights of 8 bits.

The graph is the BERT encoder of 6 layers (Devlin et al. 2018, https://arxiv.org/abs/1810.04805)
with GELU and layer norm after each residual, then mean pooling and scaling to unit length:
``input_ids`` int64 (1, tokens) → ``embedding`` float32 (1, 384). It is written node by node
rather than traced, because a traced graph changes with the exporter's version, and this one
must come out byte for byte the same. It reads one text, so it has no padding and no mask.
Operators of the ``com.microsoft`` domain are onnxruntime's own fused ones. Matrices have a scale
for each block of inputs of each output, word embeddings one for each word; docs/embedder.md says
which precisions this one was chosen from.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper, numpy_helper

LAYERS = 6
HEADS = 12
HIDDEN = 384
MAX_TOKENS = 256  # what the model was tuned for; its position table goes on to 512
LAYER_NORM_EPSILON = 1e-12  # the model's configuration
OPSET = 21
IR_VERSION = 10  # the oldest that holds opset 21
ONNXRUNTIME = "com.microsoft"
INT8_ACTIVATIONS = 4  # MatMulNBits' accuracy_level: quantize activations, too, block by block
INT8_MAX = 127
UINT8_ZERO = 128  # MatMulNBits stores 8-bit values unsigned, with this implied zero point
BLOCK = 64
"""Inputs of an output that share a scale."""
PRECISION = f"int8 per block of {BLOCK}"

Float32 = NDArray[np.float32]
Weights = Mapping[str, Float32]
"""By the names of the published file."""


def per_row(matrix: Float32) -> tuple[NDArray[np.int8], Float32]:
    """Quantize the last axis with a scale for each row; scales has shape (..., 1)."""
    scales = np.abs(matrix).max(axis=-1, keepdims=True) / INT8_MAX
    scales = np.where(scales > 0, scales, 1).astype(np.float32)
    return np.rint(matrix / scales).astype(np.int8), scales


def per_block(matrix: Float32) -> tuple[NDArray[np.uint8], Float32]:
    """Quantize (inputs, outputs) with a scale for each `BLOCK` inputs of each output.

    Returns
    -------
    values : uint8, shape (outputs, inputs / BLOCK, BLOCK)
        Offset by 128.
    scales : float32, shape (outputs, inputs / BLOCK)
    """
    inputs, outputs = matrix.shape
    assert inputs % BLOCK == 0, f"{inputs} inputs do not divide into blocks of {BLOCK}"
    values, scales = per_row(matrix.T.reshape(outputs, inputs // BLOCK, BLOCK))
    return (values.astype(np.int16) + UINT8_ZERO).astype(np.uint8), scales[..., 0]


def build(weights: Weights, name: str) -> ModelProto:
    """Return the encoder with `weights`, under a name."""
    graph = _Graph()
    hidden = _embeddings(graph, weights)
    for layer in range(LAYERS):
        hidden = _layer(graph, weights, f"encoder.layer.{layer}.", hidden)
    axes = graph.constant("pooling.axes", np.array([1], np.int64))
    mean = graph.node("ReduceMean", [hidden, axes], keepdims=0)
    graph.node("LpNormalization", [mean], output="embedding", axis=-1, p=2)
    return helper.make_model(
        helper.make_graph(
            graph.nodes,
            name,
            [helper.make_tensor_value_info("input_ids", TensorProto.INT64, [1, "tokens"])],
            [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, [1, HIDDEN])],
            graph.initializers,
        ),
        opset_imports=[helper.make_opsetid("", OPSET), helper.make_opsetid(ONNXRUNTIME, 1)],
        ir_version=IR_VERSION,
        producer_name="kernel-kb",
    )


class _Graph:
    """Nodes and constants in the order they are added, under names made from that order."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.initializers: list[TensorProto] = []

    def constant(self, name: str, array: NDArray[Any]) -> str:
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def split(self, tensor: str, parts: int) -> list[str]:
        outputs = [f"{tensor}.{part}" for part in range(parts)]
        self.nodes.append(helper.make_node("Split", [tensor], outputs, axis=-1, num_outputs=parts))
        return outputs

    def node(
        self, op: str, inputs: Sequence[str], *, domain: str = "", output: str = "", **attrs: Any
    ) -> str:
        name = output or f"{op}.{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, domain=domain, **attrs))
        return name

    def linear(self, x: str, name: str, matrix: Float32, bias: Float32) -> str:
        """Multiply `x` by `matrix` of shape (inputs, outputs) and add `bias` (outputs,)."""
        added = self.constant(f"{name}.bias", bias)
        values, scales = per_block(matrix)
        stored = [self.constant(f"{name}.int8", values), self.constant(f"{name}.scale", scales)]
        return self.node(
            "MatMulNBits", [x, *stored, "", "", added], domain=ONNXRUNTIME, K=matrix.shape[0],
            N=matrix.shape[1], bits=8, block_size=BLOCK, accuracy_level=INT8_ACTIVATIONS,
        )  # fmt: skip

    def residual(self, x: str, skip: str, weights: Weights, norm: str) -> str:
        names = [f"{norm}.{part}" for part in ("weight", "bias")]
        constants = [self.constant(name, weights[name]) for name in names]
        # Not onnxruntime's fused SkipLayerNormalization, which takes 5 times as long.
        added = self.node("Add", [x, skip])
        norms = [added, *constants]
        return self.node("LayerNormalization", norms, epsilon=LAYER_NORM_EPSILON, axis=-1)


def _embeddings(graph: _Graph, weights: Weights) -> str:
    """Sum of word, position and type embeddings, normalised; the type is always 0."""
    values, scales = per_row(weights["embeddings.word_embeddings.weight"])
    gathered = graph.node("Gather", [graph.constant("words.int8", values), "input_ids"])
    scale = graph.node("Gather", [graph.constant("words.scale", scales), "input_ids"])
    up = graph.node("Cast", [gathered], to=TensorProto.FLOAT)
    words = graph.node("Mul", [up, scale])
    positions = (
        weights["embeddings.position_embeddings.weight"][:MAX_TOKENS]
        + weights["embeddings.token_type_embeddings.weight"][0]
    )
    zero = graph.constant("zero", np.array([0], np.int64))
    tokens = graph.node("Shape", ["input_ids"], start=1)
    rows = graph.node("Slice", [graph.constant("positions", positions), zero, tokens, zero])
    return graph.residual(words, rows, weights, "embeddings.LayerNorm")


def _layer(graph: _Graph, weights: Weights, prefix: str, hidden: str) -> str:
    """One encoder layer: attention, residual and norm, feed-forward, residual and norm."""

    def linear(x: str, parts: Sequence[str]) -> str:
        # torch stores a linear layer's weight as (outputs, inputs).
        matrix = np.concatenate([weights[f"{prefix}{part}.weight"].T for part in parts], axis=1)
        bias = np.concatenate([weights[f"{prefix}{part}.bias"] for part in parts])
        return graph.linear(x, prefix + parts[0], matrix, bias)

    # One product for query, key and value: their input is then quantized once.
    parts = [f"attention.self.{part}" for part in ("query", "key", "value")]
    packed = linear(hidden, parts)
    attended = graph.node(
        "MultiHeadAttention", graph.split(packed, 3), domain=ONNXRUNTIME, num_heads=HEADS
    )
    projected = linear(attended, ["attention.output.dense"])
    hidden = graph.residual(projected, hidden, weights, f"{prefix}attention.output.LayerNorm")

    widened = linear(hidden, ["intermediate.dense"])
    active = graph.node("Gelu", [widened])
    narrowed = linear(active, ["output.dense"])
    return graph.residual(narrowed, hidden, weights, f"{prefix}output.LayerNorm")
