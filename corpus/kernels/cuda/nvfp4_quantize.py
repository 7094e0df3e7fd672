"""Launch code of nvfp4_quantize.cu, which describes the kernel."""

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path

import torch

from kb import nvcc

TUNABLES = {"threads": [128, 256, 512], "blocks_per_thread": [1, 2, 4]}

_DTYPES = {torch.bfloat16: 0, torch.float16: 1, torch.float32: 2}
_BLOCK = 16


@functools.cache
def _launcher(architecture: str) -> Callable[..., int]:
    function = nvcc.load(Path(__file__).with_suffix(".cu"), architecture).nvfp4_quantize
    pointer, size, number = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int
    function.argtypes = [pointer] * 4 + [size] + [number] * 3 + [pointer]
    function.restype = number
    return function


def kernel_function(
    x: torch.Tensor,
    global_scale: torch.Tensor | None = None,
    threads: int = 256,
    blocks_per_thread: int = 2,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantize the rows of `x` [..., N] to NVFP4; N a multiple of 16.

    `global_scale` is one positive float32 on the same device (1 when None). Returns the codes,
    uint8 [..., N / 2], and the block scales, float8_e4m3fn [..., N / 16].
    """
    if x.dtype not in _DTYPES:
        raise ValueError(f"x must be bfloat16, float16 or float32, not {x.dtype}")
    if x.ndim == 0 or x.shape[-1] % _BLOCK:
        raise ValueError(f"the rows of x {list(x.shape)} must be a multiple of {_BLOCK} long")
    if not x.is_cuda:
        raise ValueError("x must be on a CUDA device")
    if global_scale is not None and (
        global_scale.dtype != torch.float32
        or global_scale.numel() != 1
        or global_scale.device != x.device
    ):
        raise ValueError("global_scale must be one float32 on the device of x")
    x = x.contiguous()
    if x.data_ptr() % 16:
        x = x.clone()  # a view into the middle of a buffer: 128-bit loads need 16-byte alignment
    lead, length = x.shape[:-1], x.shape[-1]
    codes = torch.empty((*lead, length // 2), dtype=torch.uint8, device=x.device)
    scales = torch.empty((*lead, length // _BLOCK), dtype=torch.float8_e4m3fn, device=x.device)
    with torch.cuda.device(x.device):
        status = _launcher(nvcc.device_architecture(x.device.index))(
            x.data_ptr(), None if global_scale is None else global_scale.data_ptr(),
            codes.data_ptr(), scales.data_ptr(), x.numel() // _BLOCK, _DTYPES[x.dtype],
            threads, blocks_per_thread, torch.cuda.current_stream().cuda_stream,
        )  # fmt: skip
    if status:
        raise RuntimeError(f"nvfp4_quantize failed with CUDA error {status}")
    return codes, scales


def reference(
    x: torch.Tensor, global_scale: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    scaled = x.float() * (1.0 if global_scale is None else global_scale)
    blocks = scaled.unflatten(-1, (-1, _BLOCK))
    amax = blocks.abs().amax(dim=-1)
    # A tensor, not a number: on a GPU PyTorch multiplies by a number's rounded reciprocal instead.
    largest_code = torch.tensor(6.0, device=x.device)
    scales = (amax / largest_code).clamp(max=448.0).to(torch.float8_e4m3fn)
    steps = scales.float().unsqueeze(-1)
    magnitude = torch.where(steps > 0, blocks.abs() / steps, 0.0)
    # A value on a boundary goes to the even code: up at the ones where the upper code is even.
    boundaries = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0], device=x.device)
    up = torch.bucketize(magnitude, boundaries, right=True)
    down = torch.bucketize(magnitude, boundaries, right=False)
    codes = torch.where(up % 2 == 0, up, down)
    codes += 8 * (torch.signbit(blocks) & (steps > 0))
    codes = codes.flatten(-2).to(torch.uint8)
    return codes[..., 0::2] | (codes[..., 1::2] << 4), scales


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[torch.Tensor]:
    """`size` is [rows, row length]; the magnitude differs from row to row, as activations' do."""
    rows, length = size
    generator = torch.Generator(device=device).manual_seed(seed)
    x = torch.randn((rows, length), device=device, generator=generator)
    x *= torch.logspace(-2, 2, rows, device=device).unsqueeze(-1)
    # The usual choice: the largest value maps to the largest scale times the largest code.
    global_scale = (448.0 * 6.0 / x.abs().amax()).reshape(1)
    return [x.to(dtype), global_scale]
