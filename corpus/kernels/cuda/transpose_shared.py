"""Launch code of transpose_shared.cu, which describes the kernel."""

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path

import torch

from kb import nvcc

# The plain layout (0) has 32-way conflicts and is there to compare with.
TUNABLES = {"layout": [0, 1, 2]}
MOST_ROWS = 65535 * 32


@functools.cache
def _launcher(architecture: str) -> Callable[..., int]:
    function = nvcc.load(Path(__file__).with_suffix(".cu"), architecture).transpose_shared
    pointer, number = ctypes.c_void_p, ctypes.c_int
    function.argtypes = [pointer] * 2 + [number] * 3 + [pointer]
    function.restype = number
    return function


def kernel_function(x: torch.Tensor, layout: int = 2) -> torch.Tensor:
    """Return the transpose of `x` [M, N], float32, as a contiguous [N, M].

    M is at most MOST_ROWS, as many as 65535 blocks of a grid's second dimension take.
    """
    if x.ndim != 2 or x.dtype != torch.float32:
        raise ValueError(f"x must be a float32 matrix, not {x.dtype} {list(x.shape)}")
    if not x.is_cuda:
        raise ValueError("x must be on a CUDA device")
    x = x.contiguous()
    m, n = x.shape
    if m > MOST_ROWS:
        raise ValueError(f"{m} rows are more than {MOST_ROWS}: transpose them in parts")
    out = torch.empty((n, m), dtype=x.dtype, device=x.device)
    with torch.cuda.device(x.device):
        status = _launcher(nvcc.device_architecture(x.device.index))(
            x.data_ptr(), out.data_ptr(), m, n, layout,
            torch.cuda.current_stream().cuda_stream,
        )  # fmt: skip
    if status:
        raise RuntimeError(f"transpose_shared failed with CUDA error {status}")
    return out


def reference(x: torch.Tensor) -> torch.Tensor:
    return x.t().contiguous()


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[torch.Tensor]:
    """`size` is [M, N]."""
    generator = torch.Generator(device=device).manual_seed(seed)
    return [torch.randn(size, dtype=dtype, device=device, generator=generator)]
