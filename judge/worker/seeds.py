"""Random number generators and precision: set alike before whatever contenders do."""

import random
from typing import Any, Final

import numpy
import torch

from judge.worker.messages import Precision

# Formats in which torch draws numbers; others are drawn in float32 and cast.
RANDOM_DTYPES: Final = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def seed_everything(seed: int) -> None:
    """Seed Python's, NumPy's and torch's generators (CPU, and every GPU once CUDA is in use)."""
    random.seed(seed)
    numpy.random.seed(seed % (1 << 32))
    if torch.cuda.is_initialized():
        torch.manual_seed(seed)
    else:
        # The former would note the call, and where it came from, for each kind of device that may
        # be initialised later: most of the time of making small inputs.
        torch.default_generator.manual_seed(seed)


def generator(device: Any, *seeds: int) -> Any:
    """Return a torch generator that depends on all of `seeds`."""
    mixed = 0
    for seed in seeds:
        # Multiplier of Knuth's MMIX generator: different tuples give different 63-bit seeds.
        mixed = (mixed * 6364136223846793005 + seed + 1442695040888963407) % (1 << 63)
    return torch.Generator(device=device).manual_seed(mixed)


def set_precision(precision: Precision) -> None:
    """Allow or forbid TF32 in float32 matrix products and convolutions."""
    allowed = precision == "tf32"
    torch.set_float32_matmul_precision("high" if allowed else "highest")
    torch.backends.cudnn.allow_tf32 = allowed


def get_precision() -> Precision:
    """Tell what is allowed now, by either setting."""
    matmul = torch.get_float32_matmul_precision() != "highest"
    return "tf32" if matmul or torch.backends.cudnn.allow_tf32 else "ieee"
