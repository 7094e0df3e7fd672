"""Digests of a generation's files, which tell damage to any of them."""

import hashlib
from pathlib import Path

from kb.index.layout import MANIFEST


def digests_of(folder: Path) -> dict[str, str]:
    """Path below `folder` → BLAKE2b digest, of every file but the manifest, which holds them."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST)
    return {path.relative_to(folder).as_posix(): _digest(path) for path in paths}


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
