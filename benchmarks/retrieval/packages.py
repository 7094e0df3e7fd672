"""The pinned packages of the benchmark: fetched as any source, and compared with their sha256."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pathspec
from pydantic import TypeAdapter

from ingest.published import Origin
from ingest.sources.cache import Cache
from ingest.sources.packages import Fetcher, fetch_package
from ingest.sources.spec import Package
from kb.errors import SourceError

PACKAGES_FILE = Path(__file__).with_name("packages.toml")


@dataclass(frozen=True, slots=True)
class PinnedPackage:
    """One package as `packages.toml` gives it."""

    name: str
    version: str
    sha256: str
    licence: str
    include: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    artefact: str = "wheel"
    """`sdist` where there is a wheel too, but only the sdist carries the kernels."""

    def fetch(self) -> Origin:
        """The archive, from the cache of sources or the package index.

        Raises
        ------
        SourceError
            If it cannot be fetched, or is not the archive that the figures belong to.
        """
        cache = Cache()
        package = Package(self.name, self.version, prefer_sdist=self.artefact == "sdist")
        fetched = fetch_package(package, Fetcher(cache, lambda _what, _size: True))
        if fetched.sha256 != self.sha256:
            raise SourceError(
                f"{package}: {fetched.filename} has sha256 {fetched.sha256[:16]}…, but the "
                f"benchmark is of {self.sha256[:16]}…: its figures would not compare"
            )
        return Origin(fetched, self.licence, fetched.url, cache)


@dataclass(frozen=True, slots=True)
class IndexSet:
    """One index to search: which part of which packages it takes, beside the shipped corpus."""

    name: str
    functions_only: bool
    """Leave out the windows between functions."""
    take: dict[str, tuple[str, ...]]
    """Package → patterns in gitignore syntax."""

    def takes(self, package: str, path: str) -> bool:
        """Whether a file of a package belongs to it."""
        spec = pathspec.GitIgnoreSpec.from_lines(self.take.get(package, ()))
        return spec.match_file(path)


def pinned_packages() -> dict[str, PinnedPackage]:
    """All packages by name."""
    packages = TypeAdapter(list[PinnedPackage]).validate_python(_file()["package"])
    return {package.name: package for package in packages}


def index_set(name: str) -> IndexSet:
    """A set of `packages.toml` by name."""
    return TypeAdapter(IndexSet).validate_python({"name": name, **_file()["set"][name]})


def _file() -> dict[str, Any]:
    return tomllib.loads(PACKAGES_FILE.read_text(encoding="utf-8"))
