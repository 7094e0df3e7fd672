"""Cache of baseline times. Compiling the baselines takes minutes."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import platformdirs
from pydantic import ConfigDict, ValidationError

from agent.optimize.candidate import Baseline
from agent.optimize.config import RunConfig
from agent.optimize.files import RunFolderError, write_atomically
from judge.evaluate.result import Model

# `python` decides nothing that is compiled; a patch release must not cost minutes of tuning.
_VERSIONS = ("kernel-kb", "torch", "triton", "cuda", "driver")


class CacheKey(Model):
    """Everything that the times depend on."""

    problem_sha256: str
    dtype: str | None
    tf32: bool
    gpu: str
    versions: dict[str, str]

    @classmethod
    def of(cls, config: RunConfig, gpu: str, versions: Mapping[str, str]) -> "CacheKey":
        """The key of a run on a card, with the versions that matter."""
        relevant = {name: versions[name] for name in _VERSIONS if name in versions}
        sha256, dtype, tf32 = config.problem.sha256, config.dtype, config.tf32
        return cls(problem_sha256=sha256, dtype=dtype, tf32=tf32, gpu=gpu, versions=relevant)

    @property
    def digest(self) -> str:
        """Name of the cache's file."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


class CacheEntry(Model):
    """A cache entry."""

    model_config = ConfigDict(extra="ignore")  # other versions may write more

    key: CacheKey
    measured_at: str
    """UTC time, ISO 8601."""
    baselines: dict[str, Baseline]
    """`eager`, `compile`, `max-autotune`."""
    asked: tuple[str, ...] = ()
    """Forms that were requested. One that failed has no time."""


class BaselineCache:
    """A folder of `CacheEntry`, by key; by default `baselines` in the user's cache folder."""

    def __init__(self, folder: Path | None = None) -> None:
        cache = platformdirs.user_cache_dir("kernel-kb", appauthor=False)
        self._folder = folder if folder is not None else Path(cache) / "baselines"

    def get(self, key: CacheKey) -> CacheEntry | None:
        """The entry of this key; None if there is none or its file is damaged."""
        try:
            entry = CacheEntry.model_validate_json(self._path(key).read_bytes())
        except (OSError, ValidationError):
            return None
        return entry if entry.key == key else None

    def put(self, entry: CacheEntry) -> str | None:
        """Store an entry; returns a note if that fails, which only costs time later."""
        try:
            write_atomically(self._path(entry.key), entry.model_dump_json(indent=1) + "\n")
        except RunFolderError as error:
            return f"baselines are not cached: {error.__cause__ or error}"
        return None

    def _path(self, key: CacheKey) -> Path:
        return self._folder / f"{key.digest}.json"
