"""A connection to a Ray cluster. Ray is imported only where one is asked for."""

import contextlib
import importlib
import importlib.util
import logging
import socket
from collections.abc import Iterator
from typing import Any, Final

from kb.errors import KbError

START_ONE: Final = "start one with: ray start --head --include-dashboard=false"


def require_ray() -> None:
    """Refuse a command that needs Ray where it is not installed.

    Raises
    ------
    KbError
        It is not; the message says how to install it.
    """
    if importlib.util.find_spec("ray") is None:
        raise KbError("--ray needs Ray: install it with `pip install 'kernel-kb[ray]'`")


def require_listener(host: str, port: int, seconds: float) -> None:
    """Fail within `seconds` where nothing listens; Ray itself would try for minutes.

    Raises
    ------
    OSError
        Nothing listens there, or there is no such port.
    """
    try:
        socket.create_connection((host, port), seconds).close()
    except OverflowError as error:
        raise OSError(str(error)) from error


def no_answer(address: str, error: Exception) -> KbError:
    """What to say of a cluster that cannot be reached."""
    reason = str(error).splitlines()[0]
    return KbError(f"no Ray cluster answers at '{address}': {reason}; {START_ONE}")


@contextlib.contextmanager
def connected(address: str, **options: Any) -> Iterator[Any]:
    """The module `ray`, connected to a cluster until the context ends.

    Parameters
    ----------
    address
        As `ray.init` takes it.
    options
        Further arguments of `ray.init`.

    Raises
    ------
    KbError
        No cluster answers.
    """
    ray = importlib.import_module("ray")
    failed = importlib.import_module("ray.exceptions").RayError
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **options)
    except (OSError, RuntimeError, ValueError, failed) as error:
        raise no_answer(address, error) from error
    try:
        yield ray
    finally:
        ray.shutdown()
