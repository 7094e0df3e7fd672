"""Launch code of histogram_shared.cu, which describes the kernel."""

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path

import torch

from kb import nvcc

TUNABLES: dict[str, list[int]] = {"copies": [1, 2, 4, 8, 16]}


@functools.cache
def _launcher(architecture: str) -> Callable[..., int]:
    function = nvcc.load(Path(__file__).with_suffix(".cu"), architecture).histogram_shared
    pointer, size, number = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int
    function.argtypes = [pointer, pointer, size] + [number] * 2 + [pointer]
    function.restype = number
    return function


def kernel_function(keys: torch.Tensor, bins: int, copies: int = 8) -> torch.Tensor:
    """Return how often 0 to `bins` - 1 occur in `keys` (int32, any shape), as int32 [bins]."""
    if keys.dtype != torch.int32 or not keys.is_cuda:
        raise ValueError(f"keys must be int32 on a CUDA device, not {keys.dtype} on {keys.device}")
    keys = keys.contiguous()
    counts = torch.empty(bins, dtype=torch.int32, device=keys.device)
    with torch.cuda.device(keys.device):
        status = _launcher(nvcc.device_architecture(keys.device.index))(
            keys.data_ptr(), counts.data_ptr(), keys.numel(), bins, copies,
            torch.cuda.current_stream().cuda_stream,
        )  # fmt: skip
    if status:
        raise RuntimeError(f"histogram_shared failed with CUDA error {status}")
    return counts


def reference(keys: torch.Tensor, bins: int) -> torch.Tensor:
    return torch.bincount(keys.flatten(), minlength=bins).to(torch.int32)


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[object]:
    """`size` is [keys, bins]; small keys are more frequent, as in most counts."""
    count, bins = size
    generator = torch.Generator(device=device).manual_seed(seed)
    uniform = torch.rand(count, device=device, generator=generator)
    return [(uniform * uniform * bins).to(dtype).clamp_(max=bins - 1), bins]
