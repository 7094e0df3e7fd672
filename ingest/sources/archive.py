"""Read wheels, sdists and git archives without trusting them.

Only regular files below the target are written, and only those that the caller keeps. An archive
with a name that leads elsewhere, a link, a device or content beyond the limits is refused whole.
"""

import bz2
import gzip
import io
import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, cast

from kb.errors import SourceError

_BLOCK = 1 << 16
_MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True)
class ArchiveLimits:
    """How much an archive may hold. The largest real one seen (vLLM's sdist, PyTorch's tree) has
    20,000 files, 200 MB and a ratio of 5."""

    files: int = 200_000
    single: int = 64 * _MEGABYTE
    """Bytes of one file that is kept."""
    total: int = 2_000 * _MEGABYTE
    """Bytes of all that is decompressed."""
    ratio: int = 100
    """Decompressed over compressed size; text reaches 10, deflate's zeros 1,030."""
    ratio_from: int = 20 * _MEGABYTE
    """Below this decompressed size the ratio is not looked at: small and repetitive is harmless."""


@dataclass(frozen=True, slots=True)
class Member:
    """One regular file of an archive; read it before requesting the next."""

    path: str
    """With `/`, relative, without `..`."""
    read: Callable[[], bytes]


LIMITS = ArchiveLimits()


def members(archive: Path, *, links_are_errors: bool = True) -> Iterator[Member]:
    """The regular files of a zip or tar archive, each checked before it is yielded.

    Raises
    ------
    SourceError
        If the archive is damaged, has an unsafe name, a link (unless links are to be skipped) or a
        special file, or exceeds the limits.
    """
    walk = _zip_members if zipfile.is_zipfile(archive) else _tar_members
    paths: set[str] = set()
    with _damage_as_error(archive):
        for member in walk(archive, links_are_errors):
            if len(paths) >= LIMITS.files:
                raise SourceError(f"{archive.name} is refused: more than {LIMITS.files:,} files")
            if member.path in paths:
                raise SourceError(f"{archive.name} is refused: it holds {member.path!r} twice")
            paths.add(member.path)
            yield Member(member.path, partial(_read, archive, member))


def extract(
    archive: Path,
    target: Path,
    keep: Callable[[str], bool],
    *,
    strip_top: bool = False,
    links_are_errors: bool = True,
) -> int:
    """Write the files that `keep` accepts below `target`, which must be empty; return their number.

    `strip_top` removes the first folder of every path, which sdists have.

    Raises
    ------
    SourceError
        As `members` does; the caller deletes what was already written.
    """
    count = 0
    for member in members(archive, links_are_errors=links_are_errors):
        path = member.path.partition("/")[2] if strip_top else member.path
        if not path or not keep(path):
            continue
        place = target / path
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open("xb") as stream:
                stream.write(member.read())
        except OSError as error:
            raise SourceError(
                f"{archive.name}: {path!r} cannot be written: {error.strerror or error}"
            ) from error
        count += 1
    return count


def _read(archive: Path, member: Member) -> bytes:
    with _damage_as_error(archive):
        return member.read()


@contextmanager
def _damage_as_error(archive: Path) -> Iterator[None]:
    """What the decompressors raise on damaged or encrypted content, as one error."""
    try:
        yield
    except (
        zipfile.BadZipFile,
        tarfile.TarError,
        zlib.error,
        lzma.LZMAError,
        EOFError,
        OSError,
        ValueError,
        RuntimeError,  # an encrypted member; an unknown compression (NotImplementedError)
    ) as error:
        raise SourceError(f"{archive.name} is not a readable archive: {error}") from error


def _safe(archive: Path, name: str) -> str:
    """The member's path, or a refusal of the archive."""
    path = PurePosixPath(name)
    unsafe = (
        path.is_absolute()
        or ".." in path.parts
        or "\\" in name
        or not name.isprintable()
        or (path.parts and path.parts[0].endswith(":"))
    )
    if unsafe or not path.parts:
        raise SourceError(f"{archive.name} is refused: its member {name!r} has an unsafe name")
    return str(path)


def _too_much(archive: Path, what: str) -> SourceError:
    return SourceError(f"{archive.name} is refused: {what}, as in a decompression bomb")


