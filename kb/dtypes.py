"""Names of floating-point types as people write them."""

from typing import Literal

Dtype = Literal["float32", "float16", "bfloat16", "float64"]
DTYPES: tuple[Dtype, ...] = ("float32", "float16", "bfloat16", "float64")
_SHORT: dict[str, Dtype] = {
    "fp32": "float32",
    "fp16": "float16",
    "half": "float16",
    "bf16": "bfloat16",
    "fp64": "float64",
    "double": "float64",
}


def full_dtype(spelled: object) -> object:
    """PyTorch's name where it is a known one, such as `bfloat16` for `bf16`; else as it was."""
    if not isinstance(spelled, str):
        return spelled
    name = spelled.lower().removeprefix("torch.")
    return _SHORT.get(name, name)
