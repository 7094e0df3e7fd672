"""How a published source is written on the command line: `pypi:NAME[==VERSION]`, `git+URL@REV`."""

import re
from dataclasses import dataclass

from packaging.utils import InvalidName, canonicalize_name
from packaging.version import InvalidVersion, Version

from kb.errors import InvalidInputError

PYPI = "pypi:"
GIT = "git+"

_GIT_URL = re.compile(r"(https|file)://[^\s@]*[^\s@/]")
"""Only these two transports: `ext::` and `ssh` options can run commands, `git:` and `http:` are
neither authenticated nor encrypted. No `@`, so that no password comes into the index."""

_REVISION = re.compile(r"[0-9A-Za-z][0-9A-Za-z._/+-]*")
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Package:
    """A package of the index that pip is configured with."""

    name: str
    """In canonical form."""
    version: str | None = None
    """None: the newest that is not yanked and not a pre-release."""
    prefer_sdist: bool = False
    """Take the sdist although there is a wheel: where only the sdist carries the kernels."""

    @property
    def location(self) -> str:
        """The location that an index records; the version is recorded separately."""
        return PYPI + self.name

    def __str__(self) -> str:
        return self.location + (f"=={self.version}" if self.version else "")


@dataclass(frozen=True, slots=True)
class Repository:
    """One revision of a git repository."""

    url: str
    revision: str
    """A tag, branch or full commit id."""
    fixed: bool = False
    """The revision is known never to move, as a tag of the curated list: it is asked for once."""

    @property
    def location(self) -> str:
        """The location that an index records; the commit is recorded separately."""
        return GIT + self.url

    @property
    def name(self) -> str:
        """The repository's own name."""
        return self.url.rsplit("/", 1)[-1].removesuffix(".git")

    @property
    def pinned(self) -> bool:
        """Whether the revision always names the same commit."""
        return self.fixed or _COMMIT.fullmatch(self.revision) is not None

    def __str__(self) -> str:
        return f"{self.location}@{self.revision}"


Spec = Package | Repository


def is_published(text: str) -> bool:
    """Whether a source's location names a package or repository rather than a path."""
    return text.startswith((PYPI, GIT))


def parse_spec(text: str) -> Spec:
    """Read `pypi:NAME[==VERSION]` or `git+https://…@REV`.

    Raises
    ------
    InvalidInputError
        If it is neither.
    """
    if text.startswith(PYPI):
        return _package(text)
    if text.startswith(GIT):
        return _repository(text)
    raise InvalidInputError(f"'{text}' is neither pypi:NAME[==VERSION] nor git+https://…@REVISION")


def _package(text: str) -> Package:
    name, pinned, version = text.removeprefix(PYPI).partition("==")
    try:
        canonical = canonicalize_name(name.strip(), validate=True)
        normalized = str(Version(version)) if pinned else None
    except (InvalidName, InvalidVersion) as error:
        raise InvalidInputError(
            f"'{text}' is not a package: write pypi:NAME or pypi:NAME==VERSION ({error})"
        ) from error
    return Package(canonical, normalized)


def _repository(text: str) -> Repository:
    url, _, revision = text.removeprefix(GIT).rpartition("@")
    if not _GIT_URL.fullmatch(url):
        raise InvalidInputError(
            f"'{text}' is not a repository: write git+https://HOST/PATH@REVISION, with a tag, a "
            "branch or a full commit id (file:// works too; ssh and addresses with a login do not)"
        )
    if not _REVISION.fullmatch(revision) or ".." in revision:
        raise InvalidInputError(f"'{revision}' is not a revision: give a tag, branch or commit id")
    return Repository(url, revision)
