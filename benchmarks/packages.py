"""Published packages as benchmarks read them: pinned by sha256, unpacked, file by file."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

from ingest.discovery import FoundFile, UnreadableError, discover, read_text
from ingest.sources.cache import Cache, Fetched
from ingest.sources.packages import Fetcher, fetch_package
from ingest.sources.spec import Package
from kb.errors import SourceError


@dataclass(frozen=True, slots=True)
class PinnedPackage:
    """One package as a `packages.toml` gives it."""

    name: str
    version: str
    sha256: str
    licence: str
    """SPDX expression."""
    include: tuple[str, ...] = ()
    """Patterns in gitignore syntax."""
    exclude: tuple[str, ...] = ()
    artefact: str = "best"
    """`sdist` where there is a wheel too, but only the sdist carries the kernels."""

    def fetch(self, cache: Cache) -> Fetched:
        """The archive, from the cache of sources or the package index.

        Raises
        ------
        SourceError
            If it cannot be fetched, or is not the pinned archive.
        """
        package = Package(
            canonicalize_name(self.name), self.version, prefer_sdist=self.artefact == "sdist"
        )
        fetched = fetched_package(package, cache)
        if fetched.sha256 != self.sha256:
            raise SourceError(
                f"{package}: {fetched.filename} has sha256 {fetched.sha256}, but what is measured "
                f"and trained is of {self.sha256}: change packages.toml if that is meant"
            )
        return fetched


def fetched_package(package: Package, cache: Cache) -> Fetched:
    """The archive of a package, however large."""
    return fetch_package(package, Fetcher(cache, lambda _what, _size: True))


def read_files(
    root: Path, include: Iterable[str] = (), exclude: Iterable[str] = ()
) -> Iterator[tuple[str, str]]:
    """Path and text of every readable file below `root`."""
    for item in discover(root, include=tuple(include), exclude=tuple(exclude)):
        if not isinstance(item, FoundFile):
            continue
        try:
            yield item.path, read_text(item)
        except UnreadableError:
            continue
