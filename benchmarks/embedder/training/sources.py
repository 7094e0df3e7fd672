"""The packages that the training set is made of: pinned by version and sha256, licences checked.

`packages.toml` beside this file lists them. They are fetched as `kb ingest pypi:…` fetches, into
the product's cache; an archive with another hash, or under a licence that is not permissive, stops
the build.
"""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pydantic import TypeAdapter

from benchmarks.packages import PinnedPackage, read_files
from ingest.sources.cache import Cache, Fetched
from ingest.sources.curated import listed_licences
from ingest.sources.licence import accepted_licence
from ingest.sources.tree import unpack
from kb.errors import SourceError

PACKAGES_FILE = Path(__file__).with_name("packages.toml")
_HEAD = 4_000
# A file's own header against the package's licence: copyleft, research-only and proprietary files
# are passed over wherever they lie.
_FOREIGN = re.compile(
    r"GNU (?:Lesser |Affero |Library )?General Public|\b[AL]?GPL(?:v?[23])?\b|non-?commercial"
    r"|express license agreement|NVIDIA (?:Proprietary|Software License)|LicenseRef-Nvidia"
    r"|Creative Commons|\bCC[ -]BY|Mozilla Public|Business Source"
    r"|all rights reserved\.? (?:this|no) ",
    re.IGNORECASE,
)
# Folders of other people's code, whose licences the package's metadata does not state.
_VENDORED = (
    "third_party/", "third-party/", "3rdparty/", "thirdparty/", "external/", "externals/",
    "extern/", "_vendor/", "vendored/", "vendored_packages/", "submodules/",
)  # fmt: skip
_TESTS = (
    "tests/", "test/", "testing/", "test_*", "*_test.py", "conftest.py", "locale/", "_generated/",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TrainingPackage(PinnedPackage):
    """One package as `packages.toml` gives it; its licence is compared with the archive's."""

    held_out: bool = False
    """Its pairs validate and are never trained on."""
    vendored: bool = False
    """Its own sources are in a folder with the name of another package."""

    def fetch(self, cache: Cache) -> Fetched:
        """The archive, from the cache or the package index.

        Raises
        ------
        SourceError
            If it cannot be fetched, is another archive, or is not permissively licensed.
        """
        fetched = PinnedPackage.fetch(self, cache)
        # What the metadata leaves unclear was looked up by hand, and must be on the list as well.
        by_hand = (self.licence,) if fetched.licence is None else ()
        if by_hand and self.licence not in listed_licences():
            name = f"{fetched.location}=={fetched.version}"
            raise SourceError(f"{name}: {self.licence} is not among the licences that are taken")
        accepted_licence(fetched, listed_licences(), by_hand, self.licence)
        return fetched


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One text file of a package."""

    package: str
    path: PurePosixPath
    text: str


def training_packages(path: Path = PACKAGES_FILE) -> list[TrainingPackage]:
    """All packages, in the order of the file."""
    rows = tomllib.loads(path.read_text(encoding="utf-8"))["package"]
    return TypeAdapter(list[TrainingPackage]).validate_python(rows)


def files_of(package: TrainingPackage, cache: Cache) -> Iterator[SourceFile]:
    """The package's own files under its own licence, without tests."""
    exclude = (*_TESTS, *package.exclude, *(() if package.vendored else _VENDORED))
    with unpack(package.fetch(cache), cache) as root:
        for path, text in read_files(root, package.include, exclude):
            if not states_foreign_licence(text):
                yield SourceFile(package.name, PurePosixPath(path), text)


def states_foreign_licence(text: str) -> bool:
    """Whether a file's head speaks of a licence that is not permissive."""
    return _FOREIGN.search(text[:_HEAD]) is not None
