"""Atomic file writes: a crash leaves a whole file or none."""

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Final

from kb.errors import KbError

PART: Final = ".part"
"""End of the name of a file that is being written."""


class RunFolderError(KbError):
    """A run folder cannot be written, or is not one."""


def write_atomically(path: Path, text: str) -> None:
    """Write a text file through a temporary one beside it, synced and renamed.

    Raises
    ------
    RunFolderError
        The disk is full, or the folder cannot be written; `path` is as it was.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(path, text)
        sync_folder(path.parent)
    except OSError as error:
        raise cannot_write(path, error) from error


def _replace(path: Path, text: str) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=PART)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)  # mkstemp's 0600 would hide it from who looks at the run
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that a rename in it is durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def cannot_write(path: Path, error: OSError) -> RunFolderError:
    """The error of a failed write, in one line."""
    reason = error.strerror or str(error)
    return RunFolderError(
        f"cannot write {path}: {reason}; the run is kept: free disk space and --resume it"
    )
