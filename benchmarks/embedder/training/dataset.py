"""Builds the training set: ``python -m benchmarks.embedder.training.dataset --out DIR``.

Fetches the packages of `packages.toml`, takes pairs out of them and out of our own entries, leaves
out what `exclusion.py` knows, and writes documents, pairs and a manifest (packages with hashes and
licences, what was excluded, counts, versions). The same inputs give the same files.
"""

import argparse
import platform
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.embedder.training.code import symbol_words
from benchmarks.embedder.training.entries import QUESTIONS_FILE, entry_pairs
from benchmarks.embedder.training.exclusion import Exclusion, evaluation_exclusion
from benchmarks.embedder.training.harvests import GPU_LANGUAGES, Harvest, harvest_all
from benchmarks.embedder.training.records import Document, Kind, Pair, TrainingSet
from benchmarks.embedder.training.sources import TrainingPackage, files_of, training_packages
from benchmarks.retrieval.sentences import normalized
from ingest.sources.cache import Cache
from kb.embedders.tokens import well_formed

MOST_CHARS = {"python": 1_050, "cpp": 1_050}
MOST_CHARS_GPU = 1_700
"""Of a function's text: about 256 tokens, and more of a kernel."""
MAX_SHARED = 3
"""Functions that may be asked for by the same words; more of them make the query ambiguous."""
MIN_NAME_WORDS = 2
MAX_NAMESAKES = 6
"""Functions of one name from which pairs are made: a name that more share says nothing."""
NAMED_LANGUAGES = frozenset({"triton", "cuda", "python"})
_PACKAGE_FIELDS = ("name", "version", "sha256", "licence", "held_out")
_VERSIONS = ("tree-sitter", "tree-sitter-python", "tree-sitter-cpp", "bm25s", "numpy")


