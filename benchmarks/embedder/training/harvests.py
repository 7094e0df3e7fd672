"""What each package gives, one after another on all processors, kept so that a build can go on.

A package's harvest is kept under a digest of everything that it depends on: the package's record,
what is excluded, and the code that reads it. A build that was broken off takes up what is there.
"""

import hashlib
import json
import multiprocessing
import pickle
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath

from benchmarks.embedder.training.code import Found, pairs_of_file
from benchmarks.embedder.training.exclusion import Exclusion, runs
from benchmarks.embedder.training.prose import sections_of_file
from benchmarks.embedder.training.records import Document
from benchmarks.embedder.training.sources import SourceFile, TrainingPackage, files_of
from ingest.chunkers import PYTHON_SUFFIXES
from ingest.sources.cache import Cache
from kb.embedders.tokens import well_formed

MAX_PER_PACKAGE = 12_000
"""Documents of one package: keeps the largest from being most of the set."""
GPU_LANGUAGES = frozenset({"triton", "cuda"})
_ROOT = Path(__file__).resolve().parents[3]
_READERS = (
    "benchmarks/embedder/training/code.py",
    "benchmarks/embedder/training/exclusion.py",
    "benchmarks/embedder/training/harvests.py",
    "benchmarks/embedder/training/prose.py",
    "benchmarks/embedder/training/sources.py",
    "benchmarks/retrieval/documentation.py",
    "benchmarks/retrieval/sentences.py",
    "ingest/discovery.py",
    "ingest/folding.py",
    "kb/records.py",
)


@dataclass(frozen=True, slots=True)
class Harvest:
    """What one package gave."""

    package: TrainingPackage
    found: list[Found]
    sections: list[tuple[str, Document]]
    left_out: Counter[str]


def harvested(
    packages: Sequence[TrainingPackage],
    cache: Cache,
    exclusion: Exclusion,
    held: Exclusion,
    keep: Path | None = None,
    workers: int = 1,
) -> Iterator[Harvest]:
    """Every package's harvest, in the order of the packages; kept in `keep`, where given."""
    if keep is None or workers == 1:
        for package in packages:
            yield _kept(package, cache, exclusion, held, keep and _place(keep, exclusion, held))
        return
    place = _place(keep, exclusion, held)
    context = multiprocessing.get_context("fork")
    with context.Pool(workers, _share, (cache, exclusion, held, place)) as pool:
        for package, path in zip(packages, pool.imap(_harvest_to_disk, packages), strict=True):
            found: Harvest = pickle.loads(path.read_bytes())
            assert found.package == package
            yield found


def harvest(
    package: TrainingPackage, cache: Cache, exclusion: Exclusion, held: Exclusion
) -> Harvest:
    """All functions and sections of a package that may be trained on."""
    left_out: Counter[str] = Counter()
    found: list[Found] = []
    sections: list[tuple[str, Document]] = []
    for file in files_of(package, cache):
        for each in pairs_of_file(file):
            if not _useful(each):
                continue
            reason = refused(each, file, exclusion, held, package.held_out)
            if reason:
                left_out[reason] += 1
            else:
                found.append(each)
        sections += [
            (heading, section)
            for heading, section in sections_of_file(file)
            if not exclusion.holds_query(heading)
        ]
    # By the digest of its text, which favours no folder.
    found.sort(key=lambda each: hashlib.sha256(well_formed(each.document.text).encode()).digest())
    left_out["more than the most of a package"] += max(0, len(found) - MAX_PER_PACKAGE)
    return Harvest(package, found[:MAX_PER_PACKAGE], sections[:MAX_PER_PACKAGE], left_out)


def refused(
    found: Found, file: SourceFile, exclusion: Exclusion, held: Exclusion, held_out: bool
) -> str | None:
    """Why a function may not be trained on, or None."""
    python = PurePosixPath(file.path).suffix.lower() in PYTHON_SUFFIXES
    digests = runs(found.code, python=python)
    if exclusion.holds_runs(digests):
        return "in an evaluation package"
    if any(exclusion.holds_query(query) for kind, query in found.queries if kind != "symbol"):
        return "asked for in an evaluation package"
    if not held_out and held.holds_runs(digests):
        return "near-duplicate of what validates"
    return None


def _useful(found: Found) -> bool:
    """Whether it has more than a name to be asked by, or is code for a GPU."""
    return found.document.language in GPU_LANGUAGES or any(
        kind != "symbol" for kind, _ in found.queries
    )


@dataclass(frozen=True, slots=True)
class _Place:
    """Where harvests are kept, and what all of them depend on."""

    folder: Path
    depends: str

    def of(self, package: TrainingPackage) -> Path:
        facts = json.dumps([asdict(package), self.depends], sort_keys=True)
        digest = hashlib.sha256(facts.encode()).hexdigest()[:16]
        return self.folder / f"{package.name}-{digest}.pickle"


def _place(keep: Path, exclusion: Exclusion, held: Exclusion) -> _Place:
    keep.mkdir(parents=True, exist_ok=True)
    return _Place(keep, " ".join([exclusion.digest(), held.digest(), code_digest()]))


def code_digest() -> str:
    """Of the code that reads packages."""
    paths = [_ROOT / each for each in _READERS]
    paths += sorted((_ROOT / "ingest/chunkers").rglob("*.py"))
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in paths)).hexdigest()[:16]


_shared: list[tuple[Cache, Exclusion, Exclusion, _Place]] = []


def _share(cache: Cache, exclusion: Exclusion, held: Exclusion, place: _Place) -> None:
    _shared[:] = [(cache, exclusion, held, place)]


def _harvest_to_disk(package: TrainingPackage) -> Path:
    cache, exclusion, held, place = _shared[0]
    path = place.of(package)
    if not path.is_file():
        _kept(package, cache, exclusion, held, place)
    return path


def _kept(
    package: TrainingPackage,
    cache: Cache,
    exclusion: Exclusion,
    held: Exclusion,
    place: _Place | None,
) -> Harvest:
    path = place and place.of(package)
    if path and path.is_file():
        kept: Harvest = pickle.loads(path.read_bytes())
        return kept
    found = harvest(package, cache, exclusion, held)
    print(f"{package.name}: {len(found.found):,} functions, {dict(found.left_out)}", flush=True)
    if path:
        draft = path.with_suffix(".draft")
        draft.write_bytes(pickle.dumps(found))
        draft.replace(path)
    return found
