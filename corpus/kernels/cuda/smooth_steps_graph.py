"""Launch code of smooth_steps_graph.cu, which describes the kernel."""

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path

import torch

from kb import nvcc

TUNABLES = {"dependent": [0, 1]}

# The buffers that the captured graph holds, by device and size: replaying needs the same addresses.
_buffers: dict[tuple[torch.device, int], list[torch.Tensor]] = {}


@functools.cache
def _launcher(architecture: str) -> Callable[..., int]:
    function = nvcc.load(Path(__file__).with_suffix(".cu"), architecture).smooth_steps_graph
    pointer, size, number = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int
    function.argtypes = [pointer] * 4 + [size] + [number] * 2 + [pointer]
    function.restype = number
    return function


def kernel_function(
    x: torch.Tensor, rate: torch.Tensor, steps: int, dependent: int = 1
) -> torch.Tensor:
    """Return `x` [N] float32 after `steps` (1 or more) smoothing steps with the rates `rate` [N].

    x and rate are copied into buffers of the graph, and the result out of them.
    """
    if x.shape != rate.shape or x.ndim != 1 or x.dtype != torch.float32 or not x.is_cuda:
        raise ValueError(f"x {list(x.shape)} and rate {list(rate.shape)}: float32 [N] on CUDA")
    key = (x.device, x.numel())
    if key not in _buffers:
        _buffers.clear()  # one graph is kept, and so is one set of buffers
        _buffers[key] = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in "abcd"]
    held_x, held_rate, out, other = _buffers[key]
    held_x.copy_(x)
    held_rate.copy_(rate)
    with torch.cuda.device(x.device):
        status = _launcher(nvcc.device_architecture(x.device.index))(
            held_x.data_ptr(), held_rate.data_ptr(), out.data_ptr(), other.data_ptr(),
            x.numel(), steps, dependent, torch.cuda.current_stream().cuda_stream,
        )  # fmt: skip
    if status:
        raise RuntimeError(f"smooth_steps_graph failed with CUDA error {status}")
    return out.clone()


def reference(x: torch.Tensor, rate: torch.Tensor, steps: int) -> torch.Tensor:
    for _ in range(steps):
        left = torch.cat([x[:1], x[:-1]])
        right = torch.cat([x[1:], x[-1:]])
        x = x + 0.25 * rate * (left - 2.0 * x + right)
    return x


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[object]:
    """`size` is [elements, steps]."""
    n, steps = size
    generator = torch.Generator(device=device).manual_seed(seed)
    x = torch.randn(n, dtype=dtype, device=device, generator=generator)
    return [x, torch.rand(n, dtype=dtype, device=device, generator=generator), steps]
