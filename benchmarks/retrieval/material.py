"""The packages as chunks of the product's own ingest, their documentation taken out before.

The result is cached in the work folder, by a digest of the archive, of the code that reads it and
of the patterns that tag it: a repeated run reads nothing, and one after a change reads anew.
"""

import hashlib
import pickle
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

import benchmarks.retrieval.documentation as documentation
import ingest
import kb
from benchmarks.packages import PinnedPackage, read_files
from benchmarks.retrieval.documentation import Documented, without_documentation
from ingest.directory import directory_state
from ingest.reading import Reading
from ingest.report import SourceReport
from ingest.sources.cache import Cache
from ingest.sources.curated import quality_of
from ingest.sources.tree import unpack
from kb.corpus.detection import Detector
from kb.index.state import IndexState

_KB = Path(kb.__file__).parent
# Cached readings of a package: those after and before recent changes.
_KEPT = 3
# Code that turns a file into chunks and tags.
_READERS = (Path(ingest.__file__).parent, _KB / "corpus")


@dataclass(frozen=True, slots=True)
class Material:
    """One package, read."""

    state: IndexState
    """Its source and chunks, without documentation."""
    documented: dict[str, list[Documented]]
    """Path → its documented functions, in file order."""


def read_material(package: PinnedPackage, detector: Detector, work: Path) -> Material:
    """The package's chunks and documented functions, from the work folder or read now.

    Raises SourceError if it cannot be fetched, or is another archive than the pinned one.
    """
    key = digest(package, detector.version, _readers_digest())
    cached = work / "packages" / f"{package.name}-{key}.pickle"
    if cached.is_file():
        material: Material = pickle.loads(cached.read_bytes())
        return material
    print(f"reading {package.name} {package.version}", flush=True)
    material = _read(package, detector)
    cached.parent.mkdir(parents=True, exist_ok=True)
    older = sorted(cached.parent.glob(f"{package.name}-*.pickle"), key=lambda p: p.stat().st_mtime)
    for stale in older[: 1 - _KEPT]:
        stale.unlink()
    draft = cached.with_suffix(".draft")
    draft.write_bytes(pickle.dumps(material))
    draft.replace(cached)
    return material


def read_tree(
    root: Path, name: str, detector: Detector, include: Iterable[str], exclude: Iterable[str]
) -> Material:
    """Blank the documentation of a folder's files in place, and chunk them."""
    include, exclude = tuple(include), tuple(exclude)
    documented: dict[str, list[Documented]] = {}
    for path, original in read_files(root, include, exclude):
        text, functions = without_documentation(PurePosixPath(path), original)
        (root / path).write_text(text, encoding="utf-8", newline="\n")
        if functions:
            documented[path] = functions
    report = SourceReport(name=name, location=str(root))
    state = directory_state(root, Reading(name, detector, IndexState(), report, include, exclude))
    return Material(state, documented)


def _read(package: PinnedPackage, detector: Detector) -> Material:
    cache = Cache()
    fetched = package.fetch(cache)
    with unpack(fetched, cache) as root:
        material = read_tree(root, package.name, detector, package.include, package.exclude)
    source = replace(
        material.state.sources[0],
        location=fetched.location,
        version=package.version,
        licence=package.licence,
        url=fetched.url,
        sha256=package.sha256,
        quality=quality_of(package.name),
    )
    return replace(material, state=replace(material.state, sources=(source,)))


def _readers_digest() -> str:
    files = [Path(documentation.__file__), Path(__file__)]
    files += [_KB / "records.py", _KB / "index/state.py"]
    files += [path for folder in _READERS for path in sorted(folder.rglob("*.py"))]
    files = [path for path in files if path.parent.name != "sources"]  # it only fetches
    return digest(*(path.read_bytes() for path in files))


def digest(*values: object) -> str:
    """A short digest of values by what they print as."""
    return hashlib.blake2b(repr(values).encode(), digest_size=8).hexdigest()
