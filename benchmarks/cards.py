"""The cards that a benchmark is spread over, as CUDA_VISIBLE_DEVICES names them."""

import os
from collections.abc import Sequence

from kb.errors import InvalidInputError, KbError


def visible() -> list[str]:
    """The cards that PyTorch sees: what CUDA_VISIBLE_DEVICES says of each, or its number."""
    import torch  # slow, and nothing else of it is needed

    count = torch.cuda.device_count()
    given = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    named = [each.strip() for each in given if each.strip()]
    return named[:count] if len(named) >= count > 0 else [str(each) for each in range(count)]


def chosen(wanted: str, names: Sequence[str]) -> list[str]:
    """`wanted` ("all", or how many) of the cards that there are.

    Raises
    ------
    KbError
        It is neither, or there are fewer.
    """
    if not names:
        raise KbError("no GPU was found, so tasks cannot be shared out: leave --gpus out")
    if wanted == "all":
        return list(names)
    if not wanted.isdecimal() or int(wanted) < 1:
        raise InvalidInputError(f"--gpus takes a number or 'all', not '{wanted}'")
    if int(wanted) > len(names):
        raise InvalidInputError(f"--gpus {wanted}: there are {len(names)}")
    return list(names[: int(wanted)])
