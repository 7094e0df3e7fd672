"""Loading PyTorch without searches for garbage in it."""

import contextlib
import gc
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def loading_torch() -> Iterator[None]:
    """Import in this block what imports PyTorch.

    Nothing of the hundreds of thousands of objects that this makes is garbage: to search them, now
    and at the end of the process, takes a fifth of the time.
    """
    if "torch" in sys.modules or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
