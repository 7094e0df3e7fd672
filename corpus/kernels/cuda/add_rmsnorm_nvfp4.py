"""Launch code of add_rmsnorm_nvfp4.cu, which describes the kernel."""

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path

import torch

from kb import nvcc

TUNABLES = {"blocks_per_thread": [1, 2]}

_DTYPES = {torch.bfloat16: 0, torch.float16: 1, torch.float32: 2}
# Elements that share a scale.
GROUP = 16
# A tile of swizzled scales.
TILE_ROWS, TILE_BLOCKS = 128, 4
# Added to the mean square, as in most language models.
EPS = 1e-6
# Blocks of a row: 1024 threads with one each, or 512 with two.
MAX_BLOCKS = 1024


@functools.cache
def _launcher(architecture: str) -> Callable[..., int]:
    function = nvcc.load(Path(__file__).with_suffix(".cu"), architecture).add_rmsnorm_nvfp4
    pointer, size, number, real = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int, ctypes.c_float
    function.argtypes = [pointer] * 6 + [size, number, real] + [number] * 3 + [pointer]
    function.restype = number
    return function


def _check(x: torch.Tensor, global_scale: torch.Tensor | None) -> None:
    if x.dtype not in _DTYPES:
        raise ValueError(f"x must be bfloat16, float16 or float32, not {x.dtype}")
    if not x.is_cuda:
        raise ValueError("x must be on a CUDA device")
    if global_scale is not None and (
        global_scale.dtype != torch.float32
        or global_scale.numel() != 1
        or global_scale.device != x.device
    ):
        raise ValueError("global_scale must be one float32 on the device of x")


def _aligned(x: torch.Tensor) -> torch.Tensor:
    """Contiguous and at a multiple of 16 bytes, which a view into a buffer may not be."""
    x = x.contiguous()
    return x.clone() if x.data_ptr() % 16 else x


