"""Wrong variants of the oracle's inputs and parameters, to prove that the judge sees them."""

import contextlib
from collections.abc import Iterator
from typing import Any, Final

import torch

from judge.worker.messages import Mutation
from judge.worker.seeds import generator

# A truncated reduction loses this part of a dimension.
_TRUNCATED: Final = 8
# Taps of a window of 3 in three dimensions: one lost tap is one of 27 elements.
_TAPS: Final = 27


class MutationError(Exception):
    """The mutation does not apply to this problem."""


def mutated_inputs(inputs: list[Any], mutation: Mutation | None) -> list[Any]:
    """Return the inputs with the mutated one replaced by a changed copy.

    Raises
    ------
    MutationError
        There is no such input, or it is no floating-point tensor of that many dimensions.
    """
    if mutation is None or mutation.name == "tap":
        return inputs
    index = mutation.index
    if index >= len(inputs) or not isinstance(inputs[index], torch.Tensor):
        raise MutationError(f"input {index} is no tensor")
    mutated = inputs[index].clone()
    if not mutated.is_floating_point() or mutated.numel() == 0:
        raise MutationError(f"input {index} is no floating-point tensor with elements")
    if mutation.name == "truncate":
        if not -mutated.dim() <= mutation.dim < mutated.dim():
            raise MutationError(f"input {index} has no dimension {mutation.dim}")
        size = mutated.shape[mutation.dim]
        tail = max(1, size // _TRUNCATED)
        mutated.narrow(mutation.dim, size - tail, tail).zero_()
    else:
        random = generator(mutated.device, mutation.seed, index)
        flat = mutated.view(-1)
        # In parts: a mask of random numbers beside 2^31 elements would take 8 GB.
        for part in flat.split(1 << 26):
            mask = torch.randint(_TAPS, part.shape, generator=random, device=part.device) == 0
            part.masked_fill_(mask, 0.0)
    return [*inputs[:index], mutated, *inputs[index + 1 :]]


@contextlib.contextmanager
def mutated_model(model: Any, mutation: Mutation | None) -> Iterator[None]:
    """Zero one spatial tap of a parameter meanwhile, for mutation "tap".

    Raises
    ------
    MutationError
        There is no such parameter, or it has no spatial dimensions (those after the second).
    """
    if mutation is None or mutation.name != "tap":
        yield
        return
    parameters = dict(model.named_parameters()) | dict(model.named_buffers())
    tensor = parameters.get(mutation.parameter)
    if tensor is None or tensor.dim() < 3:
        raise MutationError(f"{mutation.parameter!r} is no parameter with spatial dimensions")
    tap = (slice(None), slice(None), *([0] * (tensor.dim() - 2)))
    data = tensor.detach()
    original = data[tap].clone()
    data[tap] = 0
    try:
        yield
    finally:
        data[tap] = original
