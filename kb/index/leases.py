"""Reader leases on generations: shared locks that keep one from being collected."""

import contextlib
import errno
import fcntl
import os
import shutil
from pathlib import Path

from kb.index.layout import MANIFEST


class Lease:
    """A shared lock on a generation's manifest, held until `release`.

    The lock is taken on a file opened for reading, so a reader needs no write permission, and the
    kernel drops it when the process ends in any way.
    """

    def __init__(self, folder: Path) -> None:
        """Take the lease.

        Raises
        ------
        FileNotFoundError
            If the generation is gone or is being collected.
        """
        path = folder / MANIFEST
        self._fd: int | None = None
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            # A collector that held the lock just before has renamed the folder away.
            if not os.path.samestat(os.fstat(self._fd), path.stat()):
                raise FileNotFoundError(errno.ENOENT, "generation was collected", str(folder))
        except BlockingIOError as error:
            self.release()
            raise FileNotFoundError(
                errno.ENOENT, "generation is being collected", str(folder)
            ) from error
        except OSError:
            self.release()
            raise

    def release(self) -> None:
        """Give the lease back; a second call does nothing."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def __del__(self) -> None:
        self.release()


def collect(folder: Path, trash: Path) -> bool:
    """Delete a generation unless a reader holds it. Returns whether it was deleted."""
    try:
        # For writing, though nothing is written: over NFS an exclusive lock needs it (flock(2)).
        fd = os.open(folder / MANIFEST, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        shutil.rmtree(folder, ignore_errors=True)
        return True
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        trash.mkdir(parents=True, exist_ok=True)
        doomed = trash / folder.name
        folder.rename(doomed)
    except OSError:
        return False
    finally:
        os.close(fd)
    with contextlib.suppress(OSError):
        shutil.rmtree(doomed)
    return True
