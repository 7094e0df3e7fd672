"""Floating-point operations of one forward pass, counted on fake tensors: nothing is computed."""

import collections
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode, flop_registry

from judge.worker.buffers import dtype_name
from judge.worker.messages import Operations
from judge.worker.observe import compute_only
from judge.worker.problem import LoadedProblem


def count(problem: LoadedProblem, seed: int) -> Operations:
    """Count the operations of the problem's model on inputs as `get_inputs` makes them.

    Matrix products, convolutions and attention have formulas (torch.utils.flop_counter, two
    operations for a multiplication and an addition); what has none is listed as uncounted.
    """
    by_operator: dict[str, float] = collections.defaultdict(float)
    by_dtype: dict[str, float] = collections.defaultdict(float)

    def recording(operator: Any, formula: Callable[..., Any]) -> Callable[..., Any]:
        def record(*args: Any, out_val: Any = None, **kwargs: Any) -> Any:
            flops = formula(*args, out_val=out_val, **kwargs)
            first = next((arg for arg in args if isinstance(arg, torch.Tensor)), out_val)
            by_operator[str(operator)] += flops
            by_dtype[dtype_name(getattr(first, "dtype", "unknown"))] += flops
            return flops

        record._get_raw = True  # type: ignore[attr-defined]
        return record

    formulas = {each: recording(each, formula) for each, formula in flop_registry.items()}
    uncounted = _Uncounted()
    with FakeTensorMode(allow_non_fake_inputs=True) as mode, torch.no_grad():
        inputs = [
            mode.from_tensor(value)
            if isinstance(value, torch.Tensor) and not _is_fake(value)
            else value
            for value in problem.inputs(seed)
        ]
        with FlopCounterMode(display=False, custom_mapping=formulas) as counter, uncounted:
            problem.model(*inputs)
    return Operations(
        flops=float(counter.get_total_flops()),
        by_operator=dict(by_operator),
        by_dtype=dict(by_dtype),
        uncounted=compute_only(uncounted.counts),
    )


def _is_fake(tensor: Any) -> bool:
    return bool(torch._subclasses.fake_tensor.is_fake(tensor))


class _Uncounted(TorchDispatchMode):  # type: ignore[misc]
    """Counts calls of operators that have no formula."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: dict[str, int] = collections.Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func.overloadpacket not in flop_registry:
            self.counts[str(func.name()).partition(".")[0]] += 1
        return func(*args, **(kwargs or {}))
