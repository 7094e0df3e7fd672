"""Where an index and its generations stand on disk, and which generation is current."""

import os
import re
from pathlib import Path

import platformdirs

from kb.errors import IndexUnavailableError

SCHEMA_VERSION = 6
"""Raised whenever a generation written by an older version can no longer be read."""

POINTER = "CURRENT"
MANIFEST = "manifest.json"
SOURCES = "sources.json"
ENTRIES = "entries.json"
CHUNKS = "chunks.sqlite"
CHROMA = "chroma"
LEXICAL = "lexical"
VECTORS = "vectors.npy"
COLUMNS = "columns"

_NAME = re.compile(r"g(\d{6,})-[0-9a-f]{8}")


def default_index_dir() -> Path:
    """`$KB_INDEX`, else `index` under the platform's user-data folder."""
    configured = os.environ.get("KB_INDEX")
    if configured:
        return Path(configured)
    return Path(platformdirs.user_data_dir("kernel-kb", appauthor=False)) / "index"


class IndexLayout:
    """The fixed places inside an index folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.pointer = root / POINTER
        """The file that names the current generation."""
        self.generations = root / "generations"
        """The folder of published generations."""
        self.staging = root / "staging"
        """Where a writer builds; nothing here is ever read."""
        self.cache = root / "embeddings.sqlite"
        """The embedding cache."""
        self.lock = root / "writer.lock"
        """The writer's lock file."""

    def current(self) -> str | None:
        """Name of the current generation, or None before the first one.

        Raises
        ------
        IndexUnavailableError
            If the pointer file is not readable or holds no generation name.
        """
        try:
            name = self.pointer.read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            return None
        except UnicodeDecodeError:
            name = ""
        except OSError as error:
            raise IndexUnavailableError(
                f"cannot read {self.pointer}: {error.strerror}: check its permissions"
            ) from error
        if _NAME.fullmatch(name) is None:
            raise IndexUnavailableError(
                f"{self.pointer} does not name a generation: run `kb rebuild`"
            )
        return name

    def generation(self, name: str) -> Path:
        """The folder of one generation."""
        return self.generations / name

    def names(self) -> list[str]:
        """Generations on disk, oldest first."""
        if not os.path.isdir(self.generations):  # noqa: PTH112 - False, too, where none may look
            return []
        names_ = (path.name for path in self.generations.iterdir())
        return sorted(filter(_NAME.fullmatch, names_), key=generation_number)


def generation_number(name: str) -> int:
    """The running number in a generation's name, `g000012-1a2b3c4d` → 12."""
    return int(name[1:].split("-", maxsplit=1)[0])
