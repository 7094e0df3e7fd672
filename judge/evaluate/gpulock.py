"""One evaluation per graphics card: a file lock that the kernel frees when its holder dies.

The lock is advisory and per user: it keeps this user's evaluations apart, not other users' and not
other programs' work on the card.
"""

import json
import os
import re
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import platformdirs
from filelock import FileLock, Timeout

from judge.progress import Progress, Say, Step, silent
from kb.errors import KbError

# An evaluation takes a minute or two; several may wait in line.
TIMEOUT_S: Final = 1800.0
_POLL_S: Final = 0.25
# A waiting user hears again after this long.
_SAY_AGAIN_S: Final = 60.0


class GpuBusyError(KbError):
    """Another evaluation holds the card."""

    status = 409


def lock_folder() -> Path:
    """Where the locks are: the user's runtime folder, or one in /tmp where the system has none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fallback to /tmp is what is wanted here
        return Path(platformdirs.user_runtime_dir("kernel-kb", appauthor=False)) / "gpus"


@contextmanager
def locked(
    card: str, *, folder: Path | None = None, timeout: float = TIMEOUT_S, say: Say = silent
) -> Iterator[None]:
    """Hold the lock of one physical card.

    Parameters
    ----------
    card
        What names the card on this machine: its UUID (`judge.evaluate.clocks.card_id`), so that
        CUDA_VISIBLE_DEVICES does not give one card two names.
    timeout
        Seconds to wait; 0 does not wait.

    Raises
    ------
    GpuBusyError
        The card is still held after `timeout`. The message names the holder's pid.
    """
    lock_dir = lock_folder() if folder is None else folder
    try:
        lock_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise KbError(
            f"cannot lock GPU {card}: {lock_dir} cannot be created ({error.strerror}); "
            "set XDG_RUNTIME_DIR to a folder that you can write to"
        ) from None
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", card)
    # Not the lock file itself: opening a lock file truncates it, whether the lock is had or not.
    holder = lock_dir / f"{name}.holder.json"
    lock = FileLock(lock_dir / f"{name}.lock", is_singleton=False, thread_local=False)
    # Whoever has this is next, so that one who gives the card back and asks for it again at once
    # stands behind those who wait.
    queue_lock = FileLock(lock_dir / f"{name}.next.lock", is_singleton=False, thread_local=False)
    deadline = time.monotonic() + timeout

    def acquire(file_lock: FileLock) -> None:
        wait = 0.0
        while True:
            try:
                file_lock.acquire(timeout=wait, poll_interval=_POLL_S)
            except Timeout:
                wait = min(_SAY_AGAIN_S, deadline - time.monotonic())
                if wait <= 0:
                    raise GpuBusyError(
                        f"GPU {card} is still held by {_holder(holder)} after {timeout:.0f} s of "
                        "waiting; wait until it ends, or choose another GPU with --device"
                    ) from None
                say(Progress(f"waiting for GPU {card}, held by {_holder(holder)}", Step.WAIT))
            else:
                return

    acquire(queue_lock)
    try:
        acquire(lock)
    finally:
        queue_lock.release()
    try:
        holder.write_text(json.dumps({"pid": os.getpid(), "since": int(time.time())}))
        yield
    finally:
        with suppress(OSError):
            holder.unlink()
        lock.release()


def _holder(file: Path) -> str:
    """Describe who holds the lock; the note is written just after the lock is taken."""
    try:
        holder = json.loads(file.read_text())
        return f"process {int(holder['pid'])} (for {_ago(time.time() - holder['since'])})"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


def _ago(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
