"""Launch code of scale_elements.cu, which describes the kernel."""

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path

import torch

from kb import nvcc

TUNABLES = {"threads": [128, 256, 512, 1024]}

_DTYPES = {torch.bfloat16: 0, torch.float16: 1, torch.float32: 2}


@functools.cache
def _launcher(architecture: str) -> Callable[..., int]:
    function = nvcc.load(Path(__file__).with_suffix(".cu"), architecture).scale_elements
    pointer, size, number = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int
    function.argtypes = [pointer, pointer, ctypes.c_float, size, number, number, pointer]
    function.restype = number
    return function


def kernel_function(x: torch.Tensor, factor: float, threads: int = 256) -> torch.Tensor:
    """Return `factor * x` for `x` of any shape; a result of the same dtype, contiguous."""
    if x.dtype not in _DTYPES:
        raise ValueError(f"x must be bfloat16, float16 or float32, not {x.dtype}")
    if not x.is_cuda:
        raise ValueError("x must be on a CUDA device")
    x = x.contiguous()
    y = torch.empty_like(x)
    with torch.cuda.device(x.device):
        status = _launcher(nvcc.device_architecture(x.device.index))(
            x.data_ptr(), y.data_ptr(), factor, x.numel(), _DTYPES[x.dtype],
            threads, torch.cuda.current_stream().cuda_stream,
        )  # fmt: skip
    if status:
        raise RuntimeError(f"scale_elements failed with CUDA error {status}")
    return y


def reference(x: torch.Tensor, factor: float) -> torch.Tensor:
    return x * factor


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[object]:
    """`size` is [elements]."""
    generator = torch.Generator(device=device).manual_seed(seed)
    return [torch.randn(size, device=device, generator=generator).to(dtype), 1.7]
