"""The five problems of `tests/fixtures/kernels/problems`: how far the optimizer brings them."""

from pathlib import Path

_KERNELS = Path(__file__).parents[3] / "tests" / "fixtures" / "kernels"
NAMES = ["matvec", "rmsnorm_channels", "max_pool3d", "conv_transpose3d", "depthwise_conv2d"]
DTYPE = "bfloat16"


def path_of(name: str) -> Path:
    """The problem file."""
    return _KERNELS / "problems" / f"{name}.py"


def start_of(name: str) -> Path:
    """A plain, correct Triton kernel for it."""
    return _KERNELS / "starts" / f"{name}.py"
