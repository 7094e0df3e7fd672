"""Launch code of matvec_eviction_hints.cu, which describes the kernel."""

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path

import torch

from kb import nvcc

TUNABLES = {"threads": [128, 256, 512], "rows_per_block": [1, 2, 4]}

_DTYPES = {torch.bfloat16: 0, torch.float16: 1, torch.float32: 2}


@functools.cache
def _launcher(architecture: str) -> Callable[..., int]:
    function = nvcc.load(Path(__file__).with_suffix(".cu"), architecture).matvec_eviction_hints
    pointer, size, number = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int
    function.argtypes = [pointer] * 3 + [size] * 2 + [number] * 3 + [pointer]
    function.restype = number
    return function


def kernel_function(
    a: torch.Tensor, x: torch.Tensor, threads: int = 256, rows_per_block: int = 2
) -> torch.Tensor:
    """Return `a @ x`: `a` [M, K] and `x` [K] of one dtype -> [M] of that dtype."""
    if a.ndim != 2 or x.shape != a.shape[1:] or a.dtype != x.dtype:
        raise ValueError(f"cannot multiply {a.dtype} {list(a.shape)} by {x.dtype} {list(x.shape)}")
    if a.dtype not in _DTYPES:
        raise ValueError(f"a must be bfloat16, float16 or float32, not {a.dtype}")
    if not a.is_cuda or a.device != x.device:
        raise ValueError("a and x must be on one CUDA device")
    a, x = a.contiguous(), x.contiguous()
    y = torch.empty(a.shape[0], dtype=a.dtype, device=a.device)
    with torch.cuda.device(a.device):
        status = _launcher(nvcc.device_architecture(a.device.index))(
            a.data_ptr(), x.data_ptr(), y.data_ptr(), *a.shape, _DTYPES[a.dtype],
            threads, rows_per_block, torch.cuda.current_stream().cuda_stream,
        )  # fmt: skip
    if status:
        raise RuntimeError(f"matvec_eviction_hints failed with CUDA error {status}")
    return y


def reference(a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return a @ x


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[torch.Tensor]:
    """`size` is [M, K]."""
    m, k = size
    generator = torch.Generator(device=device).manual_seed(seed)
    return [
        torch.randn(shape, dtype=dtype, device=device, generator=generator)
        for shape in ((m, k), (k,))
    ]
