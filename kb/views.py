"""What an index holds, as plain JSON values: the command line and the HTTP API show the same."""

from typing import Any, Final

from kb.corpus.entries import Kernel, Technique, Verified
from kb.corpus.measured import own_records, ranked_records
from kb.index.reader import Generation
from kb.records import KINDS
from kb.search.models import Result, to_result
from kb.vocabulary import taxonomy

# Notes listed with a technique: a search finds the others.
EVIDENCE_SHOWN: Final = 50


def tree_view(generation: Generation) -> dict[str, Any]:
    """The hierarchy bottleneck → technique → example of a generation."""
    bottlenecks = []
    for name, slugs in taxonomy().items():
        here = [s for s, r in generation.techniques.items() if name in r.entry.bottlenecks]
        order = {slug: position for position, slug in enumerate(slugs)}
        here.sort(key=lambda slug, order=order: (order.get(slug, len(order)), slug))  # type: ignore[misc]
        techniques = [
            {
                "slug": slug,
                "title": generation.techniques[slug].entry.title,
                "examples": [
                    {
                        "slug": example,
                        "title": generation.kernels[example].entry.title,
                        "language": generation.kernels[example].entry.language,
                    }
                    for example in generation.examples[slug]
                ],
            }
            for slug in here
        ]
        bottlenecks.append({"bottleneck": name, "techniques": techniques})
    return {"bottlenecks": bottlenecks}


def entry_of(generation: Generation, result: Result) -> Technique | Kernel | None:
    """The entry that a result belongs to; None if it belongs to none."""
    if result.kind == "technique":
        return generation.techniques[result.techniques[0]].entry
    if result.kind == "kernel":
        stem = result.path.rsplit(".", 1)[0]  # a .cu file and its launch code share it
        for record in generation.kernels.values():
            if record.path.rsplit(".", 1)[0] == stem and record.source == result.source.name:
                return record.entry
    return None


def index_view(generation: Generation) -> dict[str, Any]:
    """What an index holds, as `GET /v1/index` answers."""
    manifest = generation.manifest
    kinds = generation.columns["kinds"]
    facts = ("generation", "chunks", "embedder", "dimensions", "created", "schema")
    return {name: getattr(manifest, name) for name in facts} | {
        "techniques": len(generation.techniques),
        "kernels": len(generation.kernels),
        "sources": len(generation.sources),
        "kinds": {kind: kinds.count(kind) for kind in KINDS},
    }


def sources_view(generation: Generation, *, located: bool = False) -> list[dict[str, Any]]:
    """The sources of an index, with what they are cited by and how many chunks each gave.

    `located`: also where each was read from, which is nobody's business on another machine.
    """
    column = generation.columns["sources"]
    return [
        source.citation()
        | ({"location": source.location} if located else {})
        | {"quality": source.quality, "files": len(source.files), "chunks": column.count(name)}
        for name, source in generation.sources.items()
    ]


def evidence_view(generation: Generation, slug: str) -> list[dict[str, str]]:
    """The notes of runs that name a technique, by title; at most `EVIDENCE_SHOWN`."""
    kinds, techniques = generation.columns["kinds"], generation.columns["techniques"]
    mask = kinds.mask(lambda values: values == ("note",)) & techniques.mask(
        lambda values: slug in values
    )
    rows = [int(row) for row in mask.nonzero()[0][:EVIDENCE_SHOWN]]
    chunks = sorted(generation.store.rows(rows), key=lambda chunk: (chunk.title, chunk.id))
    return [{"id": note.id, "title": note.title, "source": note.source} for note in chunks]


def technique_records(generation: Generation, slug: str) -> list[Verified]:
    """A technique's own measurements; see `own_records`. The slug must exist."""
    return own_records(generation.techniques[slug].entry, generation.kernel_entries)


def technique_view(generation: Generation, slug: str) -> dict[str, Any]:
    """A technique's entry, its text, its examples, and what runs found. The slug must exist."""
    record = generation.techniques[slug]
    return record.entry.model_dump(mode="json", exclude={"questions", "verified"}) | {
        "verified": [
            verified.model_dump(mode="json") for verified in technique_records(generation, slug)
        ],
        "body": record.body.strip(),
        "examples": generation.examples[slug],
        "evidence": evidence_view(generation, slug),
        "source": record.source,
        "path": record.path,
    }


def kernel_view(generation: Generation, slug: str) -> dict[str, Any]:
    """A kernel's entry and its code. The slug must exist."""
    record = generation.kernels[slug]
    records = ranked_records(record.entry, generation.kernel_entries)
    return record.entry.model_dump(mode="json") | {
        "verified": [verified.model_dump(mode="json") for verified in records],
        "code": record.code,
        "source": record.source,
        "path": record.path,
    }


def chunk_view(generation: Generation, chunk_id: str) -> dict[str, Any] | None:
    """The chunk with this id in the shape of a search result without a score, or None."""
    chunk = generation.store.find(chunk_id)
    if chunk is None:
        return None
    result = to_result(chunk, generation.sources[chunk.source], 0.0)
    return result.model_dump(mode="json", exclude={"score", "gates"})
