"""Kinds of values for a problem's floating-point inputs, written in place."""

from collections.abc import Callable
from typing import Any, Final

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from judge.worker.buffers import OpenBuffers
from judge.worker.messages import InputSpec, ValueKind
from judge.worker.problem import InputError, LoadedProblem
from judge.worker.seeds import RANDOM_DTYPES, generator

# Bounds of "large". In float32 and bfloat16 (both up to 2^128) the cubes of 2^40 are 2^120, and 256
# of them can be summed: activations with cubes, squares and products of a million terms stay
# finite. float16 ends at 65504: 2^7 has finite squares, and exp of it is already beyond float32,
# which a softmax without its maximum subtracted does not survive. 8-bit floats end at 448 or 57344.
_LARGE: Final = {
    torch.float64: 2.0**40,
    torch.float32: 2.0**40,
    torch.bfloat16: 2.0**40,
    torch.float16: 2.0**7,
    torch.float8_e5m2: 2.0**6,
    torch.float8_e4m3fn: 2.0**4,
}

# Bounds of "tiny": about the square root of the smallest normal number (2^-126, 2^-14, 2^-14,
# 2^-6), so that products of two are representable, while every usual epsilon outweighs a square.
_TINY: Final = {
    torch.float64: 2.0**-60,
    torch.float32: 2.0**-60,
    torch.bfloat16: 2.0**-60,
    torch.float16: 2.0**-6,
    torch.float8_e5m2: 2.0**-6,
    torch.float8_e4m3fn: 2.0**-3,
}

# Rows and columns of kind "uneven" are halved at most so often: in float16 a 1 stays normal.
_HALVINGS: Final = 6

# The mean of kind "shifted": a bfloat16 there still has two bits behind the point.
_SHIFT: Final = 32.0

# The means of kind "apart": this many powers of two up to the same.
_MEANS: Final = 8

# Infinities of each sign in an input of kind "inf"; fewer in small inputs.
_INFINITIES: Final = 2


def describe(problem: LoadedProblem, seed: int) -> list[InputSpec]:
    """Describe the inputs without allocating them where the problem's code allows it.

    Fake tensors know shapes and no contents; a `get_inputs` that looks at contents (or leaves
    torch) is run for real instead.
    """

    def specs() -> list[InputSpec]:
        inputs = problem.inputs(seed)
        return [problem.input_spec(value, index) for index, value in enumerate(inputs)]

    try:
        with FakeTensorMode(allow_non_fake_inputs=True):
            return specs()
    except InputError:
        raise
    except Exception:
        return specs()


def make(
    problem: LoadedProblem, seed: int, kind: ValueKind, into: list[str | None], buffers: OpenBuffers
) -> None:
    """Make the inputs of `seed`, give them the kind's contents, and write them into buffers.

    Raises
    ------
    InputError
        `into` has another length than the inputs.
    """
    inputs = problem.inputs(seed)
    if len(inputs) != len(into):
        raise InputError(f"the problem makes {len(inputs)} inputs, not {len(into)}")
    for index, (value, name) in enumerate(zip(inputs, into, strict=True)):
        if name is None:
            continue
        if not isinstance(value, torch.Tensor):
            raise InputError(f"input {index} is no tensor")
        fill(value, kind, seed, index)
        buffers.write(name, value)
        inputs[index] = None  # inputs of several GB need not be held together


def fill(tensor: Any, kind: ValueKind, seed: int, index: int = 0) -> None:
    """Write the kind's contents over a floating-point or complex tensor, in place.

    Integers and bools stay; so do formats that pack several numbers or hold scales only, and
    "inf" leaves formats without an infinity as they are. A triangle of zeros in the last two
    dimensions stays too: a product of triangular matrices may skip it.
    """
    if kind is ValueKind.GIVEN or tensor.numel() == 0:
        return
    if tensor.is_complex():
        fill(torch.view_as_real(tensor), kind, seed, index)
        return
    if tensor.dtype not in _LARGE:
        return
    keep_triangle = _triangle(tensor)
    _write(tensor, kind, generator(tensor.device, seed, index, list(ValueKind).index(kind)))
    if keep_triangle is not None:
        keep_triangle(tensor)


def _triangle(tensor: Any) -> Callable[[Any], Any] | None:
    """Return what zeroes the other triangle in place, where that is zero and this one is not."""
    if tensor.dtype not in RANDOM_DTYPES or tensor.dim() < 2 or min(tensor.shape[-2:]) < 2:
        return None
    row, col = (size - 1 for size in tensor.shape[-2:])
    # A corner first: few matrices need to be read whole.
    lower, upper = not tensor[..., 0, col].any(), not tensor[..., row, 0].any()
    if not (lower or upper) or not tensor.any():
        return None
    if lower and torch.equal(tensor.tril(), tensor):
        return lambda t: t.tril_()
    if upper and torch.equal(tensor.triu(), tensor):
        return lambda t: t.triu_()
    return None


def _write(tensor: Any, kind: ValueKind, random: torch.Generator) -> None:
    match kind:
        case ValueKind.NORMAL:
            _draw(tensor, lambda t: t.normal_(0.0, 1.0, generator=random))
        case ValueKind.LARGE | ValueKind.TINY:
            bound = (_LARGE if kind is ValueKind.LARGE else _TINY)[tensor.dtype]
            _draw(tensor, lambda t: t.uniform_(-bound, bound, generator=random))
        case ValueKind.ZERO:
            tensor.zero_()
        case ValueKind.NEGATIVE:
            _draw(tensor, lambda t: t.abs_().neg_())
        case ValueKind.INF:
            _infinities(tensor, random)
        case ValueKind.SHIFTED:
            _draw(tensor, lambda t: t.normal_(_SHIFT, 1.0, generator=random))
        case ValueKind.APART:
            _draw(tensor, lambda t: _shift_means(t.normal_(0.0, 1.0, generator=random), random))
        case ValueKind.UNEVEN:
            _draw(tensor, lambda t: _scale(t, random))


def _draw(tensor: Any, write: Any) -> None:
    if tensor.dtype in RANDOM_DTYPES:
        write(tensor)
    else:
        wide = tensor.float()
        write(wide)
        tensor.copy_(wide)


def _scale(tensor: Any, random: Any) -> None:
    """Multiply along the first and the last dimension by powers of two."""
    for dim in sorted({0, tensor.dim() - 1}) if tensor.dim() else ():
        size = tensor.shape[dim]
        powers = torch.randint(_HALVINGS + 1, (size,), generator=random, device=tensor.device)
        shape = [size if axis == dim else 1 for axis in range(tensor.dim())]
        tensor.mul_(torch.exp2(-powers.to(tensor.dtype)).view(shape))


def _shift_means(tensor: Any, random: Any) -> None:
    """Add a power of two of either sign to each element of the first dimension."""
    shape = [size if dim == 0 else 1 for dim, size in enumerate(tensor.shape)]
    draws = torch.randint(2 * _MEANS, shape, generator=random, device=tensor.device)
    mean = torch.exp2((draws // 2).to(tensor.dtype)) * (_SHIFT / 2.0 ** (_MEANS - 1))
    tensor.add_(torch.where(draws % 2 == 0, mean, -mean))


def _infinities(tensor: Any, random: Any) -> None:
    if tensor.dtype == torch.float8_e4m3fn:
        return
    count = min(2 * _INFINITIES, tensor.numel())
    places = torch.randint(tensor.numel(), (count,), generator=random, device=tensor.device)
    signs = torch.ones(count, device=tensor.device)
    signs[1::2] = -1.0
    tensor.view(-1)[places] = (signs * torch.inf).to(tensor.dtype)
