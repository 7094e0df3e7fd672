"""Times of a problem's own forms, kept in the user's cache: compiling them takes minutes."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import platformdirs
from pydantic import ValidationError

from agent.optimize.candidate import Baseline, Model
from agent.optimize.files import RunFolderError, write_atomically
from judge.evaluate.result import Ceilings, Floor

# `python` decides nothing that is compiled; a patch release must not cost minutes of tuning.
_VERSIONS = ("kernel-kb", "torch", "triton", "cuda", "driver")


class Key(Model):
    """What the times depend on."""

    problem_sha256: str
    dtype: str | None
    tf32: bool
    gpu: str
    versions: dict[str, str]

    @classmethod
    def of(
        cls,
        problem_sha256: str,
        dtype: str | None,
        gpu: str,
        versions: Mapping[str, str],
        *,
        tf32: bool,
    ) -> "Key":
        """The key, with the versions that matter."""
        kept = {name: versions[name] for name in _VERSIONS if name in versions}
        return cls(problem_sha256=problem_sha256, dtype=dtype, tf32=tf32, gpu=gpu, versions=kept)

    @property
    def digest(self) -> str:
        """Name of the cache's file."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


class Cached(Model):
    """What is kept."""

    key: Key
    measured_at: str
    """UTC time, ISO 8601."""
    baselines: dict[str, Baseline]
    """`eager`, `compile`, `max-autotune`."""
    asked: tuple[str, ...] = ()
    """Forms that were to be timed; one that failed has no time."""
    floor: Floor | None = None
    ceilings: Ceilings | None = None


class BaselineCache:
    """A folder of `Cached`, by key.

    Parameters
    ----------
    folder
        By default `baselines` in the user's cache folder.
    """

    def __init__(self, folder: Path | None = None) -> None:
        cache = platformdirs.user_cache_dir("kernel-kb", appauthor=False)
        self._folder = folder if folder is not None else Path(cache) / "baselines"

    def get(self, key: Key) -> Cached | None:
        """What is kept for this very key; None also where the file is damaged."""
        try:
            found = Cached.model_validate_json(self._path(key).read_bytes())
        except (OSError, ValidationError):
            return None
        return found if found.key == key else None

    def put(self, cached: Cached) -> str | None:
        """Keep it; returns why that was not possible, which loses only time."""
        try:
            write_atomically(self._path(cached.key), cached.model_dump_json(indent=1) + "\n")
        except RunFolderError as error:
            return f"baselines are not cached: {error.__cause__ or error}"
        return None

    def _path(self, key: Key) -> Path:
        return self._folder / f"{key.digest}.json"
