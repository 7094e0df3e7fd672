"""Builds the training set: ``python -m benchmarks.embedder.training.dataset --out DIR``.

Fetches the packages of `packages.toml`, takes pairs out of them and out of our own entries, leaves
out what `exclusion.py` knows, and writes documents, pairs and a manifest (packages with hashes and
licences, what was excluded, counts, versions). The same inputs give the same files.
"""

import argparse
import hashlib
import multiprocessing
import platform
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any

from benchmarks.embedder.training.analogues import analogues
from benchmarks.embedder.training.code import Found, pairs_of_file
from benchmarks.embedder.training.entries import QUESTIONS_FILE, entry_pairs
from benchmarks.embedder.training.exclusion import Exclusion, evaluation_exclusion, runs
from benchmarks.embedder.training.negatives import add_negatives
from benchmarks.embedder.training.prose import sections_of_file
from benchmarks.embedder.training.records import Document, Kind, Pair, TrainingSet
from benchmarks.embedder.training.sources import (
    PACKAGES_FILE,
    SourceFile,
    TrainingPackage,
    files_of,
    training_packages,
)
from benchmarks.retrieval.sentences import normalized
from ingest.chunkers import PYTHON_SUFFIXES
from ingest.sources.cache import Cache
from kb.embedders.tokens import well_formed

MAX_PER_PACKAGE = 12_000
"""Documents of one package: keeps the largest from being most of the set."""
MAX_SHARED = 3
"""Functions that may be asked for by the same words; more of them make the query ambiguous."""
GPU_LANGUAGES = frozenset({"triton", "cuda"})
_VERSIONS = ("tree-sitter", "tree-sitter-python", "tree-sitter-cpp", "bm25s", "numpy")


@dataclass(frozen=True, slots=True)
class Harvest:
    """What one package gave."""

    package: TrainingPackage
    found: list[Found]
    sections: list[tuple[str, Document]]
    left_out: Counter[str]


