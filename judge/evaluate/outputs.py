"""Compares outputs with those of eager, of the previous call, and of the oracle."""

from collections.abc import Sequence
from typing import Any

import torch

from judge.evaluate.compare import Expected
from judge.worker import messages as m

# Elements of an output that are kept to recognise it when the next call returns it again.
_REMEMBERED = 1 << 16


def describe_mismatch(
    got: Sequence[m.OutputSpec], expected: Sequence[m.TensorSpec], device: str
) -> str | None:
    """How the outputs' number, shapes, dtypes or device differ from eager's."""
    if len(got) != len(expected):
        return f"it returns {len(got)} outputs instead of {len(expected)}"
    for number, (output, reference) in enumerate(zip(got, expected, strict=True)):
        which = f"output {number} has" if len(expected) > 1 else "its output has"
        if output.shape != reference.shape:
            return f"{which} shape {list(output.shape)} instead of {list(reference.shape)}"
        if output.dtype != reference.dtype:
            return f"{which} dtype {output.dtype} instead of {reference.dtype}"
        if output.device.partition(":")[0] != device.partition(":")[0]:
            return f"{which} device {output.device} instead of {device}"
    return None


def sample(tensor: Any) -> Any:
    """Bytes of up to `_REMEMBERED` elements, evenly spread."""
    flat = tensor.reshape(-1)
    step = max(1, flat.numel() // _REMEMBERED)
    return flat[::step].contiguous().view(torch.uint8)


def describe_constant(got: Sequence[Any], expected: Sequence[Expected | None]) -> str | None:
    """Whether all outputs are constant where the oracle's are not."""
    for tensor, reference in zip(got, expected, strict=True):
        if reference is None or tensor.numel() < 2:
            return None
        values, target = _spread(tensor), _spread(reference.values)
        if bool((values != values[0]).any()) or not bool((target != target[0]).any()):
            return None
    return "the output is constant"


def _spread(tensor: Any) -> Any:
    """Up to twice `_REMEMBERED` elements as doubles: 8-bit formats cannot be compared as such."""
    flat = (torch.view_as_real(tensor) if tensor.is_complex() else tensor).reshape(-1)
    return flat[:: max(1, flat.numel() // _REMEMBERED)].double()


def why_undefined(
    kind: m.ValueKind, outputs: Sequence[m.TensorSpec], oracle: Sequence[Any], values: Any
) -> str | None:
    """Why there is nothing to compare eager's outputs with."""
    compared = [tensor for tensor in oracle if tensor is not None]
    shapes = [tuple(output.shape) for output in outputs]
    for tensor, shape in zip(oracle, shapes, strict=False):
        if tensor is not None and tuple(tensor.shape) != shape:
            return f"the oracle's shape {list(tensor.shape)} is not eager's {list(shape)}"
    if len(oracle) != len(shapes):
        return f"the oracle has {len(oracle)} outputs, eager {len(shapes)}"
    if values is not None and _has_nan(values):
        return "some of the values to be quantized are NaN"
    if kind is m.ValueKind.INF and any(_has_nan(tensor) for tensor in compared):
        return "not defined for infinite values: the oracle is NaN somewhere"
    return None


def _has_nan(tensor: Any) -> bool:
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return False
    parts = tensor.reshape(-1).split(1 << 24)
    if tensor.element_size() == 1:  # 8-bit formats cannot be asked themselves
        parts = (part.float() for part in parts)
    return any(bool(torch.isnan(part).any()) for part in parts)
