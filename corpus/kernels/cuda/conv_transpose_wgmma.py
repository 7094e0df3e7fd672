"""Launch code of conv_transpose_wgmma.cu, which describes the kernel."""

import ctypes
import functools
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from kb import nvcc

TUNABLES = {"aligned": [0, 1], "haste": [1, 2]}

# What the launcher returns where a tile, or the filters and the planes of the image that a tile
# reads, do not fit into shared memory.
_TOO_LARGE = -1


@functools.cache
def _launcher(architecture: str) -> Callable[..., int]:
    function = nvcc.load(Path(__file__).with_suffix(".cu"), architecture).conv_transpose_wgmma
    pointer, number = ctypes.c_void_p, ctypes.c_int
    function.argtypes = [pointer] * 5 + [ctypes.POINTER(ctypes.c_int64)] + [number] * 3 + [pointer]
    function.restype = number
    return function


def _each(value: int | Sequence[int], rank: int, name: str, least: int) -> tuple[int, ...]:
    """One number for each of three dimensions; those before the image's are the least effect."""
    given = (value,) * rank if isinstance(value, int) else tuple(value)
    given = given * rank if len(given) == 1 else given
    if len(given) != rank or any(each < least for each in given):
        raise ValueError(f"{name} has to be {rank} numbers of at least {least}, not {value}")
    return (int(least > 0),) * (3 - rank) + given


def _axis(
    image: int, taps: int, stride: int, padding: int, dilation: int, more: int
) -> tuple[int, ...]:
    """What the kernel is told of a dimension: image, outputs, how many of them taps reach, taps,
    stride, the first such output, image positions between taps, and the last tap's for it."""
    if taps > 1 and dilation % stride:
        raise ValueError(
            f"dilation {dilation} is no multiple of stride {stride}: taps reach outputs of several"
            " residues, and this kernel is for one"
        )
    out = (image - 1) * stride - 2 * padding + dilation * (taps - 1) + more + 1
    first = -padding % stride
    step = dilation // stride if taps > 1 else 1
    live = max(0, -(-(out - first) // stride))
    origin = (first + padding) // stride - (taps - 1) * step
    return image, out, live, taps, stride, first, step, origin


def kernel_function(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
    aligned: int = 0,
    haste: int = 1,
) -> torch.Tensor:
    """Return the transposed convolution of `x` [N, C, ...] with `weight` [C, OUT, ...], float16 or
    bfloat16 with sums in float32.

    One to three dimensions, settings as in `torch.nn.functional.conv_transpose3d`; `bias` [OUT].
    `x` has any strides; the result is contiguous.

    Raises
    ------
    ValueError
        Dilations are no multiples of the strides, there are groups, rows are longer than 136
        positions of the image, or filters and image do not fit into shared memory.
    """
    rank = x.ndim - 2
    if rank not in (1, 2, 3) or weight.ndim != x.ndim or x.dtype != weight.dtype:
        raise ValueError(f"cannot convolve {x.dtype} {list(x.shape)} with {list(weight.shape)}")
    if x.dtype not in (torch.float16, torch.bfloat16):
        raise ValueError(f"x must be float16 or bfloat16, not {x.dtype}")
    if not x.is_cuda or weight.device != x.device:
        raise ValueError("x and weight must be on one CUDA device")
    n, c = x.shape[:2]
    if groups != 1 or weight.shape[0] != c:
        raise ValueError(f"weight {list(weight.shape)} does not fit {c} channels in one group")
    if bias is not None and tuple(bias.shape) != (weight.shape[1],):
        raise ValueError(f"bias {list(bias.shape)} does not fit {weight.shape[1]} channels")
    s, d = _each(stride, rank, "stride", 1), _each(dilation, rank, "dilation", 1)
    p, more = _each(padding, rank, "padding", 0), _each(output_padding, rank, "output_padding", 0)
    if any(each >= max(sl, dl) for each, sl, dl in zip(more, s, d, strict=True)):
        raise ValueError(f"output_padding {output_padding} has to be less than stride or dilation")
    k = (1,) * (3 - rank) + tuple(weight.shape[2:])
    image = (1,) * (3 - rank) + tuple(x.shape[2:])
    axes = [_axis(*each) for each in zip(image, k, s, p, d, more, strict=True)]
    o = [axis[1] for axis in axes]
    if min(o) < 1:
        raise ValueError(f"padding {padding} leaves nothing of images of {list(x.shape[2:])}")
    if min(axis[2] for axis in axes) < 1:
        raise ValueError("no output gets anything from the image: all of them are the bias")
    channels = weight.shape[1]
    out = torch.empty((n, channels, *o[3 - rank :]), dtype=x.dtype, device=x.device)
    if out.numel() == 0:
        return out
    padded = -(-c // 16) * 16 * -(-channels // 64) * 64
    filters = torch.empty(padded * math.prod(k), dtype=x.dtype, device=x.device)
    strides = (*x.stride()[:2], *(0,) * (3 - rank), *x.stride()[2:])
    numbers = [number for axis in axes for number in axis] + [n, c, channels, *strides]
    weight, bias = weight.contiguous(), None if bias is None else bias.to(x.dtype).contiguous()
    with torch.cuda.device(x.device):
        status = _launcher(nvcc.device_architecture(x.device.index))(
            x.data_ptr(), weight.data_ptr(), None if bias is None else bias.data_ptr(),
            filters.data_ptr(), out.data_ptr(), (ctypes.c_int64 * len(numbers))(*numbers),
            int(x.dtype == torch.float16), aligned, haste,
            torch.cuda.current_stream().cuda_stream,
        )  # fmt: skip
    if status == _TOO_LARGE:
        raise ValueError(
            f"rows of {image[2]} positions, or {math.prod(k)} filters for {c} channels, are too"
            " much for shared memory"
        )
    if status:
        raise RuntimeError(f"conv_transpose_wgmma failed with CUDA error {status}")
    return out


def reference(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: int = 1,
    padding: int = 0,
    output_padding: int = 0,
    groups: int = 1,
    dilation: int = 1,
) -> torch.Tensor:
    convolve = getattr(torch.nn.functional, f"conv_transpose{x.ndim - 2}d")
    y: torch.Tensor = convolve(x, weight, bias, stride, padding, output_padding, groups, dilation)
    return y


def make_inputs(
    size: list[int], dtype: torch.dtype, device: str, seed: int
) -> list[torch.Tensor | int | None]:
    """`size` is [N, C, OUT, one to three lengths, window, stride, padding, dilation,
    output_padding, whether there is a bias]."""
    n, c, c_out, *lengths, window, stride, padding, dilation, output_padding, has_bias = size
    generator = torch.Generator(device=device).manual_seed(seed)
    x, weight, bias = (
        torch.randn(shape, dtype=dtype, device=device, generator=generator)
        for shape in ((n, c, *lengths), (c, c_out, *(window,) * len(lengths)), (c_out,))
    )
    given = bias if has_bias else None
    return [x, weight, given, stride, padding, output_padding, 1, dilation]
