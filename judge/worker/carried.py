"""Finds out whether a model's output depends on its earlier calls, as with a running maximum."""

import copy
from typing import Any

import torch

from judge.worker.outputs import agree, flatten
from judge.worker.problem import state
from judge.worker.seeds import seed_everything

_SEED = 1


def find_carried_state(used_model: Any, model: Any, inputs: list[Any]) -> list[str]:
    """Names of what a call changed in a model, if the outputs of the next call depend on it.

    Parameters
    ----------
    used_model
        A copy of the model that was called once; it stays as it is.
    model
        The model itself, which stays as it is.
    inputs
        Those of the first call. The next call gets half of each floating-point value: with the
        same values, a running maximum would not change again.

    Raises
    ------
    torch.OutOfMemoryError
        There is no memory for two more calls.
    """
    old = dict(state(model))
    names = [name for name, value in state(used_model) if not _same(old.get(name), value)]
    if not names:
        return []
    halved = [
        value * 0.5 if isinstance(value, torch.Tensor) and value.is_floating_point() else value
        for value in inputs
    ]
    first, second = (_outputs(copy.deepcopy(model), halved) for _ in range(2))
    if not _all_same(first, second):
        return []  # random: nothing can be told
    try:
        after_call = _outputs(copy.deepcopy(used_model), halved)
    except torch.OutOfMemoryError:
        raise
    except Exception:
        return names  # such as a cache that is full
    return [] if _all_same(first, after_call) else names


def _outputs(model: Any, inputs: list[Any]) -> list[Any]:
    seed_everything(_SEED)
    copies = [input_.clone() if isinstance(input_, torch.Tensor) else input_ for input_ in inputs]
    return [output.clone() for output in flatten(model(*copies))]


def _all_same(first: list[Any], second: list[Any]) -> bool:
    return len(first) == len(second) and all(map(_same, first, second))


def _same(left: Any, right: Any) -> bool:
    if not (isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor)):
        return bool(type(left) is type(right) and left == right)
    if left.is_floating_point():
        return agree(left, right)
    return bool(left.dtype == right.dtype and torch.equal(left, right))
