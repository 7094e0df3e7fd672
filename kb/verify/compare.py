"""Compare a kernel's output with its reference: structure, finiteness, norm-wise and worst error.

Imports torch: only the checking process and the benchmarks load this module.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far an output may be from its reference."""

    norm: float
    """Bound on ‖actual − expected‖₂ / ‖expected‖₂."""
    worst: float
    """Bound on max|actual − expected| / max|expected|."""


# Both sides round their result once, and may sum in another order or round an intermediate: the
# norm-wise bounds are 2-3 units of the format's spacing (2⁻⁷ for bfloat16, 2⁻¹⁰ for float16,
# 2⁻³ for E4M3, 2⁻² for E5M2), the worst-element bounds twice that or more. In float32 and
# float64 the order of sums over up to some thousand terms dominates: 100 times the spacing.
# Tensor cores in tf32 (spacing 2⁻¹⁰ on the operands) are compared as float16 is.
TOLERANCES = {
    torch.float64: Tolerance(2e-14, 2e-13),
    torch.float32: Tolerance(1e-5, 1e-4),
    torch.float16: Tolerance(2e-3, 4e-3),
    torch.bfloat16: Tolerance(1.5e-2, 3e-2),
    torch.float8_e4m3fn: Tolerance(6e-2, 0.125),
    torch.float8_e5m2: Tolerance(0.125, 0.25),
}
TF32_TOLERANCE = TOLERANCES[torch.float16]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a comparison found; `problem` is None when the outputs agree."""

    problem: str | None
    norm_error: float = 0.0
    """The largest ‖actual − expected‖₂ / ‖expected‖₂ over the outputs."""


def as_tuple(output: Any) -> tuple[torch.Tensor, ...]:
    """A kernel's output as a tuple of tensors.

    Raises
    ------
    TypeError
        If it is neither a tensor nor a tuple of tensors.
    """
    outputs = output if isinstance(output, tuple) else (output,)
    if not all(isinstance(item, torch.Tensor) for item in outputs):
        kinds = ", ".join(type(item).__name__ for item in outputs)
        raise TypeError(f"the output must be a tensor or a tuple of tensors, not {kinds}")
    return outputs


Agrees = Callable[[tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]], str | None]
"""A kernel file's own rule: (outputs, the reference's) to what is wrong, or None."""


def compare(
    actual: Any,
    expected: Any,
    tolerances: dict[torch.dtype, Tolerance] | None = None,
    agrees: Agrees | None = None,
) -> Comparison:
    """Compare outputs (a tensor or a tuple of tensors) one by one.

    Integer outputs must be equal; floating-point ones lie within `tolerances` (by the expected
    output's dtype, `TOLERANCES` when None), and are finite exactly where the reference is. Where
    there is `agrees`, it decides in place of the tolerances, after shapes and dtypes.
    """
    outputs, references = as_tuple(actual), as_tuple(expected)
    if len(outputs) != len(references):
        return Comparison(f"{len(outputs)} outputs where the reference has {len(references)}")
    worst = 0.0
    pairs = list(zip(outputs, references, strict=True))
    alike = all(a.shape == b.shape and a.dtype == b.dtype for a, b in pairs)
    # Nothing differs where there is nothing, and a rule need not say so.
    if agrees is not None and alike and any(reference.numel() for reference in references):
        return Comparison(agrees(outputs, references))
    for index, (output, reference) in enumerate(pairs):
        comparison = _compare_tensor(output, reference, tolerances or TOLERANCES)
        if comparison.problem is not None:
            where = f"output {index}: " if len(outputs) > 1 else ""
            return Comparison(where + comparison.problem, comparison.norm_error)
        worst = max(worst, comparison.norm_error)
    return Comparison(None, worst)


def _compare_tensor(
    actual: torch.Tensor, expected: torch.Tensor, tolerances: dict[torch.dtype, Tolerance]
) -> Comparison:
    if actual.shape != expected.shape:
        return Comparison(f"shape {tuple(actual.shape)} instead of {tuple(expected.shape)}")
    if actual.dtype != expected.dtype:
        return Comparison(f"dtype {actual.dtype} instead of {expected.dtype}")
    if expected.dtype not in tolerances:
        wrong = int((actual != expected).sum())
        return Comparison(
            f"{wrong} of {expected.numel()} elements differ, and {expected.dtype} must be equal"
            if wrong
            else None
        )
    left, right = actual.detach().double(), expected.detach().double().to(actual.device)
    finite = torch.isfinite(right)
    same = torch.where(torch.isnan(right), torch.isnan(left), left == right)
    unlike = int((~torch.where(finite, torch.isfinite(left), same)).sum())
    if unlike:
        return Comparison(
            f"{unlike} elements are not finite (or not written) where the reference is, "
            "or the other way round",
            math.inf,
        )
    return _compare_values(left[finite], right[finite], tolerances[expected.dtype])


def _compare_values(left: torch.Tensor, right: torch.Tensor, tolerance: Tolerance) -> Comparison:
    difference = left - right
    norm, largest = float(right.norm()), float(right.abs().max()) if right.numel() else 0.0
    distance = float(difference.norm())
    if norm == 0:
        return Comparison(None if distance == 0 else "not zero where the reference is", distance)
    norm_error = distance / norm
    worst = float(difference.abs().max()) / largest
    if norm_error > tolerance.norm or worst > tolerance.worst:
        return Comparison(
            f"wrong: relative error {norm_error:.2g} (allowed {tolerance.norm:.2g}), "
            f"worst element {worst:.2g} of the largest (allowed {tolerance.worst:.2g})",
            norm_error,
        )
    return Comparison(None, norm_error)


def lacks_power(expected: Any, agrees: Agrees | None = None) -> str | None:
    """Why the comparison cannot tell wrong outputs from `expected`, or None if it can.

    Each output in turn is replaced by zeros and by itself shifted by one element: both must be
    refused. Inputs whose reference is zero or constant would let any kernel pass.
    """
    references = as_tuple(expected)
    for index, reference in enumerate(references):
        wrong = {"zeros": torch.zeros_like(reference)}
        if reference.numel() > 1:
            wrong["shifted output"] = _raw(reference).flatten().roll(1).view(reference.dtype)
        for name, tensor in wrong.items():
            replaced = tensor.reshape(reference.shape)
            outputs = (*references[:index], replaced, *references[index + 1 :])
            if compare(outputs, references, agrees=agrees).problem is None:
                return f"{name} in place of output {index} would pass: choose other inputs"
    return None


def _raw(tensor: torch.Tensor) -> torch.Tensor:
    """8-bit floats as bytes: PyTorch does not move them about otherwise."""
    return tensor.view(torch.uint8) if tensor.dtype.itemsize == 1 else tensor
