"""Floating-point operations of one forward pass, counted on fake tensors: nothing is computed."""

import collections
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode, flop_registry

from judge.worker.buffers import dtype_name
from judge.worker.messages import Operations
from judge.worker.problem import LoadedProblem


def count(problem: LoadedProblem, seed: int) -> Operations:
    """Count the operations of the problem's model on inputs as `get_inputs` makes them.

    Matrix products, convolutions and attention have formulas (torch.utils.flop_counter, two
    operations for a multiplication and an addition); what has none is not counted.
    """
    by_dtype: dict[str, float] = collections.defaultdict(float)

    def recording(formula: Callable[..., Any]) -> Callable[..., Any]:
        def record(*args: Any, out_val: Any = None, **kwargs: Any) -> Any:
            flops = formula(*args, out_val=out_val, **kwargs)
            first = next((arg for arg in args if isinstance(arg, torch.Tensor)), out_val)
            by_dtype[dtype_name(getattr(first, "dtype", "unknown"))] += flops
            return flops

        record._get_raw = True  # type: ignore[attr-defined]
        return record

    formulas = {operator: recording(formula) for operator, formula in flop_registry.items()}
    with FakeTensorMode(allow_non_fake_inputs=True) as mode, torch.no_grad():
        inputs = [
            mode.from_tensor(value)
            if isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor)
            else value
            for value in problem.inputs(seed)
        ]
        with FlopCounterMode(display=False, custom_mapping=formulas) as counter:
            problem.model(*inputs)
    return Operations(flops=float(counter.get_total_flops()), by_dtype=dict(by_dtype))
