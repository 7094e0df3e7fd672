"""What kernels ask of their card where there is none: Triton's interpreter runs on the CPU.

A host function chooses the card of its tensors and sizes its grid by the number of
multiprocessors. Neither bears on what it computes, so the questions are answered.
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

import torch

# Few: what is shared out among that many programs turns several times at small sizes.
MULTIPROCESSORS: Final = 4
_PROPERTIES: Final = {
    "name": "Triton's interpreter",
    "major": 9,
    "minor": 0,
    "multi_processor_count": MULTIPROCESSORS,
    "total_memory": 1 << 34,
    "warp_size": 32,
    "max_threads_per_block": 1024,
    "max_threads_per_multi_processor": 2048,
    "regs_per_multiprocessor": 1 << 16,
    "shared_memory_per_block": 48 << 10,
    "shared_memory_per_block_optin": 227 << 10,
    "shared_memory_per_multiprocessor": 228 << 10,
    "L2_cache_size": 50 << 20,
}


class _Device(torch.cuda.device):  # type: ignore[misc]  # torch leaves it untyped
    """`torch.cuda.device` that takes the CPU, and then does nothing."""

    def __init__(self, _device: Any) -> None:
        self.idx = self.prev_idx = -1  # torch exchanges no device for a negative number


def report_fake_gpu(note: Callable[[str], Any]) -> None:
    """Have torch.cuda answer for a small card; `note` is told when its properties are asked for."""

    def properties(_device: Any = None) -> SimpleNamespace:
        note(f"the interpreter reports a GPU with {MULTIPROCESSORS} multiprocessors")
        return SimpleNamespace(**_PROPERTIES)

    cuda: Any = torch.cuda
    cuda.device = _Device
    cuda.current_device = lambda: 0
    cuda.get_device_properties = properties
