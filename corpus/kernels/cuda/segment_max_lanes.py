"""Launch code of segment_max_lanes.cu, which describes the kernel."""

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path

import torch

from kb import nvcc

TUNABLES: dict[str, list[int]] = {"lanes": [0, 2, 4, 8, 16, 32]}


@functools.cache
def _launcher(architecture: str) -> Callable[..., int]:
    function = nvcc.load(Path(__file__).with_suffix(".cu"), architecture).segment_max_lanes
    pointer, size = ctypes.c_void_p, ctypes.c_int64
    function.argtypes = [pointer] * 3 + [size, ctypes.c_int, pointer]
    function.restype = ctypes.c_int
    return function


def kernel_function(x: torch.Tensor, offsets: torch.Tensor, lanes: int = 0) -> torch.Tensor:
    """Maxima [S] of the segments of `x` [N] float32 that `offsets` [S + 1] int64 bound."""
    if x.dtype != torch.float32 or offsets.dtype != torch.int64 or not x.is_cuda:
        raise ValueError(f"x: float32 on CUDA, offsets: int64, not {x.dtype}, {offsets.dtype}")
    x, offsets = x.contiguous(), offsets.contiguous()
    segments = offsets.numel() - 1
    y = torch.empty(segments, dtype=torch.float32, device=x.device)
    if lanes == 0:  # about a quarter of the mean length
        mean = x.numel() // max(segments, 1)
        lanes = min(32, max(2, 1 << max(mean // 4, 1).bit_length() - 1))
    with torch.cuda.device(x.device):
        status = _launcher(nvcc.device_architecture(x.device.index))(
            x.data_ptr(), offsets.data_ptr(), y.data_ptr(), segments, lanes,
            torch.cuda.current_stream().cuda_stream,
        )  # fmt: skip
    if status:
        raise RuntimeError(f"segment_max_lanes failed with CUDA error {status}")
    return y


def reference(x: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    return torch.segment_reduce(x, "max", lengths=offsets.diff(), initial=float("-inf"))


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[torch.Tensor]:
    """`size` is [elements, segments]; lengths are uneven, some segments may be empty."""
    count, segments = size
    generator = torch.Generator(device=device).manual_seed(seed)
    x = torch.randn(count, dtype=dtype, device=device, generator=generator)
    cuts = torch.rand(segments - 1, device=device, generator=generator, dtype=torch.float64)
    offsets = torch.zeros(segments + 1, dtype=torch.int64, device=device)
    offsets[1:-1] = (cuts.sort().values * count).to(torch.int64)
    offsets[-1] = count
    return [x, offsets]
