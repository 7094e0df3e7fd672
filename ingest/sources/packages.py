"""Fetch a package, wheel or sdist, as a plain file, check it and put it into the cache."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ingest.sources.archive import members
from ingest.sources.cache import Cache, Fetched, digest_of
from ingest.sources.licence import LICENCE_FILES, ReleaseMetadata, parse_metadata
from ingest.sources.spec import Package
from kb.errors import SourceError

if TYPE_CHECKING:
    from ingest.sources.index import Release

ASK_ABOVE = 100_000_000
"""Bytes of a download that is worth a question first."""

Confirm = Callable[[str, int], bool]
"""Asked with what is to be fetched and its size in bytes; False stops."""

_METADATA_LIMIT = 5_000_000


@dataclass(frozen=True, slots=True)
class Fetcher:
    """What fetching needs besides the name of the source."""

    cache: Cache
    confirm: Confirm

    def require(self, what: str, size: int) -> None:
        """Ask for consent if the download is large.

        Raises
        ------
        SourceError
            If the answer is no.
        """
        if size > ASK_ABOVE and not self.confirm(what, size):
            raise SourceError(
                f"{what} is a download of {size / 1e6:,.0f} MB: add --yes to fetch more than "
                f"{ASK_ABOVE // 1_000_000} MB"
            )


def fetch_package(package: Package, fetcher: Fetcher) -> Fetched:
    """The archive of a package, fetched into the cache; a cached pinned version needs no network.

    Raises
    ------
    SourceError
        If there is no such package or version, it was yanked, its content is not what the index
        promises, it is unsafe to read, too large without consent, or the network fails.
    """
    cache = fetcher.cache
    if package.version and (cached := cache.find(_key(package, package.version))):
        return cached
    # What speaks to an index takes an eighth of a second to import: no local source needs it.
    from ingest.sources.index import Index  # noqa: PLC0415

    index = Index()
    release = index.release(package)
    key = _key(package, release.version)
    if cached := cache.find(key):
        return cached
    size = index.size(release)
    fetcher.require(f"{release} ({release.filename})", size or 0)
    with cache.workspace() as place:
        file = place / release.filename
        index.download(release, file)
        if size is not None and file.stat().st_size != size:
            raise SourceError(
                f"{release}: the download stopped after {file.stat().st_size:,} of {size:,} "
                "bytes: run the command again"
            )
        _check_hashes(file, release)
        metadata = _read_metadata(file, wheel=release.is_wheel)
        fetched = Fetched(
            location=package.location,
            version=release.version,
            sha256=digest_of(file),
            filename=release.filename,
            artefact="wheel" if release.is_wheel else "sdist",
            licence=metadata.licence,
            licence_text=metadata.licence_text,
            url=metadata.url or f"https://pypi.org/project/{package.name}/",
        )
        cache.store(file, fetched, key)
        return fetched


def _key(package: Package, version: str) -> str:
    kind = "sdist" if package.prefer_sdist else "best"
    return f"{package.location}=={version} {kind}"


def _check_hashes(file: Path, release: "Release") -> None:
    for algorithm, accepted in release.hashes.items():
        hash_ = digest_of(file, algorithm)
        if hash_ not in accepted:
            raise SourceError(
                f"{release}: the downloaded {release.filename} does not have the hash that the "
                f"package index gives ({algorithm} is {hash_[:16]}…, not {accepted[0][:16]}…): the "
                "download broke off, or the file was changed on the way or on the server; nothing "
                "was kept, run the command again"
            )


def _read_metadata(file: Path, *, wheel: bool) -> ReleaseMetadata:
    """What METADATA or PKG-INFO states; on the way every member's name and kind is judged."""
    metadata: bytes | None = None
    licences: dict[str, bytes] = {}
    for member in members(file):
        folders, _, name = member.path.rpartition("/")
        if wheel:
            info = folders.endswith(".dist-info") and "/" not in folders
            in_place = ".dist-info" in folders.partition("/")[0]
            metadata_name = "METADATA"
        else:
            info = in_place = "/" not in folders and folders != ""
            metadata_name = "PKG-INFO"
        if info and name == metadata_name:
            metadata = member.read()[:_METADATA_LIMIT]
        elif in_place and name.upper().startswith(LICENCE_FILES):
            licences[member.path] = member.read()[:_METADATA_LIMIT]
    return parse_metadata(metadata, licences)
