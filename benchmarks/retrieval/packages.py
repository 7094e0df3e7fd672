"""The pinned packages of the benchmark: fetched as any source, and compared with their sha256."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pathspec
from pydantic import TypeAdapter

from benchmarks.packages import PinnedPackage

PACKAGES_FILE = Path(__file__).with_name("packages.toml")


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
