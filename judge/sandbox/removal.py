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
    waiting: list[str] = []
    _empty(top, top, numbers, waiting)
    while waiting:
        path = waiting.pop()
        _empty(path, top, numbers, waiting)
        with suppress(OSError):
            os.rmdir(path)  # noqa: PTH106
    with suppress(OSError):
        os.rmdir(top)  # noqa: PTH106


def _empty(path: str, top: str, numbers: "itertools.count[int]", waiting: list[str]) -> None:
    """Delete the files in `path`; move its folders to new names in `top`, and note these."""
    with suppress(OSError):
        os.chmod(path, 0o700)  # noqa: PTH101 (a real folder: it was looked at without following)
    try:
        with os.scandir(path) as entries:
            found = [(entry.path, entry.is_dir(follow_symlinks=False)) for entry in entries]
    except OSError:
        return
    for inside, is_folder in found:
        if not is_folder:
            with suppress(OSError):
                os.unlink(inside)  # noqa: PTH108
            continue
        moved = _free(top, numbers)
        with suppress(OSError):
            os.chmod(inside, 0o700)  # noqa: PTH101
        try:
            os.rename(inside, moved)  # noqa: PTH104
        except OSError:
            moved = inside
        waiting.append(moved)


def _free(top: str, numbers: "itertools.count[int]") -> str:
    """A name in `top` that nothing has; the code may have made such names itself."""
    while True:
        name = os.path.join(top, f".removing-{next(numbers)}")  # noqa: PTH118
        if not os.path.lexists(name):
            return name