def _refuse(archive: Path, path: str, is_link: bool, links_are_errors: bool) -> None:
    """Refuse an archive for a member that is no file, unless links are passed over."""
    if not is_link or links_are_errors:
        what = "a link" if is_link else "a special file"
        raise SourceError(f"{archive.name} is refused: its member {path!r} is {what}")


def _zip_members(archive: Path, links_are_errors: bool) -> Iterator[Member]:
    budget = _Budget(archive)
    with zipfile.ZipFile(archive) as archive_file:
        for info in archive_file.infolist():
            mode = info.external_attr >> 16
            path = _safe(archive, info.filename)
            if info.is_dir():
                continue
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
                _refuse(archive, path, stat.S_ISLNK(mode), links_are_errors)
                continue

            def read(info: zipfile.ZipInfo = info, path: str = path) -> bytes:
                with archive_file.open(info) as stream:
                    return budget.read(stream, path)

            yield Member(path, read)


def _tar_members(archive: Path, links_are_errors: bool) -> Iterator[Member]:
    with (
        _decompress(archive) as plain,
        tarfile.open(fileobj=_Bounded(plain, archive), mode="r:") as archive_file,
    ):
        for info in archive_file:
            path = _safe(archive, info.name)
            if info.isdir():
                continue
            if not info.isreg():
                _refuse(archive, path, info.issym() or info.islnk(), links_are_errors)
                continue

            def read(info: tarfile.TarInfo = info, path: str = path) -> bytes:
                if info.size > LIMITS.single:
                    raise _too_much(archive, f"{path!r} has {info.size:,} bytes")
                stream = archive_file.extractfile(info)
                assert stream is not None  # a regular file
                with stream:
                    data = stream.read()
                if len(data) != info.size:
                    raise tarfile.ReadError(f"{path!r} is cut short")
                return data

            yield Member(path, read)


class _Budget:
    """Counts what a zip's members give when they are decompressed; their headers may lie."""

    def __init__(self, archive: Path) -> None:
        self.archive, self.used, self.most = archive, 0, _most(archive)

    def read(self, stream: IO[bytes], path: str) -> bytes:
        parts: list[bytes] = []
        size = 0
        while block := stream.read(_BLOCK):
            size += len(block)
            self.used += len(block)
            if size > LIMITS.single:
                raise _too_much(self.archive, f"{path!r} grows beyond {LIMITS.single:,} bytes")
            if self.used > self.most:
                raise _too_much(self.archive, f"it grows beyond {self.most:,} bytes")
            parts.append(block)
        return b"".join(parts)


def _most(archive: Path) -> int:
    """Bytes that the archive may become."""
    by_ratio = max(LIMITS.ratio_from, LIMITS.ratio * archive.stat().st_size)
    return min(LIMITS.total, by_ratio)


@contextmanager
def _decompress(archive: Path) -> Iterator[IO[bytes]]:
    with archive.open("rb") as raw:
        head = raw.read(6)
        raw.seek(0)
        if head.startswith(b"\x1f\x8b"):
            stream = cast(IO[bytes], gzip.GzipFile(fileobj=raw, mode="rb"))
        elif head.startswith(b"BZh"):
            stream = cast(IO[bytes], bz2.BZ2File(raw))
        elif head.startswith(b"\xfd7zXZ"):
            stream = cast(IO[bytes], lzma.LZMAFile(raw))  # noqa: SIM115 - closed below
        else:
            stream = raw
        with stream:
            yield stream


class _Bounded(io.RawIOBase):
    """A tar stream that ends in a refusal beyond the limits, whatever the headers make of it."""

    def __init__(self, stream: IO[bytes], archive: Path) -> None:
        self._stream, self._archive, self._most = stream, archive, _most(archive)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._stream.tell()

    def seek(self, offset: int, whence: int = 0, /) -> int:
        if whence == 0 and offset > self._most:
            raise _too_much(self._archive, f"it grows beyond {self._most:,} bytes")
        return self._stream.seek(offset, whence)

    def read(self, size: int = -1, /) -> bytes:
        # One read is a header, an extended header or a whole file.
        if size < 0 or size > LIMITS.single + _BLOCK:
            raise _too_much(self._archive, f"it asks for {size:,} bytes at once")
        if self._stream.tell() + size > self._most + _MEGABYTE:
            raise _too_much(self._archive, f"it grows beyond {self._most:,} bytes")
        return self._stream.read(size)
