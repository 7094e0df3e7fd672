"""Python values as JSON and back, keeping what JSON lacks: tuples, dtypes; imports no torch.

Everything that JSON has stands for itself (infinities and NaN as Python's `json` writes them). A
tuple is {"$tuple": [...]}, a torch dtype {"$dtype": "float32"}; a dictionary needs string keys.
"""

import sys
from typing import Any, Final

from pydantic import JsonValue

_TUPLE: Final = "$tuple"
_DTYPE: Final = "$dtype"

# Deeper than any constructor's arguments, and far from the recursion limit.
_DEPTH: Final = 20


class NotEncodableError(TypeError):
    """A value that JSON cannot carry, such as a tensor or a module."""


def encode(value: Any, depth: int = _DEPTH) -> JsonValue:
    """Return `value` as JSON.

    Raises
    ------
    NotEncodableError
        It is or holds something else than numbers, strings, None, dtypes, lists, tuples, and
        dictionaries by string.
    """
    if depth == 0:
        raise NotEncodableError("it is nested too deeply")
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value  # type: ignore[no-any-return]
    if kind is list:
        return [encode(item, depth - 1) for item in value]
    if isinstance(value, tuple):  # torch.Size and named tuples among them
        return {_TUPLE: [encode(item, depth - 1) for item in value]}
    if kind is dict and all(type(key) is str and not key.startswith("$") for key in value):
        return {key: encode(item, depth - 1) for key, item in value.items()}
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.dtype):
        return {_DTYPE: str(value).removeprefix("torch.")}
    raise NotEncodableError(f"a {kind.__name__} cannot be sent to another process")


def decode(value: JsonValue) -> Any:
    """Return what `encode` was given.

    Raises
    ------
    ValueError
        A dtype that torch does not know.
    """
    if isinstance(value, list):
        return [decode(item) for item in value]
    if isinstance(value, dict):
        if set(value) == {_TUPLE} and isinstance(elements := value[_TUPLE], list):
            return tuple(decode(element) for element in elements)
        if set(value) == {_DTYPE}:
            import torch  # noqa: PLC0415 (the judge passes values on without decoding them)

            dtype = getattr(torch, str(value[_DTYPE]), None)
            if not isinstance(dtype, torch.dtype):
                raise ValueError(f"torch has no dtype {value[_DTYPE]!r}")
            return dtype
        return {key: decode(item) for key, item in value.items()}
    return value
