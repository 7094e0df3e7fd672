"""Launch code of rmsnorm_named_barriers.cu, which describes the kernel."""

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path

import torch

from kb import nvcc

TUNABLES = {"threads": [64, 128, 256]}

_DTYPES = {torch.bfloat16: 0, torch.float16: 1, torch.float32: 2}
EPS = 1e-6


@functools.cache
def _launcher(architecture: str) -> Callable[..., int]:
    function = nvcc.load(Path(__file__).with_suffix(".cu"), architecture).rmsnorm_named_barriers
    pointer, size, number = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int
    function.argtypes = [pointer] * 3 + [size] * 2 + [ctypes.c_float] + [number] * 2 + [pointer]
    function.restype = number
    return function


def kernel_function(
    x: torch.Tensor, weight: torch.Tensor, eps: float = EPS, threads: int = 128
) -> torch.Tensor:
    """RMSNorm of `x` [..., N] over its last dimension, times `weight` [N] of the same dtype."""
    if x.dtype not in _DTYPES or weight.dtype != x.dtype:
        raise ValueError(
            "x and weight must have one dtype, bfloat16, float16 or float32, "
            f"not {x.dtype} and {weight.dtype}"
        )
    if x.ndim == 0 or weight.shape != x.shape[-1:]:
        raise ValueError(f"weight {list(weight.shape)} does not fit x {list(x.shape)}")
    if not x.is_cuda or weight.device != x.device:
        raise ValueError("x and weight must be on one CUDA device")
    x, weight = x.contiguous(), weight.contiguous()
    y = torch.empty_like(x)
    length = x.shape[-1]
    with torch.cuda.device(x.device):
        status = _launcher(nvcc.device_architecture(x.device.index))(
            x.data_ptr(), weight.data_ptr(), y.data_ptr(), x.numel() // max(length, 1), length,
            eps, _DTYPES[x.dtype], threads, torch.cuda.current_stream().cuda_stream,
        )  # fmt: skip
    if status:
        raise RuntimeError(f"rmsnorm_named_barriers failed with CUDA error {status}")
    return y


def reference(x: torch.Tensor, weight: torch.Tensor, eps: float = EPS) -> torch.Tensor:
    return torch.nn.functional.rms_norm(x, weight.shape, weight, eps)


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[torch.Tensor]:
    """`size` is [rows, row length]."""
    rows, length = size
    generator = torch.Generator(device=device).manual_seed(seed)
    x = torch.randn((rows, length), device=device, generator=generator)
    weight = torch.rand(length, device=device, generator=generator) + 0.5
    return [x.to(dtype), weight.to(dtype)]
