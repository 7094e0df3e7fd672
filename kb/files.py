"""Files of a source, opened so that no name in it leads anywhere else.

A source is a folder that somebody else filled. Below its root no symbolic link is followed, in any
part of a path; what is no regular file (a pipe, a device) is not read; and no file is read beyond a
limit. A hard link is the file itself: whoever could make one could read it.
"""

import os
import stat
from contextlib import ExitStack, suppress
from pathlib import Path, PurePosixPath

MAX_BYTES = 2_000_000
"""Largest file taken. Hand-written sources stay far below; what exceeds it is generated or data."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# Without waiting: opening a pipe would last until somebody writes to it.
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC


class RefusedFileError(OSError):
    """A name of a source that is not read. `strerror` says why."""

    def __init__(self, reason: str, path: object) -> None:
        super().__init__(0, reason, str(path))


def read_below(
    root: Path, path: str | PurePosixPath, *, limit: int = MAX_BYTES, first: int | None = None
) -> bytes:
    """The content of a file of a source, or its first bytes.

    Parameters
    ----------
    root
        The source's folder, which may itself be reached by links.
    path
        Relative to it, with `/`.
    limit
        Largest file, in bytes.
    first
        How many bytes are read; by default all.

    Raises
    ------
    OSError
        There is no such file, it cannot be read, or it is a link or a pipe, leads out of the root
        or is too large (`RefusedFileError`).
    """
    parts = PurePosixPath(path).parts
    if not parts or ".." in parts or PurePosixPath(path).is_absolute():
        raise RefusedFileError("leads out of its source", path)
    with ExitStack() as stack:
        folder = os.open(root, _FOLDER)
        stack.callback(os.close, folder)
        for part in parts[:-1]:
            folder = _open(part, _FOLDER | os.O_NOFOLLOW, folder, path)
            stack.callback(os.close, folder)
        file = _open(parts[-1], _FILE, folder, path)
        stack.callback(os.close, file)
        return _content(file, path, limit, first)


def read_regular(path: Path, *, limit: int = MAX_BYTES) -> bytes:
    """The content of one file that is no link, pipe or device; raises as `read_below`."""
    return read_below(path.parent, path.name, limit=limit)


def _open(name: str, flags: int, folder: int, path: object) -> int:
    try:
        return os.open(name, flags, dir_fd=folder)
    except OSError as error:
        mode = 0
        with suppress(OSError):
            mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        if stat.S_ISLNK(mode):
            raise RefusedFileError("symbolic link; links are not followed", path) from error
        if mode and not (flags & os.O_DIRECTORY or stat.S_ISREG(mode)):
            raise RefusedFileError("not a regular file", path) from error
        raise


def _content(file: int, path: object, limit: int, first: int | None) -> bytes:
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode):
        raise RefusedFileError("not a regular file", path)
    if status.st_size > limit:
        raise RefusedFileError(_too_large(status.st_size, limit), path)
    size = limit + 1 if first is None else first
    with os.fdopen(os.dup(file), "rb") as stream:
        data = stream.read(size)
    if len(data) > limit:  # it has grown since
        raise RefusedFileError(_too_large(len(data), limit), path)
    return data


def _too_large(size: int, limit: int) -> str:
    return f"too large: {size:,} bytes, the limit is {limit:,} bytes"
