"""Results of earlier verifications, by the digest of everything that they depend on.

A kernel whose files, checks and tools are unchanged gives the results that it gave before. Only
kernels without a failed check are kept, so a failure is always seen anew.
"""

import hashlib
import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import platformdirs

from kb import nvcc
from kb.errors import KbError
from kb.verify.result import CheckResult

# What interprets, compiles and compares; another version may give another result.
_TOOLS = ("torch", "triton", "numpy")
# Code outside `kb.verify` that a check runs.
_BESIDE = ("nvcc.py", "architectures.py", "corpus/entries.py", "interpreter.py")


class ResultCache:
    """Results of kernels in a folder, one JSON file per digest.

    Parameters
    ----------
    folder
        Where they lie; by default `verify` under the platform's cache folder, or
        `KB_VERIFY_CACHE`.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or default_folder()

    def read(self, digest: str) -> list[CheckResult] | None:
        """Return the results kept under `digest`, or None; a damaged file counts as none."""
        try:
            rows = json.loads((self.folder / f"{digest}.json").read_text(encoding="utf-8"))
            return [CheckResult(**row) for row in rows]
        except (OSError, ValueError, TypeError):
            return None

    def write(self, digest: str, results: Sequence[CheckResult]) -> None:
        """Keep the results of one kernel; nothing is kept where a check failed."""
        if not results or any(result.failed for result in results):
            return
        place = self.folder / f"{digest}.json"
        partial = place.with_suffix(f".{os.getpid()}.partial")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            partial.write_text(json.dumps([asdict(result) for result in results]), encoding="utf-8")
            partial.replace(place)
        except OSError:
            partial.unlink(missing_ok=True)  # a full or read-only disk costs the saving only


def default_folder() -> Path:
    """Return where results are kept, as the environment says."""
    chosen = os.environ.get("KB_VERIFY_CACHE")
    if chosen:
        return Path(chosen)
    return Path(platformdirs.user_cache_dir("kernel-kb", appauthor=False)) / "verify"


def digest_of(files: Sequence[Path], case_timeout_s: float) -> str:
    """Return the digest of a kernel's files, of the code that checks them, and of the tools."""
    digest = hashlib.sha256(f"{_checker()}\n{case_timeout_s}\n".encode())
    for path in files:
        text = path.read_bytes()
        digest.update(f"{path.name} {len(text)}\n".encode() + text)
    return digest.hexdigest()


@cache
def _checker() -> str:
    package = Path(__file__).parent
    sources = [*sorted(package.glob("*.py")), *(package.parent / name for name in _BESIDE)]
    digest = hashlib.sha256()
    for path in sources:
        digest.update(path.read_bytes())
    tools = [f"{name} {_version(name)}" for name in _TOOLS]
    try:
        compiler = nvcc.toolkit_version()
    except KbError:
        compiler = "none"
    # CUDA kernels run where a card is, and are `not_run` elsewhere.
    card = Path("/dev/nvidiactl").exists()
    machine = f"{platform.python_version()} {platform.machine()} nvcc {compiler} card {card}"
    return f"{digest.hexdigest()} {' '.join(tools)} {machine}"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"
