"""Outputs of a call as a flat list of tensors.

Nothing that a candidate defines runs here: what it returns is looked at when its time has been
taken, and a list that computes in `__iter__`, or a tensor with an attribute `detach` of its own,
would do the work then. So containers and tensors are read by the methods of their built-in types.
"""

import math
from collections.abc import Iterator
from typing import Any, Final

import torch
from torch._subclasses.fake_tensor import FakeTensor

from judge.worker.buffers import spec_of
from judge.worker.messages import OutputSpec

_MAX_OUTPUTS: Final = 200
_DEPTH: Final = 10
# The oracle's outputs are described with fakes; one of a candidate has nothing to be copied.
_PLAIN: Final = (torch.Tensor, torch.nn.Parameter, FakeTensor)
_detach: Final = torch.Tensor.detach
# Two evaluations of the same sums in float64 in another order differ by far less; a result that
# depends on something else differs by far more.
_SAME_SUMS_RTOL: Final = 1e-9


class OutputError(Exception):
    """A call returned something that is not a dense tensor, or nothing."""


def flatten(returned: Any) -> list[Any]:
    """List the tensors in nested tuples, lists and dictionaries, in order; None is left out.

    Raises
    ------
    OutputError
        Something else is in there, or no tensor is.
    """
    tensors: list[Any] = []
    _collect(returned, tensors, _DEPTH)
    if not tensors:
        raise OutputError("it returned no tensor")
    if len(tensors) > _MAX_OUTPUTS:
        raise OutputError(f"it returned more than {_MAX_OUTPUTS} tensors")
    return tensors


def _collect(value: Any, tensors: list[Any], depth: int) -> None:
    kind = type(value)  # not isinstance, which believes what an object says of its class
    if issubclass(kind, torch.Tensor):
        if kind not in _PLAIN:
            # A subclass may compute when it is looked at, after the time was taken.
            raise OutputError(
                f"output {len(tensors)} is a {kind.__name__}, a subclass of torch.Tensor: "
                "return plain tensors"
            )
        if value.layout != torch.strided or value.is_nested:
            raise OutputError(f"output {len(tensors)} is not a dense tensor")
        tensors.append(_detach(value))
    elif (elements := _elements(value, kind)) is not None and depth:
        for element in elements:
            _collect(element, tensors, depth - 1)
    elif value is not None:
        raise OutputError(f"output {len(tensors)} is a {kind.__name__}, not a tensor")


def _elements(value: Any, kind: type) -> Iterator[Any] | None:
    """What a list, tuple or dictionary holds, whatever its own class makes of that."""
    if issubclass(kind, list):
        return list.__iter__(value)
    if issubclass(kind, tuple):
        return tuple.__iter__(value)
    return iter(dict.values(value)) if issubclass(kind, dict) else None


def output_specs(tensors: list[Any]) -> list[OutputSpec]:
    """Describe tensors and say where they are."""
    return [
        OutputSpec(
            **dict(spec_of(tensor)), device=str(tensor.device)[:20], overlaps=_overlaps(tensor)
        )
        for tensor in tensors
    ]


def _overlaps(tensor: Any) -> bool:
    """Whether elements must share memory: there are more than lie between first and last."""
    if tensor.numel() == 0:
        return False
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    return bool(tensor.numel() > 1 + sum((size - 1) * stride for size, stride in steps))


def agree(left: Any, right: Any) -> bool:
    """Whether two tensors have the same shape, dtype and values but for the order of sums."""
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    rtol = _SAME_SUMS_RTOL if right.dtype == torch.float64 else 1e-4
    scale = float(right.abs().amax()) if right.numel() and not right.is_complex() else 1.0
    atol = rtol * scale if math.isfinite(scale) else 0.0
    return bool(torch.allclose(left, right, rtol=rtol, atol=atol, equal_nan=True))
