"""The C++ and CUDA sources inside a published wheel, read from the archive and never run."""

import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import platformdirs

from ingest.chunkers import CPP_SUFFIXES


def fetch_wheel(requirement: str) -> Path:
    """Return the wheel of `requirement` (`name==version`), downloaded by pip on first use."""
    name, _, version = requirement.partition("==")
    cache = Path(platformdirs.user_cache_dir("kernel-kb")) / "benchmarks"
    cache.mkdir(parents=True, exist_ok=True)
    pattern = f"{name.replace('-', '_')}-{version}-*.whl"
    if not version or not list(cache.glob(pattern)):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        subprocess.run(
            [*command, "--only-binary=:all:", "--dest", str(cache), requirement], check=True
        )
    return max(cache.glob(pattern), key=lambda path: path.stat().st_mtime)


def read_sources(wheel: Path) -> Iterator[tuple[PurePosixPath, bytes]]:
    """Yield the path and content of each C++ or CUDA file in `wheel`, sorted by path."""
    with zipfile.ZipFile(wheel) as archive:
        for name in sorted(archive.namelist()):
            path = PurePosixPath(name)
            if path.suffix.lower() in CPP_SUFFIXES:
                yield path, archive.read(name)
