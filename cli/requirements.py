"""What commands need beyond the core, told before anything else happens."""

import importlib.util

from kb.errors import KbError


def require_torch(what: str) -> None:
    """Refuse what cannot be done without PyTorch.

    Raises
    ------
    KbError
        PyTorch is not installed; `what` needs it.
    """
    if importlib.util.find_spec("torch") is None:
        raise KbError(f"{what} needs PyTorch: install it with `pip install 'kernel-kb[gpu]'`")
