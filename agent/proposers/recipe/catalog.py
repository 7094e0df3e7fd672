"""Kernels of an operator family, from an index or from the shipped corpus, the best first."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol

import numpy as np

from agent.proposers.recipe.carry import Recipe
from kb.architectures import any_runs_on
from kb.context.materials import kernel_chunks
from kb.corpus.entries import Kernel
from kb.corpus.loader import load_corpus, load_shipped_corpus
from kb.index.state import KernelRecord
from kb.search.engine import Searcher
from kb.search.models import MAX_K, Filters

# How much nearer to the floor than all of Triton's a CUDA kernel has to be: compiling it takes
# seconds, and its parameters are not searched.
_BETTER: Final = 1.05


class Catalog(Protocol):
    """Where kernels come from."""

    def kernels(self, family: str, architecture: str | None, gpu: str | None) -> Sequence[Recipe]:
        """Kernels of an operator family that run on `architecture` (None: any), the most promising
        first: by what was measured on `gpu`, then as the catalog itself ranks them. CUDA kernels,
        which take seconds to compile, only where they were measured as clearly better than any
        of Triton's."""
        ...


class CorpusCatalog:
    """The kernels of a corpus folder, by default of the shipped one."""

    def __init__(self, root: Path | None = None) -> None:
        self._corpus = load_corpus(root) if root else load_shipped_corpus()

    def kernels(self, family: str, architecture: str | None, gpu: str | None) -> Sequence[Recipe]:
        """See `Catalog.kernels`."""
        licence = self._corpus.manifest.licence
        kernels = [
            _recipe(kernel.entry, kernel.text, kernel.launch_code, gpu, licence)
            for kernel in self._corpus.kernels
            if _suits(kernel.entry, family, architecture)
        ]
        return _rank(kernels)


class IndexCatalog:
    """The kernels of an index's current generation, ranked by its search.

    Parameters
    ----------
    searcher
        Of the index; it stays the caller's.
    """

    def __init__(self, searcher: Searcher) -> None:
        self._searcher = searcher

    def kernels(self, family: str, architecture: str | None, gpu: str | None) -> Sequence[Recipe]:
        """See `Catalog.kernels`."""
        generation = self._searcher.generation
        records = generation.kernels
        places: dict[str, int] = {}
        if records:
            ids = {f"kernel:{slug}" for slug, item in records.items() if item.entry.op == family}
            of_family = generation.columns["entries"].mask(lambda v: not ids.isdisjoint(v))
            filters = Filters(
                kinds=["kernel"],
                architectures=[] if architecture is None else [architecture],
            )
            hits = self._searcher.rank(
                family.replace("-", " "), MAX_K, filters, np.asarray(of_family)
            ).hits
            for hit in hits:
                for value in generation.columns["entries"].of(hit.row):
                    places.setdefault(value.removeprefix("kernel:"), len(places))
        kernels = []
        for slug in sorted(records, key=lambda name: (places.get(name, len(places)), name)):
            record = records[slug]
            if _suits(record.entry, family, architecture) and _is_whole(record):
                licence = generation.sources[record.source].licence or "licence unknown"
                chunk = next(iter(kernel_chunks(generation, slug)), "")
                kernel = _recipe(record.entry, record.code, record.launcher, gpu, licence)
                kernels.append(replace(kernel, chunk=chunk))
        return _rank(kernels)


class EmptyCatalog:
    """No kernels: what the search is worth without a knowledge base."""

    def kernels(self, family: str, architecture: str | None, gpu: str | None) -> Sequence[Recipe]:
        """See `Catalog.kernels`."""
        del family, architecture, gpu
        return ()


def catalog_of(searcher: Searcher | None) -> Catalog:
    """The catalog of an index, or of the shipped corpus if there is none."""
    return CorpusCatalog() if searcher is None else IndexCatalog(searcher)


def _suits(entry: Kernel, family: str, architecture: str | None) -> bool:
    runs = architecture is None or any_runs_on(list(entry.architectures), architecture)
    return entry.op == family and runs


def _is_whole(record: KernelRecord) -> bool:
    """Indexes of earlier versions have no launch code."""
    return record.entry.language == "triton" or bool(record.launcher)


def _recipe(entry: Kernel, code: str, launcher: str, gpu: str | None, licence: str) -> Recipe:
    # The leading comment, which is the entry's text, stays behind.
    cuda = code.partition("*/")[2] if code.lstrip().startswith("/*") else code
    works = "; ".join(f"{source.title} ({source.licence}) {source.url}" for source in entry.sources)
    return Recipe(
        slug=entry.slug,
        op=entry.op,
        code=launcher or code,
        dtypes=tuple(entry.dtypes),
        techniques=tuple(entry.techniques),
        citation=f"{entry.title}. Licence: {licence}. Sources: {works}",
        floor_fraction=_best_fraction(entry, gpu),
        cuda=cuda if launcher else "",
    )


def _best_fraction(entry: Kernel, gpu: str | None) -> float | None:
    """How near to the floor the kernel came on this card; sizes differ, so times do not compare."""
    fractions = [
        verified.floor_fraction
        for verified in entry.verified
        if verified.floor_fraction is not None
        and gpu is not None
        and _card(verified.gpu) == _card(gpu)
    ]
    return max(fractions, default=None)


def _card(name: str) -> str:
    """Drivers put the maker's name before the card's."""
    return name.casefold().removeprefix("nvidia").strip()


def _rank(kernels: Iterable[Recipe]) -> list[Recipe]:
    """Measured ones first, the nearest to the floor at their head; others keep their order. CUDA
    kernels only where they are worth their compilation."""
    # A kernel that searches by itself is the same kernel as the one it searches for.
    ordered = sorted(
        kernels,
        key=lambda kernel: (
            "def tune" in kernel.code or '"tune":' in kernel.code,
            kernel.floor_fraction is None,
            -(kernel.floor_fraction or 0.0),
            # Of two that were not measured, the plain version goes last.
            not kernel.techniques,
        ),
    )
    best = max((kernel.floor_fraction or 0.0 for kernel in ordered if not kernel.cuda), default=0.0)
    return [
        kernel
        for kernel in ordered
        if not kernel.cuda or (kernel.floor_fraction or 0.0) > _BETTER * best
    ]
