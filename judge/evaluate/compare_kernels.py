"""What `judge.evaluate.compare` adds up of large outputs, in one pass over memory.

The same in PyTorch's operators writes some twenty intermediates of float64: 0.27 s for 1.6·10⁹
elements of bfloat16 on an H200, many times in an evaluation.
"""

from typing import Any, Final

import torch
import triton
import triton.language as tl

# Four elements a thread at a time, and some hundred thousand programs at most.
_BLOCK: Final = 1024
_STEPS: Final = 16
_FORMATS: Final = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _rounded(wide, like):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    # By way of float32, as PyTorch converts.
    if like.dtype.element_ty == tl.float64:
        return wide
    else:  # noqa: RET505 (what is compiled has one branch)
        return wide.to(tl.float32).to(like.dtype.element_ty).to(tl.float64)


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _differ(left, right):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    return (left != right) & ((left == left) | (right == right))  # noqa: PLR0124 (not NaN)


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _difference_kernel(  # type: ignore[no-untyped-def] # noqa: ANN202, PLR0917
    got, values, bounds, partials, size,  # noqa: ANN001
    BLOCK: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    absolute, rms = tl.load(bounds), tl.load(bounds + 1)
    allowed, largest = tl.load(bounds + 2), tl.load(bounds + 3)
    squares = tl.zeros((BLOCK,), dtype=tl.float64)
    furthest = tl.zeros((BLOCK,), dtype=tl.float64)
    worst = tl.zeros((BLOCK,), dtype=tl.float64)
    unequal = tl.zeros((BLOCK,), dtype=tl.int32)
    unlikes = tl.zeros((BLOCK,), dtype=tl.int32)
    bad = tl.zeros((BLOCK,), dtype=tl.int32)
    first = tl.program_id(0).to(tl.int64) * (BLOCK * STEPS)
    for step in range(STEPS):
        offsets = first + step * BLOCK + tl.arange(0, BLOCK)
        left = tl.load(got + offsets, mask=offsets < size, other=0.0).to(tl.float64)
        right = tl.load(values + offsets, mask=offsets < size, other=0.0).to(tl.float64)
        finite = tl.abs(right) < float("inf")
        unlike = tl.where(finite, left != left, _differ(left, right))  # noqa: PLR0124
        usable = finite & (unlike == 0)
        within = tl.minimum(tl.maximum(right, -largest), largest)
        error = tl.abs(tl.minimum(tl.maximum(left, -largest), largest) - within)
        error = tl.where(usable, error, 0.0)
        counting = tl.maximum(error - absolute, 0.0)
        # Infinite where the oracle is zero throughout.
        scaled = tl.where(counting > 0.0, counting / (tl.abs(within) + rms), 0.0)
        squares += counting * counting
        furthest = tl.maximum(furthest, error)
        worst = tl.maximum(worst, scaled)
        unequal += _differ(left, _rounded(right, got)).to(tl.int32)
        unlikes += unlike.to(tl.int32)
        bad += (unlike | (usable & (scaled > allowed))).to(tl.int32)
    row = partials + tl.program_id(0).to(tl.int64) * 6
    tl.store(row, tl.sum(squares, 0))
    tl.store(row + 1, tl.max(furthest, 0))
    tl.store(row + 2, tl.max(worst, 0))
    tl.store(row + 3, tl.sum(unequal, 0).to(tl.float64))
    tl.store(row + 4, tl.sum(unlikes, 0).to(tl.float64))
    tl.store(row + 5, tl.sum(bad, 0).to(tl.float64))


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _sum_squares_kernel(  # type: ignore[no-untyped-def] # noqa: ANN202, PLR0917
    values, like, bounds, partials, size,  # noqa: ANN001
    BLOCK: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    largest = tl.load(bounds)
    squares = tl.zeros((BLOCK,), dtype=tl.float64)
    count = tl.zeros((BLOCK,), dtype=tl.int32)
    rounded = tl.zeros((BLOCK,), dtype=tl.int32)
    first = tl.program_id(0).to(tl.int64) * (BLOCK * STEPS)
    for step in range(STEPS):
        offsets = first + step * BLOCK + tl.arange(0, BLOCK)
        wide = tl.load(values + offsets, mask=offsets < size, other=0.0).to(tl.float64)
        finite = tl.abs(wide) < float("inf")
        within = tl.where(finite, tl.minimum(tl.maximum(wide, -largest), largest), 0.0)
        squares += within * within
        count += (finite & (offsets < size)).to(tl.int32)
        rounded += _differ(_rounded(wide, like), wide).to(tl.int32)
    row = partials + tl.program_id(0).to(tl.int64) * 3
    tl.store(row, tl.sum(squares, 0))
    tl.store(row + 1, tl.sum(count, 0).to(tl.float64))
    tl.store(row + 2, tl.sum(rounded, 0).to(tl.float64))


def fits(values: Any, dtype: Any) -> bool:
    """Whether the kernels know the oracle's and the output's format."""
    return dtype in _FORMATS and values.dtype in (torch.float64, torch.float32)


def difference(
    got: Any, values: Any, *, absolute: float, rms: float, allowed: float, largest: float
) -> tuple[float, float, float, int, int, int]:
    """Σ counting², max error, max scaled, and how many are unequal, unlike and bad.

    As `judge.evaluate.compare` defines them, where not every difference is an error.

    Parameters
    ----------
    got, values
        Contiguous tensors of one size on a CUDA device; dtypes for which `fits`.
    absolute
        Errors up to this do not count.
    rms
        Of `values`.
    allowed
        More than this in `scaled` is bad.
    largest
        Number of the format of `got`.
    """
    bounds = torch.tensor(
        [absolute, rms, allowed, largest], dtype=torch.float64, device=values.device
    )
    partials = _run(_difference_kernel, (got, values, bounds), 6)
    furthest, worst = partials[:, 1:3].amax(0).tolist()
    squares, *counts = partials[:, (0, 3, 4, 5)].sum(0).tolist()
    unequal, unlike, bad = (int(count) for count in counts)
    return squares, furthest, worst, unequal, unlike, bad


def sum_squares(values: Any, dtype: Any, largest: float) -> tuple[float, int, int]:
    """Σ of the squares of what is finite, how many are, and how many `dtype` would round.

    Parameters as in `difference`; numbers beyond `largest` count as that.
    """
    bounds = torch.tensor([largest], dtype=torch.float64, device=values.device)
    like = torch.empty(1, dtype=dtype, device=values.device)
    squares, count, rounded = _run(_sum_squares_kernel, (values, like, bounds), 3).sum(0).tolist()
    return squares, int(count), int(rounded)


def _run(kernel: Any, arguments: tuple[Any, ...], columns: int) -> Any:
    """A row of partial results of every program; the first argument says how many there are."""
    total = arguments[0].numel()
    programs = triton.cdiv(total, _BLOCK * _STEPS)
    device = arguments[0].device
    partials = torch.empty((programs, columns), dtype=torch.float64, device=device)
    kernel[(programs,)](*arguments, partials, total, BLOCK=_BLOCK, STEPS=_STEPS)
    return partials