def main() -> None:
    """Build and write the set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder to write to")
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    cache = Cache()
    packages = training_packages()
    exclusion = evaluation_exclusion(cache)
    runs, sentences = len(exclusion.all_digests), len(exclusion.sentences)
    print(f"excluded: {runs:,} runs, {sentences:,} sentences", flush=True)
    training_set = build(packages, cache, exclusion, QUESTIONS_FILE, arguments.workers)
    training_set.write(arguments.out)
    print(f"{len(training_set.documents):,} documents, {len(training_set.pairs):,} pairs")
    for name, count in sorted(training_set.manifest["kinds"].items()):
        print(f"  {name}: {count:,}")


def build(
    packages: Sequence[TrainingPackage],
    cache: Cache,
    exclusion: Exclusion,
    questions: Path | None,
    workers: int = 1,
) -> TrainingSet:
    """The set of these packages and, where `questions` is given, of our own entries."""
    validation = Exclusion()  # near-duplicates of the validation set are not trained on
    for package in packages:
        if package.held_out:
            validation.add_files((str(file.path), file.text) for file in files_of(package, cache))
    assembly = _Assembly()
    notes = []
    for harvest in harvest_all(packages, cache, exclusion, validation, workers):
        assembly.add(harvest)
        notes.append((harvest.package, harvest.left_out))
    if questions is not None:
        assembly.add_entries(questions)
    documents, pairs = _compacted(assembly.documents, assembly.unambiguous())
    pairs += analogues(documents, assembly.symbols, MAX_SHARED)
    return TrainingSet(documents, pairs, _manifest(notes, exclusion, pairs, documents))


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
        held_out = harvest.package.held_out
        for example in harvest.examples:
            document = example.document
            document.text = document.text[: MOST_CHARS.get(document.language, MOST_CHARS_GPU)]
            fold = example.fold or document.text
            if self._is_new(f"{fold}\0{example.code}"):
                group = self._group(fold)
                self.symbols.setdefault(group, example.symbol)
                self._add(document, group, example.queries, held_out)
        for heading, section in harvest.sections:
            if self._is_new(section.text):
                group = self._group(section.text)
                self._add(section, group, (("heading", heading),), held_out)

    def add_entries(self, questions: Path) -> None:
        for name, text, queries in entry_pairs(questions):
            document = Document(text, "entry", "kernel-kb", group=-1)
            self._add(document, self._group(name), queries, held_out=False)

    def unambiguous(self) -> list[Pair]:
        """The pairs without those whose words ask for several functions."""
        groups: dict[str, set[int]] = {}
        for pair in self.pairs:
            group = self.documents[pair.document].group
            groups.setdefault(normalized(pair.query), set()).add(group)
        return [
            pair
            for pair in self.pairs
            if len(groups[normalized(pair.query)]) <= (MAX_SHARED if pair.kind != "symbol" else 1)
            and len(pair.query.split()) > 1
        ]

    def _is_new(self, key: str) -> bool:
        is_known = key in self._seen
        self._seen.add(key)
        return not is_known

    def _group(self, key: str) -> int:
        return self._groups.setdefault(key, len(self._groups))

    def _add(
        self, document: Document, group: int, queries: Iterable[tuple[Kind, str]], held_out: bool
    ) -> None:
        document.group, document.held_out = group, held_out
        document.text = well_formed(document.text)
        row = len(self.documents)
        self.documents.append(document)
        unique = dict.fromkeys(queries)
        self.pairs += [Pair(well_formed(query), row, kind) for kind, query in unique]


def _compacted(documents: list[Document], pairs: list[Pair]) -> tuple[list[Document], list[Pair]]:
    """Drop documents without a query; those for a GPU stay as negatives."""
    answered = {pair.document for pair in pairs}
    indices = [
        index
        for index, document in enumerate(documents)
        if index in answered or document.language in GPU_LANGUAGES
    ]
    position = {index: new for new, index in enumerate(indices)}
    for pair in pairs:
        pair.document = position[pair.document]
    return [documents[index] for index in indices], pairs


def analogues(documents: Sequence[Document], symbols: Mapping[int, str], most: int) -> list[Pair]:
    """Pairs of functions that do the same in different packages; at most `most` for each.

    Two authors who call a function `chunk_scan_fwd_kernel` mean the same operator, but write other
    code. The query is the function without its header, as a user would paste it.
    """
    by_name: dict[str, dict[int, int]] = {}
    for index, document in enumerate(documents):
        symbol = symbols.get(document.group)
        if symbol is None or document.language not in NAMED_LANGUAGES:
            continue
        words = symbol_words(symbol.rsplit("::", 1)[-1].rsplit(".", 1)[-1])
        if len(words.split()) >= MIN_NAME_WORDS:
            by_name.setdefault(words, {}).setdefault(document.group, index)
    pairs: list[Pair] = []
    for _, functions in sorted(by_name.items()):
        indices = list(functions.values())
        if not 2 <= len(indices) <= MAX_NAMESAKES:
            continue
        for index in indices:
            others = [
                other
                for other in indices
                if documents[other].package != documents[index].package
                and documents[other].held_out == documents[index].held_out
            ]
            pairs += [Pair("", other, "analogue", asked_with=index) for other in others[:most]]
    return pairs


def _manifest(
    notes: Iterable[tuple[TrainingPackage, Counter[str]]],
    exclusion: Exclusion,
    pairs: list[Pair],
    documents: list[Document],
) -> dict[str, Any]:
    document_counts = Counter(document.package for document in documents)
    return {
        "packages": [
            {name: getattr(package, name) for name in _PACKAGE_FIELDS}
            | {"documents": document_counts[package.name], "left_out": dict(left_out)}
            for package, left_out in notes
        ],
        "excluded": {
            "archives": exclusion.archives,
            "runs": len(exclusion.all_digests),
            "sentences": len(exclusion.sentences),
            "digest": exclusion.digest(),
        },
        "kinds": dict(Counter(pair.kind for pair in pairs)),
        "languages": dict(Counter(document.language for document in documents)),
        "versions": {"python": platform.python_version()} | {n: version(n) for n in _VERSIONS},
    }


if __name__ == "__main__":
    main()
