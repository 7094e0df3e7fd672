"""Finds out whether a model's output depends on its earlier calls, as with a running maximum."""

import copy
from typing import Any

import torch

from judge.worker.outputs import flatten
from judge.worker.problem import state
from judge.worker.seeds import seed_everything

# Sums on a GPU may be taken in another order each time, here in float64 or float32.
_RTOL = {torch.float64: 1e-9, torch.float32: 1e-4}
_SEED = 1


def carried(called: Any, model: Any, inputs: list[Any]) -> list[str]:
    """Names of what a call changed in a model, if the outputs of the next call depend on it.

    Parameters
    ----------
    called
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
    before = dict(state(model))
    changed = [name for name, value in state(called) if not _same(before.get(name), value)]
    if not changed:
        return []
    halved = [
        value * 0.5 if isinstance(value, torch.Tensor) and value.is_floating_point() else value
        for value in inputs
    ]
    fresh, again = (_outputs(copy.deepcopy(model), halved) for _ in range(2))
    if not _all_same(fresh, again):
        return []  # random: nothing can be told
    try:
        later = _outputs(copy.deepcopy(called), halved)
    except torch.OutOfMemoryError:
        raise
    except Exception:
        return changed  # such as a cache that is full
    return [] if _all_same(fresh, later) else changed


def _outputs(model: Any, inputs: list[Any]) -> list[Any]:
    seed_everything(_SEED)
    given = [input_.clone() if isinstance(input_, torch.Tensor) else input_ for input_ in inputs]
    return [each.clone() for each in flatten(model(*given))]


def _all_same(ones: list[Any], others: list[Any]) -> bool:
    return len(ones) == len(others) and all(map(_same, ones, others))


def _same(one: Any, other: Any) -> bool:
    if not (isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)):
        return bool(type(one) is type(other) and one == other)
    if (one.shape, one.dtype) != (other.shape, other.dtype):
        return False
    rtol = _RTOL.get(one.dtype, 0.0)
    scale = float(one.abs().nan_to_num(0.0, 0.0, 0.0).amax()) if rtol and one.numel() else 0.0
    return bool(torch.allclose(one, other, rtol=rtol, atol=rtol * scale, equal_nan=True))
