"""Code and sentences of the evaluation packages, which must never be trained on.

Code is compared without comments, docstrings and white space between tokens: a function is left out
when half of its runs of eight tokens occur anywhere in an evaluation package, so renamed files,
moved functions and edited copies are found as well as exact ones. The whole archives count, with
everything that they vendor, not only the parts that are asked for. A query is left out when it is
the first sentence of any documentation there, or a query of KernelRetrieve.
"""

import hashlib
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath

import numpy as np
from numpy.typing import NDArray

from benchmarks.packages import fetched_package, read_files
from benchmarks.retrieval.documentation import without_documentation
from benchmarks.retrieval.judgements import judged_texts
from benchmarks.retrieval.packages import pinned_packages
from benchmarks.retrieval.sentences import first_sentence, normalized
from ingest.chunkers import CPP_SUFFIXES, PYTHON_SUFFIXES
from ingest.sources.cache import Cache, Fetched
from ingest.sources.curated import curated
from ingest.sources.spec import Package
from ingest.sources.tree import unpack

EVALUATION = ("flashinfer-python", "sglang", "liger-kernel", "torchao", "vllm", "lmdeploy")
RUN = 8
"""Tokens of a run: long enough that two authors seldom write the same one by chance."""
COPIED = 0.5
"""Share of a function's runs from which on it counts as a copy."""

Digests = NDArray[np.uint64]

_STRING = r"""(?P<string>\"\"\".*?\"\"\"|'''.*?'''|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')"""
_HASH = re.compile(_STRING + r"|\#[^\n]*", re.DOTALL)
_SLASH = re.compile(_STRING + r"|//[^\n]*|/\*.*?\*/", re.DOTALL)
_TOKEN = re.compile(r"\w+|[^\w\s]")
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


def runs(code: str, *, python: bool) -> Digests:
    """A digest of every run of `RUN` tokens of `code`, in order; of all where there are fewer.

    Comments do not count; docstrings must have been taken out.
    """
    comment = _HASH if python else _SLASH
    bare = comment.sub(lambda match: match.group("string") or " ", code)
    tokens = _TOKEN.findall(bare)
    values = np.array([zlib.crc32(token.encode()) for token in tokens], dtype=np.uint64)
    width = min(RUN, len(values))
    if not width:
        return np.zeros(0, np.uint64)
    digests = np.zeros(len(values) - width + 1, np.uint64)
    for offset in range(width):
        digests = digests * _MULTIPLIER + values[offset : offset + len(digests)] + np.uint64(1)
    return digests


@dataclass
class Exclusion:
    """Code and sentences that no pair may hold."""

    parts: list[Digests] = field(default_factory=list)
    sentences: set[str] = field(default_factory=set)
    """Normalised."""
    archives: dict[str, str] = field(default_factory=dict)
    """Package and version → sha256."""

    def add_files(self, files: Iterable[tuple[str, str]]) -> None:
        """Exclude everything in the (path, text) pairs."""
        for path, text in files:
            file = PurePosixPath(path)
            if file.suffix.lower() not in PYTHON_SUFFIXES | CPP_SUFFIXES:
                self.sentences.update(normalized(line) for line in text.split("\n"))
                continue
            bare, documented = without_documentation(file, text)
            self.parts.append(np.unique(runs(bare, python=file.suffix in PYTHON_SUFFIXES)))
            self.sentences.update(normalized(first_sentence(d.doc)) for d in documented)

    @cached_property
    def all_digests(self) -> Digests:
        """All digests, sorted."""
        return np.unique(np.concatenate([np.zeros(0, np.uint64), *self.parts]))

    def holds_runs(self, digests: Digests) -> bool:
        """Whether so many of a function's runs are known that it counts as a copy."""
        if not len(digests) or not len(self.all_digests):
            return False
        positions = np.searchsorted(self.all_digests, digests).clip(max=len(self.all_digests) - 1)
        return bool(np.mean(self.all_digests[positions] == digests) >= COPIED)

    def holds_query(self, query: str) -> bool:
        """Whether a query is a sentence of an evaluation package, or is asked by KernelRetrieve."""
        return normalized(query) in self.sentences

    def digest(self) -> str:
        """Of all that is excluded."""
        content = hashlib.sha256(self.all_digests.tobytes())
        content.update("\n".join(sorted(self.sentences)).encode())
        return content.hexdigest()[:16]


def evaluation_exclusion(cache: Cache) -> Exclusion:
    """The exclusion of the pinned evaluation packages and of KernelRetrieve."""
    exclusion = Exclusion()
    for fetched in _evaluation_archives(cache):
        name = fetched.location.removeprefix("pypi:")
        exclusion.archives[f"{name} {fetched.version}"] = fetched.sha256
        with unpack(fetched, cache) as root:
            exclusion.add_files(read_files(root))
    assert {archive.split()[0] for archive in exclusion.archives} == set(EVALUATION)
    # KernelRetrieve's own questions are compared with, and not kept anywhere.
    exclusion.sentences.update(map(normalized, judged_texts()))
    exclusion.sentences.discard("")
    return exclusion


def _evaluation_archives(cache: Cache) -> Iterator[Fetched]:
    pinned = pinned_packages()
    listed = {entry.spec.location: entry.spec for entry in curated()}
    for name in EVALUATION:
        if name in pinned:
            yield pinned[name].fetch(cache)
        else:
            package = listed[f"pypi:{name}"]
            assert isinstance(package, Package)
            yield fetched_package(package, cache)
