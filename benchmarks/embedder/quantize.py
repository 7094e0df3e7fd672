"""Symmetric int8 quantization of weight matrices at four grains."""

from collections.abc import Callable
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

INT8_MAX = 127
UINT8_ZERO = 128  # MatMulNBits stores 8-bit values unsigned, with this implied zero point

Int8 = NDArray[np.int8]
Float32 = NDArray[np.float32]


class Precision(Enum):
    """How one weight matrix is stored and multiplied."""

    FLOAT32 = "float32"
    WEIGHT_INT8 = "weights int8 per column, unpacked to float32 at load"
    TENSOR_INT8 = "dynamic int8 per tensor"
    """One scale for the matrix, one for the activations of a run."""
    COLUMN_INT8 = "dynamic int8 per column"
    """A scale for each output, one for the activations of a run."""
    BLOCK_INT8 = "dynamic int8 per block"
    """A scale for each block of inputs of each output, and of each token's activations."""


def _quantize(array: Float32, axis: int | None) -> tuple[Int8, Float32]:
    scales = np.abs(array).max(axis=axis, keepdims=True) / INT8_MAX
    scales = np.where(scales > 0, scales, 1).astype(np.float32)
    return np.rint(array / scales).astype(np.int8), scales


def per_tensor(matrix: Float32) -> tuple[Int8, Float32]:
    """Quantize with one scale; scales has shape ()."""
    values, scales = _quantize(matrix, None)
    return values, scales.reshape(())


def per_column(matrix: Float32) -> tuple[Int8, Float32]:
    """Quantize (inputs, outputs) with a scale for each output; scales has shape (outputs,)."""
    values, scales = _quantize(matrix, 0)
    return values, scales[0]


def per_row(matrix: Float32) -> tuple[Int8, Float32]:
    """Quantize (rows, columns) with a scale for each row; scales has shape (rows, 1)."""
    return _quantize(matrix, 1)


def per_block(matrix: Float32, block: int) -> tuple[NDArray[np.uint8], Float32]:
    """Quantize (inputs, outputs) with a scale for each `block` inputs of each output.

    Returns
    -------
    values : uint8, shape (outputs, inputs / block, block)
        Offset by 128.
    scales : float32, shape (outputs, inputs / block)
    """
    inputs, outputs = matrix.shape
    assert inputs % block == 0, f"{inputs} inputs do not divide into blocks of {block}"
    values, scales = _quantize(matrix.T.reshape(outputs, inputs // block, block), 2)
    return (values.astype(np.int16) + UINT8_ZERO).astype(np.uint8), scales[..., 0]


QUANTIZERS: dict[Precision, Callable[[Float32, int], tuple[NDArray[Any], Float32]]] = {
    Precision.WEIGHT_INT8: lambda matrix, _: per_column(matrix),
    Precision.TENSOR_INT8: lambda matrix, _: per_tensor(matrix),
    Precision.COLUMN_INT8: lambda matrix, _: per_column(matrix),
    Precision.BLOCK_INT8: per_block,
}
