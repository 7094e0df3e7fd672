"""Compare outputs with the oracle's, in chunks: tensors of 2³¹ elements need no copies."""

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeVar

import torch

from judge.evaluate.result import Counterexample
from judge.evaluate.tolerance import Bounds, real_dtype
from judge.worker.buffers import dtype_name

T = TypeVar("T")

# 2²³ elements are 64 MB in float64; about ten such temporaries are alive at a time.
_CHUNK = 2**23
# Outputs on a GPU from this size on are first read in one pass (`compare_kernels`); smaller ones
# are not worth its compilation.
_LARGE = 2**24
_EXAMPLES = 5
_EXACT_ONLY = Bounds(0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Expected:
    """One output of the oracle, with what every comparison with it needs."""

    values: Any
    """The oracle's tensor: float64 or float32 where floating-point, contiguous."""
    dtype: Any
    """The torch dtype that the output has."""
    norm: float
    """‖values‖₂ over the finite elements, or their sensitivity if that is more."""
    rms: float
    """The same divided by the root of their number."""
    representable: bool
    """Whether every value exists in `dtype`, so that nothing has to be rounded. False where the
    oracle's values have no wider format than the output: they may be rounded themselves."""

    @property
    def exact(self) -> bool:
        """Whether the dtype has no roundings at all: integers and booleans."""
        return not (self.dtype.is_floating_point or self.dtype.is_complex)


@dataclass(frozen=True, slots=True)
class Difference:
    """What one comparison found."""

    problem: str | None
    """None where the output is right."""
    max_abs: float = 0.0
    """max|got − expected|; infinite where one is not finite and the other is."""
    max_rel: float = 0.0
    """max |got − expected| / (|expected| + rms(expected))."""
    norm_ratio: float = 0.0
    """‖got − expected‖₂ / ‖expected‖₂."""
    unequal: int = 0
    """Elements that are not equal to the oracle rounded to the dtype (−0 equals 0)."""
    examples: tuple[Counterexample, ...] = ()
    """The first few elements that are wrong."""


def expect(values: Any, dtype: Any, sensitivity: float = 0.0) -> Expected:
    """Statistics of one output of the oracle.

    Parameters
    ----------
    values:
        Tensor of any shape; float64 or float32 (complex128, complex64) for floating-point
        outputs, otherwise integers or booleans.
    dtype:
        The torch dtype that eager's output has.
    sensitivity:
        ‖change of the values‖₂ per relative change of the inputs (each by itself, at random).
        A sum may cancel by chance, but its rounding errors still have the size of its terms.
        Over many outputs this averages out; over few it has to be known.
    """
    if not (dtype.is_floating_point or dtype.is_complex):
        return Expected(values, dtype, 0.0, 0.0, representable=True)
    largest = float(torch.finfo(real_dtype(dtype)).max)
    sums = _in_one_pass(values, dtype, lambda kernels: kernels.sum_squares(values, dtype, largest))
    squares, count, rounded = sums or _sum_squares(values, dtype, largest)
    norm = max(math.sqrt(squares), sensitivity)
    rms = norm / math.sqrt(count) if count else 0.0
    wider = values.dtype.itemsize > dtype.itemsize
    return Expected(values, dtype, norm, rms, representable=wider and not rounded)


def _sum_squares(values: Any, dtype: Any, largest: float) -> tuple[float, int, int]:
    """See `compare_kernels.sum_squares`."""
    squares = torch.zeros((), dtype=torch.float64, device=values.device)
    count = torch.zeros((), dtype=torch.int64, device=values.device)
    rounded = torch.zeros((), dtype=torch.int64, device=values.device)
    for _, chunk in _chunks(values):
        wide = chunk.double()
        finite = torch.isfinite(wide)
        # What overflows in the dtype counts as its largest number, as in the comparison.
        squares += torch.where(finite, wide.clamp(-largest, largest), 0.0).square().sum()
        count += finite.sum()
        rounded += _differ(wide.to(real_dtype(dtype)).double(), wide).sum()
    return float(squares), int(count), int(rounded)


def _in_one_pass(values: Any, dtype: Any, compute: Callable[[ModuleType], T]) -> T | None:
    """What `compare_kernels` answers; None where it cannot, or tensors are not worth it."""
    if values.device.type != "cuda" or values.numel() < _LARGE:
        return None
    # Triton may be missing, or unable to compile.
    with contextlib.suppress(Exception):
        from judge.evaluate import compare_kernels  # noqa: PLC0415

        if compare_kernels.fits(values, dtype):
            return compute(compare_kernels)
    return None


def compare(got: Any, expected: Expected, limits: Bounds | None, output: int = 0) -> Difference:
    """Compare one output with the oracle's.

    NaN and infinities must be exactly where the oracle has them; a finite value of the oracle
    beyond the dtype's range may come out as infinity.

    Parameters
    ----------
    got:
        Contiguous tensor on the device of `expected.values`.
    limits:
        Bounds; None demands equality with the oracle rounded to the dtype (booleans always).
        Of integers `worst` bounds their differences, and `norm` the share that differs.
    output:
        The output's number, for the counterexamples.
    """
    if tuple(got.shape) != tuple(expected.values.shape):
        return _mismatch(f"shape {list(got.shape)} instead of {list(expected.values.shape)}")
    if got.dtype != expected.dtype:
        return _mismatch(f"dtype {dtype_name(got.dtype)} instead of {dtype_name(expected.dtype)}")
    if expected.exact:
        return _compare_exact(got, expected, limits or _EXACT_ONLY, output)
    comparison = _Comparison(expected, limits, output)
    sums = _in_one_pass(
        expected.values,
        expected.dtype,
        lambda kernels: kernels.difference(got, expected.values, **comparison.measures),
    )
    if sums is not None and (result := comparison.result(_Sums(*sums))).problem is None:
        return result  # what is wrong is looked at again, for examples
    for (start, left), (_, right) in zip(_chunks(got), _chunks(expected.values), strict=True):
        comparison.add(start, left, right)
    return comparison.result(comparison.sums)


def distance(first: Sequence[Any], second: Sequence[Any]) -> float:
    """The largest ‖one − other‖₂ / ‖one‖₂ of two calls' outputs, over the finite elements."""
    largest = 0.0
    for left, right in zip(first, second, strict=True):
        squares = norm = 0.0
        for (_, a), (_, b) in zip(_chunks(left), _chunks(right), strict=True):
            wide, again = a.double(), b.double()
            finite = torch.isfinite(wide) & torch.isfinite(again)
            squares += float(torch.where(finite, wide - again, 0.0).square().sum())
            norm += float(torch.where(finite, wide, 0.0).square().sum())
        largest = max(largest, math.sqrt(squares / norm) if norm else math.sqrt(squares))
    return largest


@dataclass(slots=True)
class _Sums:
    """What `compare_kernels.difference` answers."""

    squares: float = 0.0
    largest: float = 0.0
    worst: float = 0.0
    unequal: int = 0
    not_finite: int = 0
    bad: int = 0


class _Comparison:
    """Accumulates a comparison chunk by chunk."""

    def __init__(self, expected: Expected, limits: Bounds | None, output: int) -> None:
        self.sums = _Sums()
        self._expected, self._output, self._exact = expected, output, limits is None
        self._limits = limits or _EXACT_ONLY
        self._format = real_dtype(expected.dtype)
        self.measures = {
            "absolute": self._limits.absolute,
            "rms": expected.rms,
            "allowed": self._limits.worst,
            "largest": float(torch.finfo(self._format).max),
        }
        """What `compare_kernels.difference` has to know."""
        self._furthest = -1.0
        self._furthest_example: list[Counterexample] = []
        self._examples: list[Counterexample] = []

    def add(self, start: int, got: Any, values: Any) -> None:
        """Compare one chunk, which begins at flat index `start`."""
        sums, largest = self.sums, self.measures["largest"]
        left, right = got.double(), values.double()
        finite = torch.isfinite(right)
        unlike = torch.where(finite, torch.isnan(left), _differ(left, right))
        usable = finite & ~unlike
        within = right.clamp(-largest, largest)
        error = torch.where(usable, (left.clamp(-largest, largest) - within).abs(), 0.0)
        counting = (error - self._limits.absolute).clamp(min=0.0)
        # Where the oracle is zero throughout, any difference at all is infinitely large.
        scaled = torch.where(counting > 0, counting / (within.abs() + self._expected.rms), 0.0)
        sums.squares += float(counting.square().sum())
        sums.largest = max(sums.largest, float(error.max()))
        sums.worst = max(sums.worst, float(scaled.nan_to_num(nan=0.0, posinf=math.inf).max()))
        unequal = _differ(left, right.to(self._format).double())
        bad = unequal if self._exact else unlike | (usable & (scaled > self._limits.worst))
        sums.unequal += int(unequal.sum())
        sums.not_finite += int(unlike.sum())
        count = int(bad.sum())
        sums.bad += count
        if count and len(self._examples) < _EXAMPLES:
            places = bad.nonzero().flatten()[: _EXAMPLES - len(self._examples)].tolist()
            self._examples += [self._example(start, place, left, right) for place in places]
        top, at = counting.max(dim=0)
        if float(top) > self._furthest:
            self._furthest = float(top)
            self._furthest_example = [self._example(start, int(at), left, right)]

    def _example(self, start: int, coordinate: int, left: Any, right: Any) -> Counterexample:
        pair = float(left[coordinate]), float(right[coordinate])
        return _example(self._expected, self._output, start + coordinate, *pair)

    def result(self, sums: _Sums) -> Difference:
        """What sums over all elements say, with the examples so far."""
        error, norm = math.sqrt(sums.squares), self._expected.norm
        ratio = error / norm if norm else (math.inf if error else 0.0)
        problem = self._problem(sums, ratio)
        unlike = math.inf if sums.not_finite else 0.0
        return Difference(
            problem,
            sums.largest + unlike,
            sums.worst + unlike,
            ratio + unlike,
            sums.unequal,
            tuple(self._examples or self._furthest_example) if problem else (),
        )

    def _problem(self, sums: _Sums, ratio: float) -> str | None:
        total = self._expected.values.numel()
        if sums.not_finite:
            return (
                f"{sums.not_finite} of {total} elements are NaN, infinite or unwritten where the "
                "oracle is finite, or the reverse"
            )
        if self._exact:
            if not sums.unequal:
                return None
            return f"{sums.unequal} of {total} elements differ, although no rounding is needed"
        if sums.bad:
            return (
                f"{sums.bad} of {total} elements have errors of up to {sums.worst:.2g} of their "
                f"size (allowed {self._limits.worst:.2g})"
            )
        if ratio > self._limits.norm:
            return f"relative error of the norm {ratio:.2g} (allowed {self._limits.norm:.2g})"
        return None


def _compare_exact(got: Any, expected: Expected, limits: Bounds, output: int) -> Difference:
    """Integers and booleans: equal, or integers that were rounded from what is nearly equal."""
    unequal = 0
    largest = 0.0
    examples: list[Counterexample] = []
    for (start, left), (_, values) in zip(_chunks(got), _chunks(expected.values), strict=True):
        right = values.to(expected.dtype)
        differ = left != right
        count = int(differ.sum())
        if not count:
            continue
        unequal += count
        largest = max(largest, float(_code_distance(left, right).max()))
        for place in differ.nonzero().flatten()[: _EXAMPLES - len(examples)].tolist():
            pair = float(left[place]), float(right[place])
            examples.append(_example(expected, output, start + place, *pair))
    if not unequal:
        return Difference(None)
    total, name = expected.values.numel(), dtype_name(expected.dtype)
    allowed = 0 if expected.dtype == torch.bool else math.floor(limits.norm * total)
    if unequal <= allowed and largest <= limits.worst:
        return Difference(None, largest, unequal=unequal)
    problem = f"{unequal} of {total} elements differ; {name} must be equal"
    if allowed:
        problem = f"{unequal} of {total} elements differ, by up to {largest:.0f}"
        problem += f" (allowed: {allowed}, by {limits.worst:.0f}: roundings that eager has as well)"
    return Difference(problem, largest, math.inf, math.inf, unequal, tuple(examples))


def _code_distance(left: Any, right: Any) -> Any:
    """How far apart integers are; of bytes that may be two codes, the larger of both distances, if
    that is less."""
    distance = (left.double() - right.double()).abs()
    if left.dtype != torch.uint8:
        return distance
    codes = [((left >> shift) & 15, (right >> shift) & 15) for shift in (0, 4)]
    packed = [(a.double() - b.double()).abs() for a, b in codes]
    return torch.minimum(distance, torch.maximum(*packed))


def _mismatch(problem: str) -> Difference:
    return Difference(problem, math.inf, math.inf, math.inf, 1)


def _differ(left: Any, right: Any) -> Any:
    """Where two float64 tensors differ; NaN equals NaN, −0 equals 0."""
    return (left != right) & ~(torch.isnan(left) & torch.isnan(right))


def _example(
    expected: Expected, output: int, flat: int, got: float, value: float
) -> Counterexample:
    # Complex numbers are compared as pairs of reals, which is one dimension more.
    shape = [*expected.values.shape, *([2] if expected.dtype.is_complex else [])]
    index: list[int] = []
    for size in reversed(shape):
        flat, coordinate = divmod(flat, size)
        index.append(coordinate)
    return Counterexample(output=output, index=tuple(reversed(index)), got=got, expected=value)


def _chunks(tensor: Any) -> Iterator[tuple[int, Any]]:
    """Flat pieces with their starts; complex numbers as pairs of reals."""
    flat = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    flat = flat.reshape(-1)
    for start in range(0, flat.numel(), _CHUNK):
        yield start, flat[start : start + _CHUNK]
