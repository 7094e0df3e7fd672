"""Outputs of a call as a flat list of tensors."""

from typing import Any, Final

import torch
from torch._subclasses.fake_tensor import FakeTensor

from agent.worker.buffers import spec_of
from agent.worker.messages import OutputSpec, TensorSpec

_MAX_OUTPUTS: Final = 200
_DEPTH: Final = 10
# The oracle's outputs are described with fakes; one of a candidate has nothing to be copied.
_PLAIN: Final = (torch.Tensor, torch.nn.Parameter, FakeTensor)


class OutputError(Exception):
    """A call returned something that is no dense tensor, or nothing."""


def flatten(returned: Any) -> list[Any]:
    """List the tensors in nested tuples, lists and dictionaries, in order; None is left out.

    Raises
    ------
    OutputError
        Something else is in there, or no tensor is.
    """
    found: list[Any] = []
    _collect(returned, found, _DEPTH)
    if not found:
        raise OutputError("it returned no tensor")
    if len(found) > _MAX_OUTPUTS:
        raise OutputError(f"it returned more than {_MAX_OUTPUTS} tensors")
    return found


def _collect(value: Any, found: list[Any], depth: int) -> None:
    if isinstance(value, torch.Tensor):
        if type(value) not in _PLAIN:
            # A subclass may compute when it is looked at, after the time was taken.
            raise OutputError(
                f"output {len(found)} is a {type(value).__name__}, a subclass of torch.Tensor: "
                "return plain tensors"
            )
        if value.layout != torch.strided or value.is_nested:
            raise OutputError(f"output {len(found)} is no dense tensor")
        found.append(value.detach())
    elif isinstance(value, list | tuple) and depth:
        for each in value:
            _collect(each, found, depth - 1)
    elif isinstance(value, dict) and depth:
        for each in value.values():
            _collect(each, found, depth - 1)
    elif value is not None:
        raise OutputError(f"output {len(found)} is a {type(value).__name__}, not a tensor")


def specs(tensors: list[Any]) -> list[TensorSpec]:
    """Describe tensors."""
    return [spec_of(tensor) for tensor in tensors]


def output_specs(tensors: list[Any]) -> list[OutputSpec]:
    """Describe tensors and say where they are."""
    described = []
    for tensor in tensors:
        spec = spec_of(tensor)
        described.append(
            OutputSpec(shape=spec.shape, dtype=spec.dtype, device=str(tensor.device)[:20])
        )
    return described
