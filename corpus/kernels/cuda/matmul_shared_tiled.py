"""Launch code of matmul_shared_tiled.cu, which describes the kernel."""

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path

import torch

from kb import nvcc

TUNABLES = {"tile": [64, 128]}


@functools.cache
def _launcher(architecture: str) -> Callable[..., int]:
    function = nvcc.load(Path(__file__).with_suffix(".cu"), architecture).matmul_shared_tiled
    pointer, number = ctypes.c_void_p, ctypes.c_int
    function.argtypes = [pointer] * 3 + [number] * 4 + [pointer]
    function.restype = number
    return function


def kernel_function(a: torch.Tensor, b: torch.Tensor, tile: int = 128) -> torch.Tensor:
    """Return `a @ b`: `a` [M, K] and `b` [K, N], float32 -> float32 [M, N].

    M is at most 65535 * `tile`, the most blocks of a grid's second dimension.
    """
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise ValueError(f"cannot multiply {list(a.shape)} by {list(b.shape)}")
    if a.dtype != torch.float32 or b.dtype != torch.float32:
        raise ValueError(f"a and b must be float32, not {a.dtype} and {b.dtype}")
    if not a.is_cuda or a.device != b.device:
        raise ValueError("a and b must be on one CUDA device")
    a, b = a.contiguous(), b.contiguous()
    (m, k), n = a.shape, b.shape[1]
    if m > 65535 * tile:
        raise ValueError(f"{m} rows are more than {65535 * tile}: multiply them in parts")
    c = torch.empty((m, n), dtype=a.dtype, device=a.device)
    with torch.cuda.device(a.device):
        status = _launcher(nvcc.device_architecture(a.device.index))(
            a.data_ptr(), b.data_ptr(), c.data_ptr(), m, n, k, tile,
            torch.cuda.current_stream().cuda_stream,
        )  # fmt: skip
    if status:
        raise RuntimeError(f"matmul_shared_tiled failed with CUDA error {status}")
    return c


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[torch.Tensor]:
    """`size` is [M, N, K]."""
    m, n, k = size
    generator = torch.Generator(device=device).manual_seed(seed)
    return [
        torch.randn(shape, dtype=dtype, device=device, generator=generator)
        for shape in ((m, k), (k, n))
    ]
