"""The manifest of a generation: what made it, and whether this version can read it."""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from kb.errors import IndexMismatchError, IndexUnavailableError
from kb.index.layout import MANIFEST, SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class Manifest:
    """Facts about one generation, written last."""

    schema: int
    generation: str
    embedder: str
    dimensions: int
    chunks: int
    content: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    """Digest over all chunks in order: equal content gives an equal digest."""
    created: str
    """UTC, ISO 8601."""
    versions: dict[str, str]
    """Versions of the package and of the libraries whose files it holds."""
    files: dict[str, str]
    """Path → digest of every other file of the generation."""


_MANIFEST = TypeAdapter(Manifest)


def digests_of(folder: Path) -> dict[str, str]:
    """Path below `folder` → BLAKE2b digest, of every file but the manifest, which holds them."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST)
    return {path.relative_to(folder).as_posix(): _digest(path) for path in paths}


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write `manifest.json` into a generation's folder."""
    text = json.dumps(asdict(manifest), indent=1, sort_keys=True)
    (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")


def read_manifest(folder: Path) -> Manifest:
    """Read and check a generation's manifest.

    Raises
    ------
    FileNotFoundError
        If the generation is gone: a reader then looks at the pointer again.
    IndexMismatchError
        If another schema version wrote it.
    IndexUnavailableError
        If it is not a manifest.
    """
    path = folder / MANIFEST
    try:
        text = path.read_text(encoding="utf-8")
        schema = json.loads(text)["schema"]
    except FileNotFoundError:
        raise
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise IndexUnavailableError(f"{path} is damaged: run `kb rebuild`") from error
    if schema != SCHEMA_VERSION:
        raise IndexMismatchError(
            f"the index at {folder.parent.parent} has schema {schema}, this version reads "
            f"{SCHEMA_VERSION}: run `kb rebuild`"
        )
    try:
        return _MANIFEST.validate_json(text, strict=True)
    except ValidationError as error:
        raise IndexUnavailableError(f"{path} is damaged: run `kb rebuild`") from error
