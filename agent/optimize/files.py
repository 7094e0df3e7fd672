"""Files that are there whole or not at all, whenever the process or the machine dies."""

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
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=PART)
        temporary = Path(name)
        with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)  # mkstemp's 0600 would hide it from who looks at the run
        temporary.replace(path)
        temporary = None
        sync_folder(path.parent)
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                temporary.unlink()


def sync_folder(folder: Path) -> None:
    """Make a rename last."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def cannot_write(path: Path, error: OSError) -> RunFolderError:
    """The one line about a failed write."""
    reason = error.strerror or str(error)
    return RunFolderError(
        f"cannot write {path}: {reason}; the run is kept: make room and continue it with --resume"
    )
