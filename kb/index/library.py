"""bm25s, imported without JAX, which it would start: JAX takes most of a GPU's memory."""

import sys
import threading
from typing import Any

_IMPORTING = threading.Lock()


def bm25s() -> Any:
    """The library; takes a third of a second the first time.

    Where JAX is installed, `bm25s.selection` runs it once when imported, and a JAX made for GPUs
    then keeps three quarters of the card's memory for as long as the process lives. Only bm25s's
    choice of top scores uses JAX, and that is not used here.
    """
    with _IMPORTING:
        modules: dict[str, Any] = sys.modules
        kept = modules.get("jax")
        modules["jax"] = None  # an import of it fails, as where it is not installed
        try:
            import bm25s as library  # noqa: PLC0415
        finally:
            del modules["jax"]
            if kept is not None:
                modules["jax"] = kept
    return library
