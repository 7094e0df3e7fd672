"""Read the current generation: open it once, hold its lease, notice when a new one is published."""

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pydantic import ValidationError

from kb.corpus.entries import Kernel
from kb.errors import IndexUnavailableError, KbError
from kb.index.columns import Columns, open_columns
from kb.index.layout import CHROMA, CHUNKS, COLUMNS, ENTRIES, LEXICAL, SOURCES, VECTORS, IndexLayout
from kb.index.leases import Lease
from kb.index.lexical import LexicalIndex
from kb.index.manifest import Manifest, read_manifest
from kb.index.state import IndexState, KernelRecord, TechniqueRecord, parse_entries, parse_sources
from kb.index.store import ChunkStore
from kb.index.vectors import VectorMatrix
from kb.problems.matching import OperatorGraph, rarities
from kb.records import Source
from kb.refusals import refusal

# A reader loses the race against a collector only if publications come faster than opens.
_ATTEMPTS = 50


@dataclass(frozen=True, eq=False)
class Generation:
    """One open generation. It stays readable until closed, whatever is published meanwhile."""

    folder: Path
    manifest: Manifest
    sources: dict[str, Source]
    techniques: dict[str, TechniqueRecord]
    kernels: dict[str, KernelRecord]
    store: ChunkStore
    columns: Columns
    lexical: LexicalIndex
    vectors: VectorMatrix
    lease: Lease

    @property
    def chroma_folder(self) -> Path:
        """Chroma's files, to be searched through `kb.index.chroma.ChromaSearch` only."""
        return self.folder / CHROMA

    @cached_property
    def examples(self) -> dict[str, list[str]]:
        """Technique slug → kernel slugs that show it, the entry's own order first."""
        shown_by = {slug: dict.fromkeys(r.entry.examples) for slug, r in self.techniques.items()}
        for slug, kernel in self.kernels.items():
            for technique in kernel.entry.techniques:
                if technique in shown_by:
                    shown_by[technique][slug] = None
        return {slug: list(examples) for slug, examples in shown_by.items()}

    @cached_property
    def kernel_entries(self) -> dict[str, Kernel]:
        """Kernel slug → entry."""
        return {slug: record.entry for slug, record in self.kernels.items()}

    @cached_property
    def rarities(self) -> dict[str, float]:
        """Operator → its weight in `kb.problems.matching`, over the references of all kernels."""
        graphs = defaultdict[str, list[OperatorGraph]](list)
        for record in self.kernels.values():
            if record.reference is not None:
                graphs[record.entry.op].append(record.reference)
        return rarities(graphs)

    def rows_of(self, entry: str) -> list[int]:
        """The rows of an entry's chunks, `technique:SLUG` or `kernel:SLUG`, ascending."""
        rows: list[int] = (
            self.columns["entries"].mask(lambda entries: entries == (entry,)).nonzero()[0].tolist()
        )
        return rows

    def state(self) -> IndexState:
        """The whole generation in memory, for a writer that adds to it."""
        return IndexState(
            tuple(self.sources.values()),
            tuple(self.techniques.values()),
            tuple(self.kernels.values()),
            tuple(self.store.all()),
        )

    def close(self) -> None:
        """Give the lease back, so that the generation can be collected."""
        self.lease.release()


def open_generation(root: Path) -> Generation:
    """Open the current generation of an index.

    Raises
    ------
    IndexUnavailableError
        If there is no index yet, or it is damaged.
    IndexMismatchError
        If another schema version wrote it.
    """
    layout = IndexLayout(root)
    for _ in range(_ATTEMPTS):
        name = layout.current()
        if name is None:
            raise IndexUnavailableError(f"no index at {root}: run `kb ingest` first")
        try:
            lease = Lease(layout.generation(name))
        except FileNotFoundError:
            continue  # collected between the two reads: the pointer names a newer one
        except OSError as error:
            raise IndexUnavailableError(f"cannot read {root}: {error.strerror}") from error
        return _open(layout.generation(name), lease)
    raise IndexUnavailableError(
        f"the index at {root} points to a generation that does not exist: run `kb rebuild`"
    )


def _open(folder: Path, lease: Lease) -> Generation:
    try:
        manifest = read_manifest(folder)
        entries = parse_entries((folder / ENTRIES).read_text(encoding="utf-8"))
        sources = parse_sources((folder / SOURCES).read_text(encoding="utf-8"))
        return Generation(
            folder=folder,
            manifest=manifest,
            sources={source.name: source for source in sources},
            techniques={technique.entry.slug: technique for technique in entries.techniques},
            kernels={kernel.entry.slug: kernel for kernel in entries.kernels},
            store=ChunkStore(folder / CHUNKS),
            columns=open_columns(folder / COLUMNS),
            lexical=LexicalIndex(folder / LEXICAL, manifest.chunks),
            vectors=VectorMatrix(folder / VECTORS),
            lease=lease,
        )
    except Exception as error:  # damage shows in as many ways as there are file formats
        lease.release()
        if isinstance(error, KbError):
            raise
        reason = refusal(error) if isinstance(error, ValidationError) else error
        raise IndexUnavailableError(
            f"the index at {folder.parent.parent} is damaged ({reason}): run `kb rebuild`"
        ) from error
