"""The cache of fetched archives: each under its sha256, with a record of its release."""

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from filelock import FileLock, Timeout
from platformdirs import user_cache_path

from kb.errors import SourceError

GIT_ARCHIVE = "tree.tar"
"""Name of every archive that was made of a git commit."""

FORMAT = "1"
"""Part of a note's name; raised when the meaning of `Fetched` changes: old notes are not read."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """One archive, with what its index or repository and its metadata say about it."""

    location: str
    version: str
    """The package's version, or the repository's commit id."""
    sha256: str
    filename: str
    artefact: str
    """`wheel`, `sdist` or `git`."""
    licence: str | None = None
    """SPDX expression, where the archive's metadata or licence file gives one."""
    licence_text: str = ""
    """What it says instead, where that is not SPDX and could not be read as such."""
    url: str | None = None
    """Homepage."""


class Cache:
    """A folder of archives that may be deleted at any time, at the cost of fetching them again."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or user_cache_path("kernel-kb") / "sources"

    def archive(self, fetched: Fetched) -> Path:
        """The path of the archive, whether it exists or not."""
        return self.root / "archives" / fetched.sha256 / fetched.filename

    def find(self, key: str) -> Fetched | None:
        """What was fetched under that key, if it is still there."""
        try:
            fetched = Fetched(**json.loads(self._note(key).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None
        return fetched if self.archive(fetched).is_file() else None

    def by_hash(self, location: str, version: str, sha256: str) -> Fetched | None:
        """A release of which only the hash is known, if its archive is still there."""
        for file in (self.root / "archives" / sha256).glob("*"):
            kind = "wheel" if file.suffix == ".whl" else "sdist"
            kind = "git" if file.name == GIT_ARCHIVE else kind
            return Fetched(location, version, sha256, file.name, kind)
        return None

    def store(self, file: Path, fetched: Fetched, *keys: str) -> None:
        """Move a complete file here, then record its keys: a kill leaves both or neither."""
        place = self.archive(fetched)
        place.parent.mkdir(parents=True, exist_ok=True)
        file.replace(place)
        for key in keys:
            note = self._note(key)
            note.parent.mkdir(parents=True, exist_ok=True)
            draft = note.with_suffix(f".{os.getpid()}")
            draft.write_text(json.dumps(asdict(fetched), indent=1), encoding="utf-8")
            draft.replace(note)

    def verified_archive(self, fetched: Fetched) -> Path:
        """The archive, after its content was compared with its hash.

        Raises
        ------
        SourceError
            If it is gone, or not what was fetched; then it is deleted.
        """
        place = self.archive(fetched)
        try:
            intact = digest_of(place) == fetched.sha256
        except OSError as error:
            raise SourceError(f"{place} cannot be read: {error.strerror or error}") from error
        if not intact:
            place.unlink(missing_ok=True)
            raise SourceError(f"{place} was damaged and has been deleted: run the command again")
        return place

    @contextmanager
    def workspace(self) -> Iterator[Path]:
        """A scratch folder on the cache's file system; also deletes those of killed processes."""
        parent = self.root / "tmp"
        try:
            parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SourceError(
                f"the cache folder {self.root} cannot be written: {error.strerror}; set "
                "XDG_CACHE_HOME to one that can"
            ) from error
        for stale in parent.glob("*.lock"):
            _clear(stale)
        place = parent / secrets.token_hex(8)
        # Locked before it exists: another process clears whatever it finds unlocked.
        lock = FileLock(f"{place}.lock")
        lock.acquire()
        try:
            place.mkdir(mode=0o700)
            yield place
        finally:
            shutil.rmtree(place, ignore_errors=True)
            lock.release()
            Path(lock.lock_file).unlink(missing_ok=True)

    def _note(self, key: str) -> Path:
        digest = hashlib.sha256(f"{FORMAT} {key}".encode()).hexdigest()
        return self.root / "notes" / f"{digest[:32]}.json"


def _clear(lock_file: Path) -> None:
    lock = FileLock(lock_file)
    try:
        lock.acquire(blocking=False)
    except (Timeout, OSError):
        return  # its owner lives
    shutil.rmtree(lock_file.with_suffix(""), ignore_errors=True)
    lock.release()
    lock_file.unlink(missing_ok=True)


def digest_of(path: Path, algorithm: str = "sha256") -> str:
    """A file's digest by one of hashlib's algorithms, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, algorithm).hexdigest()
