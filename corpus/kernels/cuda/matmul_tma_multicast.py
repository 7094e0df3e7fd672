"""Launch code of matmul_tma_multicast.cu, which describes the kernel."""

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path

import torch

from kb import nvcc

TUNABLES = {"tile": [64, 128], "cluster": [1, 2, 4]}


@functools.cache
def _launcher(architecture: str) -> Callable[..., int]:
    function = nvcc.load(Path(__file__).with_suffix(".cu"), architecture).matmul_tma_multicast
    pointer, number = ctypes.c_void_p, ctypes.c_int
    function.argtypes = [pointer] * 3 + [number] * 5 + [pointer]
    function.restype = number
    return function


def _padded(matrix: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    """The matrix with zeros up to [rows, columns], contiguous and aligned to 16 bytes."""
    below, beside = rows - matrix.shape[0], columns - matrix.shape[1]
    if below or beside:
        return torch.nn.functional.pad(matrix, (0, beside, 0, below))
    matrix = matrix.contiguous()
    return matrix.clone() if matrix.data_ptr() % 16 else matrix


def kernel_function(
    a: torch.Tensor, b: torch.Tensor, tile: int = 128, cluster: int = 2
) -> torch.Tensor:
    """Return `a @ b`: `a` [M, K] and `b` [K, N], float32 -> float32 [M, N].

    M is at most 65535 * `tile`, the most blocks of a grid's second dimension.
    """
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise ValueError(f"cannot multiply {list(a.shape)} by {list(b.shape)}")
    if a.dtype != torch.float32 or b.dtype != torch.float32:
        raise ValueError(f"a and b must be float32, not {a.dtype} and {b.dtype}")
    if not a.is_cuda or a.device != b.device:
        raise ValueError("a and b must be on one CUDA device")
    (m, k), n = a.shape, b.shape[1]
    if m > 65535 * tile:
        raise ValueError(f"{m} rows are more than {65535 * tile}: multiply them in parts")
    k4, n4 = -(-k // 4) * 4, -(-n // 4) * 4
    a, b = _padded(a, m, k4), _padded(b, k4, n4)
    c = torch.empty((m, n4), dtype=a.dtype, device=a.device)
    with torch.cuda.device(a.device):
        status = _launcher(nvcc.device_architecture(a.device.index))(
            a.data_ptr(), b.data_ptr(), c.data_ptr(), m, n4, k4, tile, cluster,
            torch.cuda.current_stream().cuda_stream,
        )  # fmt: skip
    if status:
        raise RuntimeError(f"matmul_tma_multicast failed with CUDA error {status}")
    return c[:, :n].contiguous()


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
