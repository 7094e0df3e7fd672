"""Unpack the sources and documents of a fetched archive, without packaging metadata."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from ingest.chunkers import SUPPORTED_SUFFIXES
from ingest.sources.archive import extract
from ingest.sources.cache import Cache, Fetched
from kb.errors import SourceError

_PACKAGING = re.compile(r"[^/]+\.(dist|egg)-info")
_LEGAL = ("license", "licence", "copying", "notice")
"""Beginnings of names of legal texts: cited by their SPDX name, not searched for technique."""


def _is_ingestible(path: str) -> bool:
    place = PurePosixPath(path)
    if place.suffix.lower() not in SUPPORTED_SUFFIXES:
        return False
    if any(part.startswith(".") or _PACKAGING.fullmatch(part) for part in place.parts):
        return False
    return not place.name.lower().startswith(_LEGAL) or place.suffix == ".py"


@contextmanager
def unpack(fetched: Fetched, cache: Cache) -> Iterator[Path]:
    """A scratch folder with the archive's sources, until the context ends.

    Raises
    ------
    SourceError
        If the archive is damaged or unsafe, or holds nothing that can be ingested.
    """
    with cache.workspace() as place:
        # Ignore rules of a work tree around the cache do not reach into it.
        (place / ".git").mkdir()
        root = place / "tree"
        root.mkdir()
        count = extract(
            cache.verified_archive(fetched),
            root,
            _is_ingestible,
            strip_top=fetched.artefact == "sdist",
            links_are_errors=fetched.artefact != "git",
        )
        if not count:
            raise SourceError(
                f"{fetched.filename} of {fetched.location} {fetched.version} holds no sources or "
                "documents, only built files: try its repository with git+https://…@REVISION"
            )
        yield root
