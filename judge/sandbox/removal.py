"""Remove a folder that untrusted code has filled, whatever its depth and names."""

import itertools
import os
from contextlib import suppress
from pathlib import Path


def remove(folder: Path) -> None:
    """Delete `folder` and all below it; no link is followed. What cannot be deleted stays.

    Call it when nothing writes there any more. `shutil.rmtree` calls itself for every level and
    builds longer and longer paths: some thousand nested folders end it. Here every folder that is
    found is first moved up beside the others, so that no path is longer than three names.
    """
    top = os.fspath(folder)
    numbers = itertools.count()
    pending: list[str] = []
    _empty(top, top, numbers, pending)
    while pending:
        path = pending.pop()
        _empty(path, top, numbers, pending)
        with suppress(OSError):
            os.rmdir(path)  # noqa: PTH106
    with suppress(OSError):
        os.rmdir(top)  # noqa: PTH106


def _empty(path: str, top: str, numbers: "itertools.count[int]", pending: list[str]) -> None:
    """Delete the files in `path`; move its folders to new names in `top`, and note these."""
    with suppress(OSError):
        os.chmod(path, 0o700)  # noqa: PTH101 (a real folder: it was looked at without following)
    try:
        with os.scandir(path) as entries:
            children = [(entry.path, entry.is_dir(follow_symlinks=False)) for entry in entries]
    except OSError:
        return
    for child, is_folder in children:
        if not is_folder:
            with suppress(OSError):
                os.unlink(child)  # noqa: PTH108
            continue
        new_path = _unused_name(top, numbers)
        with suppress(OSError):
            os.chmod(child, 0o700)  # noqa: PTH101
        try:
            os.rename(child, new_path)  # noqa: PTH104
        except OSError:
            new_path = child
        pending.append(new_path)


def _unused_name(top: str, numbers: "itertools.count[int]") -> str:
    """A name in `top` that nothing has; the code may have made such names itself."""
    while True:
        name = os.path.join(top, f".removing-{next(numbers)}")  # noqa: PTH118
        if not os.path.lexists(name):
            return name
