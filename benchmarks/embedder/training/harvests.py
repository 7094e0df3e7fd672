"""Training examples and sections of each package, on all processors."""

import hashlib
import multiprocessing
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.embedder.training.code import Example, pairs_of_file
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


@dataclass(frozen=True, slots=True)
class Harvest:
    """Examples and sections of one package."""

    package: TrainingPackage
    examples: list[Example]
    sections: list[tuple[str, Document]]
    left_out: Counter[str]


def harvest_all(
    packages: Sequence[TrainingPackage],
    cache: Cache,
    exclusion: Exclusion,
    validation: Exclusion,
    workers: int = 1,
) -> Iterator[Harvest]:
    """Yield every package's harvest, in the order of the packages."""
    _shared[:] = [(cache, exclusion, validation)]
    if workers == 1:
        yield from map(_harvest_shared, packages)
        return
    with multiprocessing.get_context("fork").Pool(workers) as pool:
        yield from pool.imap(_harvest_shared, packages)


def harvest(
    package: TrainingPackage, cache: Cache, exclusion: Exclusion, validation: Exclusion
) -> Harvest:
    """All functions and sections of a package that may be trained on."""
    left_out: Counter[str] = Counter()
    examples: list[Example] = []
    sections: list[tuple[str, Document]] = []
    for file in files_of(package, cache):
        for example in pairs_of_file(file):
            if not _is_useful(example):
                continue
            if reason := refusal_reason(example, file, exclusion, validation, package.held_out):
                left_out[reason] += 1
            else:
                examples.append(example)
        sections += [
            (heading, section)
            for heading, section in sections_of_file(file)
            if not exclusion.holds_query(heading)
        ]
    print(f"{package.name}: {len(examples):,} functions, {dict(left_out)}", flush=True)
    # By the digest of its text, which favours no folder.
    examples.sort(key=lambda e: hashlib.sha256(well_formed(e.document.text).encode()).digest())
    left_out["more than the most of a package"] += max(0, len(examples) - MAX_PER_PACKAGE)
    return Harvest(package, examples[:MAX_PER_PACKAGE], sections[:MAX_PER_PACKAGE], left_out)


def refusal_reason(
    example: Example, file: SourceFile, exclusion: Exclusion, validation: Exclusion, held_out: bool
) -> str | None:
    """Why a function may not be trained on, or None."""
    python = file.path.suffix.lower() in PYTHON_SUFFIXES
    digests = runs(example.code, python=python)
    if exclusion.holds_runs(digests):
        return "in an evaluation package"
    if any(exclusion.holds_query(query) for kind, query in example.queries if kind != "symbol"):
        return "asked for in an evaluation package"
    if not held_out and validation.holds_runs(digests):
        return "near-duplicate of what validates"
    return None


def _is_useful(example: Example) -> bool:
    """Whether it has more than a name to be asked by, or is code for a GPU."""
    return example.document.language in GPU_LANGUAGES or any(
        kind != "symbol" for kind, _ in example.queries
    )


_shared: list[tuple[Cache, Exclusion, Exclusion]] = []
"""Arguments of `harvest_all` that its forked processes inherit."""


def _harvest_shared(package: TrainingPackage) -> Harvest:
    return harvest(package, *_shared[0])
