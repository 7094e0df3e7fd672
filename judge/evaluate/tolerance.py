"""How far a right answer may be from the oracle: by dtype, length of sums and eager's error."""

import math
from dataclasses import dataclass
from typing import Any

import torch

from judge.worker.messages import Precision
from kb.verify.compare import TF32_TOLERANCE, TOLERANCES, Tolerance

# `TOLERANCES` compare two rounded results; the oracle is not rounded, so half of it is left for
# the candidate: in bfloat16 and float16 about four roundings in a row, or sixteen independent
# ones (one has a norm-wise error of 1.7e-3 in bfloat16), which covers partial sums or
# intermediates kept in that format.
_SHARE = 0.5
# One rounding to 8 bits takes half of their bounds already.
_WHOLE = (torch.float8_e4m3fn, torch.float8_e5m2)
# Up to this many times `TOLERANCES` eager is what a format does to results that round every
# intermediate: deep models in bfloat16 reach twice the bound. More is disclosed.
_EAGER_FACTOR = 4.0
# A case counts as long as eager's result has this much to do with the exact one: where eager rounds
# every step of a long sum, a candidate is held to its error. Beyond, as with random numbers of the
# model's own, there is nothing to compare with.
_EAGER_NORM, _EAGER_WORST = 0.2, 1.0
# A candidate may err as much as eager does, and by chance of the order of sums somewhat more; the
# largest error of up to 10⁹ elements varies more than their norm.
NORM_OVER_EAGER, WORST_OVER_EAGER = 2.0, 3.0
# Integers that values were rounded to, as in quantization: where a value lies halfway, its last
# bit decides. In bfloat16 eager has a fifth of 8-bit codes off, by one or two.
_EAGER_CODES, _EAGER_STEPS = 0.5, 4.0
_CODES_OVER_EAGER, _MORE_CODES = 2.0, 8
# A dropped eighth of a sum is a hundred times the bounds of float32, and four times bfloat16's.
_LOOSER = 4.0
# Unit roundoff of float32, in which sums are accumulated.
_UNIT = 2.0**-24
# Longer sums are never added up by one thread in one chain; a larger bound would let TF32 pass.
_LONGEST_CHAIN = 2**20
# The largest of 10⁹ normally distributed errors is six standard deviations away.
_TAIL = 6.0


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds for one output."""

    norm: float
    """On ‖got − expected‖₂ / ‖expected‖₂."""
    worst: float
    """On |got − expected| / (|expected| + rms(expected)), for every element."""
    absolute: float
    """Differences up to this do not count: results that underflow may be flushed to zero."""

    def or_wider(self, other: "Bounds") -> "Bounds":
        """The wider of both, measure by measure."""
        return Bounds(
            max(self.norm, other.norm),
            max(self.worst, other.worst),
            max(self.absolute, other.absolute),
        )


def eager_limits(dtype: Any, precision: Precision = "ieee", *, terms: float = 1.0) -> Bounds:
    """Bounds within which eager must be for a case to count; parameters as for candidates."""
    base = usual_eager_limits(dtype, precision, terms=terms)
    return Bounds(max(base.norm, _EAGER_NORM), max(base.worst, _EAGER_WORST), base.absolute)


def usual_eager_limits(dtype: Any, precision: Precision = "ieee", *, terms: float = 1.0) -> Bounds:
    """Bounds beyond which eager is said to be off, and a candidate to be held to its error."""
    base = _base(dtype, precision)
    return Bounds(base.norm * _EAGER_FACTOR, base.worst * _EAGER_FACTOR, _absolute(dtype, terms))


def candidate_limits(
    dtype: Any,
    precision: Precision = "ieee",
    *,
    terms: float = 1.0,
    eager_norm: float = 0.0,
    eager_worst: float = 0.0,
) -> Bounds:
    """Bounds for a candidate.

    Parameters
    ----------
    precision:
        tf32 if float32 products were declared to be in TF32.
    terms:
        Length of the longest sum behind one output element.
    eager_norm, eager_worst:
        Eager's own errors in this case, in the measures of `Bounds`.

    Notes
    -----
    Adding n numbers of one sign in one chain has a relative error of about u·√n/3 (each addition
    errs by u·partial sum/√3 at random, and the partial sums grow linearly). Float64 results are
    accumulated in float64, so their bound does not depend on the length.
    """
    base = _base(dtype, precision)
    share = 1.0 if dtype in _WHOLE or (dtype, precision) == (torch.float32, "tf32") else _SHARE
    chain = min(max(terms, 1.0), _LONGEST_CHAIN)
    unit = 2.0**-53 if dtype is torch.float64 else _UNIT
    accumulated = unit * math.sqrt(chain) / 3
    return Bounds(
        max(base.norm * share + accumulated, NORM_OVER_EAGER * eager_norm),
        max(base.worst * share + _TAIL * accumulated, WORST_OVER_EAGER * eager_worst),
        _absolute(dtype, terms),
    )


def integer_limits(total: int, eager: tuple[int, float] | None = None) -> Bounds:
    """Bounds for integers that may have been rounded from what is nearly the same: `norm` is the
    share that may differ, `worst` by how much.

    Parameters
    ----------
    total
        How many there are.
    eager
        How many of eager's differ, and by how much; None: bounds for eager itself.
    """
    if eager is None:
        return Bounds(_EAGER_CODES, _EAGER_STEPS, 0.0)
    count, steps = eager
    share = (_CODES_OVER_EAGER * count + _MORE_CODES) / max(total, 1)
    return Bounds(min(share, 1.0), max(steps, 1.0), 0.0)


def loosen(limits: Bounds | None) -> Bounds | None:
    """Bounds on values that were made to tell mistakes, for the candidate and for mistakes alike.

    On such values results may cancel (the divergence of two distributions that are nearly the
    same), and the error of two right orders of sums differs by more than on a problem's own.
    """
    if limits is None:
        return None
    return Bounds(limits.norm * _LOOSER, limits.worst * _LOOSER, limits.absolute)


def looks_like_tf32(dtype: Any, precision: Precision, norm_ratio: float) -> bool:
    """Whether a refused float32 result is as far off as products in TF32 or half precision are."""
    return (
        dtype is torch.float32 and precision == "ieee" and 5e-5 < norm_ratio <= TF32_TOLERANCE.norm
    )


def _base(dtype: Any, precision: Precision) -> Tolerance:
    if dtype is torch.float32 and precision == "tf32":
        return TF32_TOLERANCE
    # Formats without an entry (8 bits, two or three of mantissa) are taken as the coarsest one.
    return TOLERANCES.get(real_dtype(dtype), TOLERANCES[torch.float8_e5m2])


def real_dtype(dtype: Any) -> Any:
    """The dtype of a complex dtype's parts; any other as it is."""
    return {torch.complex64: torch.float32, torch.complex128: torch.float64}.get(dtype, dtype)


def _absolute(dtype: Any, terms: float) -> float:
    """What may be lost to underflow.

    GPUs may flush subnormal float32 terms of a sum to zero, each of them; a float16 result keeps
    its own subnormals and is rounded to them.
    """
    if dtype in (torch.float64, torch.complex128):
        return float(torch.finfo(torch.float64).smallest_normal) * max(terms, 1.0)
    info = torch.finfo(real_dtype(dtype))
    flushed = float(torch.finfo(torch.float32).smallest_normal) * max(terms, 1.0)
    return max(flushed, float(info.smallest_normal) * float(info.eps))