def main() -> None:
    """Build and write the set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder to write to")
    parser.add_argument("--packages", type=Path, default=PACKAGES_FILE)
    parser.add_argument("--questions", type=Path, default=QUESTIONS_FILE)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--no-negatives", action="store_true", help="mine none with BM25")
    arguments = parser.parse_args()
    cache = Cache()
    packages = training_packages(arguments.packages)
    exclusion = evaluation_exclusion(cache)
    print(
        f"excluded: {len(exclusion.known):,} runs, {len(exclusion.sentences):,} sentences",
        flush=True,
    )
    built = build(packages, cache, exclusion, arguments.questions, arguments.workers)
    if not arguments.no_negatives:
        add_negatives(built)
    built.write(arguments.out)
    print(f"{len(built.documents):,} documents, {len(built.pairs):,} pairs")
    for name, count in sorted(built.manifest["kinds"].items()):
        print(f"  {name}: {count:,}")


def build(
    packages: Sequence[TrainingPackage],
    cache: Cache,
    exclusion: Exclusion,
    questions: Path | None,
    workers: int = 1,
) -> TrainingSet:
    """The set of these packages and, where `questions` is given, of our own entries."""
    held = Exclusion()  # what validates: near-duplicates of it are not trained on
    for package in packages:
        if package.held_out:
            held.add_files((str(file.path), file.text) for file in files_of(package, cache))
    jobs = [(package, cache, exclusion, held) for package in packages]
    if workers > 1:
        with multiprocessing.get_context("fork").Pool(workers, _share, (exclusion, held)) as pool:
            harvests = pool.map(_shared_harvest, [(p, cache) for p in packages], chunksize=1)
    else:
        harvests = [harvest(*job) for job in jobs]
    assembly = _Assembly()
    for each in harvests:
        assembly.add(each)
    if questions is not None:
        assembly.add_entries(questions)
    pairs = assembly.unambiguous()
    documents, pairs = _compacted(assembly.documents, pairs)
    folds = assembly.symbols
    pairs += analogues(documents, folds, MAX_SHARED)
    manifest = _manifest(harvests, exclusion, pairs, documents)
    return TrainingSet(documents, pairs, manifest)


_shared: list[Exclusion] = []


def _share(*both: Exclusion) -> None:
    _shared[:] = both


def _shared_harvest(job: tuple[TrainingPackage, Cache]) -> Harvest:
    found = harvest(*job, *_shared)
    print(
        f"{found.package.name}: {len(found.found):,} functions, {dict(found.left_out)}", flush=True
    )
    return found


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


class _Assembly:
    """Documents and pairs of all packages, copies folded."""

    def __init__(self) -> None:
        self.documents: list[Document] = []
        self.pairs: list[Pair] = []
        self.symbols: dict[int, str] = {}
        """Group → the function's name."""
        self._groups: dict[str, int] = {}
        self._seen: set[str] = set()

    def add(self, harvest: Harvest) -> None:
        for found in harvest.found:
            key = f"{found.fold or found.document.text}\0{found.code}"
            if key in self._seen:
                continue
            self._seen.add(key)
            group = self._group(found.fold or found.document.text)
            self.symbols.setdefault(group, found.symbol)
            self._add(found.document, group, found.queries, harvest.package.held_out)
        for heading, section in harvest.sections:
            if section.text not in self._seen:
                self._seen.add(section.text)
                group = self._group(section.text)
                self._add(section, group, (("heading", heading),), harvest.package.held_out)

    def add_entries(self, questions: Path) -> None:
        for name, text, queries in entry_pairs(questions):
            document = Document(text, "entry", "kernel-kb", group=-1)
            self._add(document, self._group(name), queries, held_out=False)

    def unambiguous(self) -> list[Pair]:
        """The pairs without those whose words ask for several functions."""
        asked: dict[str, set[int]] = {}
        for pair in self.pairs:
            group = self.documents[pair.document].group
            asked.setdefault(normalized(pair.query), set()).add(group)
        return [
            pair
            for pair in self.pairs
            if len(asked[normalized(pair.query)]) <= (MAX_SHARED if pair.kind != "symbol" else 1)
            and len(pair.query.split()) > 1
        ]

    def _group(self, key: str) -> int:
        return self._groups.setdefault(key, len(self._groups))

    def _add(
        self, document: Document, group: int, queries: Iterable[tuple[Kind, str]], held_out: bool
    ) -> None:
        document.group, document.held_out = group, held_out
        document.text = well_formed(document.text)
        at = len(self.documents)
        self.documents.append(document)
        self.pairs += [Pair(well_formed(query), at, kind) for kind, query in dict.fromkeys(queries)]


def _compacted(documents: list[Document], pairs: list[Pair]) -> tuple[list[Document], list[Pair]]:
    """Without documents that no query is left for; those for a GPU stay, as negatives and
    analogues."""
    asked = {pair.document for pair in pairs}
    kept = [
        at
        for at, document in enumerate(documents)
        if at in asked or document.language in GPU_LANGUAGES
    ]
    place = {at: new for new, at in enumerate(kept)}
    for pair in pairs:
        pair.document = place[pair.document]
    return [documents[at] for at in kept], pairs


def _manifest(
    harvests: Iterable[Harvest],
    exclusion: Exclusion,
    pairs: list[Pair],
    documents: list[Document],
) -> dict[str, Any]:
    of_package = Counter(document.package for document in documents)
    return {
        "packages": [
            {
                "name": each.package.name,
                "version": each.package.version,
                "sha256": each.package.sha256,
                "licence": each.package.licence,
                "held_out": each.package.held_out,
                "documents": of_package[each.package.name],
                "left_out": dict(each.left_out),
            }
            for each in harvests
        ],
        "excluded": {
            "archives": exclusion.archives,
            "runs": len(exclusion.known),
            "sentences": len(exclusion.sentences),
            "digest": exclusion.digest(),
        },
        "kinds": dict(Counter(pair.kind for pair in pairs)),
        "languages": dict(Counter(document.language for document in documents)),
        "versions": {"python": platform.python_version()} | {n: version(n) for n in _VERSIONS},
    }


def all_texts(built: TrainingSet) -> Iterator[str]:
    """Every text that a model trained on the set sees."""
    return chain((d.text for d in built.documents), (p.query for p in built.pairs))


if __name__ == "__main__":
    main()