def _outputs(
    lead: torch.Size, length: int, swizzled: bool, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Memory for codes and scales."""
    codes = torch.empty((*lead, length // 2), dtype=torch.uint8, device=device)
    blocks = length // GROUP
    if not swizzled:
        return codes, torch.empty((*lead, blocks), dtype=torch.uint8, device=device)
    rows = lead.numel()
    shape = [rows + -rows % TILE_ROWS, blocks + -blocks % TILE_BLOCKS]
    # Zero where there is no block.
    make = torch.empty if shape == [rows, blocks] else torch.zeros
    return codes, make(shape, dtype=torch.uint8, device=device)


def kernel_function(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    eps: float = EPS,
    global_scale: torch.Tensor | None = None,
    swizzled: bool = False,
    blocks_per_thread: int = 1,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantize RMSNorm(`x` + `residual`) * `weight` to NVFP4; `x` and `residual` [..., N], `weight`
    [N], all of one dtype, N a multiple of 16.

    `global_scale` is one positive float32 on the same device (1 when None). Returns the codes,
    uint8 [..., N / 2], and the block scales, float8_e4m3fn [..., N / 16]; `swizzled`: in tiles of
    128 rows by 4, [rows up to a multiple of 128, N / 16 up to one of 4]. Values must not be NaN.
    """
    if x.ndim == 0 or x.shape[-1] % GROUP or residual.shape != x.shape:
        raise ValueError(
            f"x {list(x.shape)} and residual {list(residual.shape)} must be of one shape, with "
            f"rows a multiple of {GROUP} long"
        )
    lead, length = x.shape[:-1], x.shape[-1]
    if weight.shape != (length,) or not x.dtype == residual.dtype == weight.dtype:
        raise ValueError(
            f"weight {weight.dtype} {list(weight.shape)} and residual {residual.dtype} do not fit "
            f"{x.dtype} rows of {length}"
        )
    _check(x, global_scale)
    x, residual, weight = _aligned(x), _aligned(residual), _aligned(weight)
    blocks = length // GROUP
    if blocks > MAX_BLOCKS:
        raise ValueError(
            f"rows of {length} do not fit in registers (at most {MAX_BLOCKS * GROUP}): use "
            "add-rmsnorm-nvfp4-streaming-cuda"
        )
    codes, scales = _outputs(lead, length, swizzled, x.device)
    with torch.cuda.device(x.device):
        status = _launcher(nvcc.device_architecture(x.device.index))(
            x.data_ptr(), residual.data_ptr(), weight.data_ptr(),
            None if global_scale is None else global_scale.data_ptr(),
            codes.data_ptr(), scales.data_ptr(), lead.numel(), blocks, eps, int(swizzled),
            _DTYPES[x.dtype], blocks_per_thread, torch.cuda.current_stream().cuda_stream,
        )  # fmt: skip
    if status:
        raise RuntimeError(f"add_rmsnorm_nvfp4 failed with CUDA error {status}")
    return codes, scales.view(torch.float8_e4m3fn)


def reference(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    eps: float = EPS,
    global_scale: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    total = x.float() + residual.float()
    values = torch.nn.functional.rms_norm(total, total.shape[-1:], weight.float(), eps)
    return _quantize(values if global_scale is None else values * global_scale)


def _quantize(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes and scales of float32 values [..., N], in PyTorch."""
    groups = values.unflatten(-1, (-1, GROUP))
    # Divided by a tensor: on a GPU PyTorch turns division by a number into a multiplication.
    six = values.new_full((), 6.0)
    scales = (groups.abs().amax(dim=-1) / six).clamp(max=448.0).to(torch.float8_e4m3fn)
    divisor = scales.float().unsqueeze(-1)
    quotient = torch.where(divisor > 0, groups / divisor, 0.0)
    magnitude = quotient.abs()
    codes = torch.signbit(quotient).to(torch.uint8) * 8
    for threshold in (0.25, 1.25, 2.5, 5.0):  # half-way up to an odd code: the tie stays below
        codes += magnitude > threshold
    for threshold in (0.75, 1.75, 3.5):  # half-way up to an even code: the tie goes there
        codes += magnitude >= threshold
    codes = codes.flatten(-2)
    return codes[..., 0::2] | (codes[..., 1::2] << 4), scales


def agrees(actual: tuple[torch.Tensor, ...], expected: tuple[torch.Tensor, ...]) -> str | None:
    """What is wrong with codes and scales, or None. The values are computed in another order than
    the reference's, so one within some units of float32 of a midpoint may fall on its other side:
    a scale or a code is then one step off, in few places. The sign of a zero does not count."""
    bits = [(each[0], each[1].view(torch.uint8).int()) for each in (actual, expected)]
    steps = (bits[0][1] - bits[1][1]).abs()
    codes = [torch.stack([each & 15, each >> 4], -1).flatten(-2).int() for each, _ in bits]
    signed = [torch.where(each > 7, 8 - each, each) for each in codes]
    off = (signed[0] - signed[1]).abs()
    few = max(4, off.numel() // 10_000)
    if int(steps.max()) > 1 or int((steps > 0).sum()) > few:
        return f"{int((steps > 0).sum())} of {steps.numel()} scales differ, by up to {steps.max()}"
    # Under another scale all codes of a block may move.
    if int(off.max()) > 1 or int((off > 0).sum()) > few + GROUP * int((steps > 0).sum()):
        return f"{int((off > 0).sum())} of {off.numel()} codes differ, by up to {off.max()} steps"
    return None


def make_inputs(
    size: list[int], dtype: torch.dtype, device: str, seed: int
) -> list[torch.Tensor | float]:
    """`size` is [rows, N]."""
    rows, length = size
    generator = torch.Generator(device=device).manual_seed(seed)
    x, residual = (
        torch.randn((rows, length), device=device, generator=generator).to(dtype) for _ in range(2)
    )
    weight = torch.rand(length, device=device, generator=generator) + 0.5
    return [x, residual, weight.to(dtype), EPS, torch.full((1,), 64.0, device=device)]
