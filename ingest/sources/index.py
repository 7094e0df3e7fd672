"""Find a package's files on the index that pip is configured with; pip builds none of it."""

import ast
import logging
import ssl
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import httpx2
from packaging.version import Version
from unearth import PackageFinder
from unearth.auth import MultiDomainBasicAuth
from unearth.fetchers import PyPIClient

from ingest.sources.spec import Package
from kb.errors import SourceError

DEFAULT_INDEX = "https://pypi.org/simple"
_VERSIONS_SHOWN = 5
_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Release:
    """One file of a release, as the index lists it."""

    package: Package
    version: str
    filename: str
    url: str
    hashes: dict[str, list[str]]
    """Algorithm to accepted digests; empty where the index gives none."""
    is_wheel: bool

    def __str__(self) -> str:
        return f"{self.package.name} {self.version}"


@dataclass(frozen=True, slots=True)
class PipSettings:
    """What pip would use: indexes, links, hosts without certificate, CA file."""

    indexes: tuple[str, ...]
    find_links: tuple[str, ...]
    trusted_hosts: tuple[str, ...]
    ca_file: str | None
    proxy: str | None

    @classmethod
    def current(cls) -> "PipSettings":
        """Ask pip for its configuration: files and environment, in pip's own order.

        Raises
        ------
        SourceError
            If this Python has no pip.
        """
        process = subprocess.run(
            [sys.executable, "-m", "pip", "config", "list"],
            capture_output=True,
            text=True,
            check=False,
        )
        if process.returncode:
            last = (process.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise SourceError(f"pip is needed to fetch packages, but it failed: {last}")
        sections: dict[str, dict[str, str]] = {"global": {}, "download": {}, ":env:": {}}
        for line in process.stdout.splitlines():
            name, _, value = line.partition("=")
            section, _, key = name.rpartition(".")
            if section in sections:
                sections[section][key] = str(ast.literal_eval(value))
        values = {**sections["global"], **sections["download"], **sections[":env:"]}

        def many(key: str) -> tuple[str, ...]:
            return tuple(values.get(key, "").split())

        no_index = values.get("no-index", "").lower() in {"1", "true", "yes", "on"}
        main = values.get("index-url", DEFAULT_INDEX)
        links = (link for link in many("find-links") if "://" in link or Path(link).exists())
        return cls(
            indexes=() if no_index else (main, *many("extra-index-url")),
            find_links=tuple(links),
            trusted_hosts=many("trusted-host"),
            ca_file=values.get("cert"),
            proxy=values.get("proxy"),
        )


class Index:
    """The configured package index."""

    def __init__(self, settings: PipSettings | None = None) -> None:
        self._settings = settings or PipSettings.current()
        verify: ssl.SSLContext | bool = True
        if self._settings.ca_file:
            try:
                verify = ssl.create_default_context(cafile=self._settings.ca_file)
            except OSError as error:
                raise SourceError(f"pip's CA file {self._settings.ca_file}: {error}") from error
        options: dict[str, Any] = {"proxy": self._settings.proxy} if self._settings.proxy else {}
        self.client = PyPIClient(
            trusted_hosts=self._settings.trusted_hosts,
            verify=verify,
            timeout=_TIMEOUT_S,
            follow_redirects=True,
            auth=MultiDomainBasicAuth(prompting=False, index_urls=self._settings.indexes),
            **options,
        )

    def release(self, package: Package) -> Release:
        """The file to get, of the pinned or newest version: a wheel for this Python, or the sdist.

        Raises
        ------
        SourceError
            If the index has no such package, version or file, the version was yanked, or the index
            cannot be reached.
        """
        if not self._settings.indexes and not self._settings.find_links:
            raise SourceError(f"{package}: pip's configuration turns the index off (no-index)")
        files = self._files(package)
        versions = sorted({Version(file.version) for file in files if file.version}, reverse=True)
        if package.version is None:
            usable = [file for file in files if not file.link.is_yanked]
            stable = [file for file in usable if not Version(file.version).is_prerelease]
            pool = stable or usable
            if not pool:
                raise SourceError(f"every version of {package.name} was yanked: pin another source")
            newest = max(Version(file.version) for file in pool)
        else:
            newest = Version(package.version)
            if newest not in versions:
                newest_versions = ", ".join(str(version) for version in versions[:_VERSIONS_SHOWN])
                raise SourceError(
                    f"{package.name} has no version {package.version} for this Python on the "
                    f"package index; the newest are {newest_versions}"
                )
            pool = list(files)
        matches = [file for file in pool if Version(file.version) == newest]
        usable_files = [file for file in matches if not file.link.is_yanked]
        if not usable_files:
            why = matches[0].link.yank_reason
            raise SourceError(
                f"{package.name} {newest} was yanked"
                + (f" ({why})" if why and why != "True" else "")
                + ": choose another version"
            )
        # The best match of the kind that is preferred, or else of the other.
        link = min(usable_files, key=lambda file: file.link.is_wheel == package.prefer_sdist).link
        return Release(
            package=package,
            version=str(newest),
            filename=link.filename,
            url=link.normalized,
            hashes=dict(link.hash_option or {}),
            is_wheel=link.is_wheel,
        )

    def size(self, release: Release) -> int | None:
        """Bytes of the file, if the server says."""
        with _network_errors(str(release)), self.client.get_stream(release.url) as answer:
            answer.raise_for_status()
            length = answer.headers.get("Content-Length", "")
            return int(length) if length.isdigit() else None

    def download(self, release: Release, target: Path) -> None:
        """Write the file's bytes to `target`. It is neither opened nor run.

        Raises
        ------
        SourceError
            If the server refuses, or the download breaks off.
        """
        with _network_errors(str(release)), self.client.get_stream(release.url) as answer:
            answer.raise_for_status()
            with target.open("wb") as file:
                for block in answer.iter_raw():  # decoded, a .tar.gz would lose its gzip
                    file.write(block)

    def _files(self, package: Package) -> Sequence[Any]:
        finder = PackageFinder(
            session=cast(Any, self.client),  # its protocol is narrower than httpx2's methods
            index_urls=self._settings.indexes,
            find_links=self._settings.find_links,
        )
        with _network_errors(package.name), _logged_failures() as failures:
            packages = list(finder.find_all_packages(package.name, allow_yanked=True))
        if packages:
            return packages
        serious = [failure for failure in failures if "(404)" not in failure]
        if serious:
            raise SourceError(f"{package.name}: the package index failed: {serious[0]}")
        raise SourceError(
            f"the package index has no package '{package.name}' with files for this Python"
        )


@contextmanager
def _network_errors(what: str) -> Iterator[None]:
    try:
        yield
    except httpx2.HTTPStatusError as error:
        raise SourceError(
            f"{what}: the package index answered {error.response.status_code} for "
            f"{error.request.url.path}"
        ) from error
    except (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.ReadTimeout) as error:
        raise SourceError(f"{what}: the download stopped ({error}): run the command again") from (
            error
        )
    except httpx2.HTTPError as error:
        raise SourceError(
            f"{what}: the package index cannot be reached ({error}): check the network, or pin a "
            "version that was fetched before"
        ) from error


@contextmanager
def _logged_failures() -> Iterator[list[str]]:
    """What the finder only logs: pages of indexes that it could not read."""
    messages: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    logger = logging.getLogger("unearth.collector")
    handler, propagate = Collect(logging.WARNING), logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield messages
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagate
