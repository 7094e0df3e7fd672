"""What the templates show, taken from one generation."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kb.corpus.entries import TECHNIQUE_SECTIONS, Gate, Verified
from kb.corpus.measured import entry_line, kernel_line, ranked_records, technique_line
from kb.errors import NotFoundError
from kb.index.reader import Generation
from kb.production import production_view
from kb.search.engine import Searcher
from kb.search.explanation import explain_score
from kb.search.models import Result, SearchResponse
from kb.views import (
    chunk_view,
    index_view,
    kernel_view,
    sources_view,
    technique_records,
    technique_view,
    tree_view,
)
from kb.vocabulary import find_metric
from server.web.choices import FilterField, filter_fields
from server.web.excerpts import excerpt
from server.web.figures.bars import contenders
from server.web.figures.diagrams import diagram
from server.web.forms import SearchForm
from server.web.markup import anchor, first_section
from server.web.words import first_sentence

# Production examples under a technique: the tree lists a few, the technique's own page more.
_PRODUCTION_SHOWN = 3
_PRODUCTION_LISTED = 8
_SIGNS = {"<": "<", "<=": "≤", ">": ">", ">=": "≥"}


@dataclass(frozen=True, slots=True)
class SearchPage:
    """The search page: the form, and the answer or what is wrong with the question."""

    fields: list[FilterField]
    response: SearchResponse | None
    rows: list[dict[str, Any]]
    error: str | None = None


def tree_page(generation: Generation) -> dict[str, Any]:
    """The hierarchy, each technique with the beginning of its effect and its measurements."""
    kernels = generation.kernel_entries
    notes = {
        slug: {
            "effect": first_sentence(record.entry.effect),
            "measured": technique_line(record.entry, kernels, brief=True),
        }
        for slug, record in generation.techniques.items()
    }
    production = {
        slug: production_view(generation, slug, _PRODUCTION_SHOWN) for slug in generation.techniques
    }
    extra = {"notes": notes, "production": production, "index": index_view(generation)}
    return {**tree_view(generation), **extra}


def search_page(searcher: Searcher, form: SearchForm, response: SearchResponse) -> SearchPage:
    """The results of a search."""
    rows = [_row(searcher.generation, result) for result in response.results]
    return SearchPage(filter_fields(searcher.generation, form.chosen), response, rows)


def technique_page(generation: Generation, slug: str) -> dict[str, Any]:
    """A technique with its examples.

    Raises
    ------
    NotFoundError
        No technique has this slug.
    """
    if slug not in generation.techniques:
        raise NotFoundError("No technique has this slug.")
    record = generation.techniques[slug]
    entry = record.entry
    view = technique_view(generation, slug)
    opening, rest = first_section(view["body"])
    return view | {
        "opening": opening,
        "diagram": diagram(slug),
        "rest": rest,
        "addresses": entry_addresses(generation),
        "origin": generation.sources[record.source],
        "when": gate_rows(entry.when),
        "avoid_when": gate_rows(entry.avoid_when),
        "measured": technique_line(entry, generation.kernel_entries),
        "measurements": measurements(technique_records(generation, slug)),
        "kernels": generation.kernels,
        "production": production_view(generation, slug, _PRODUCTION_LISTED),
        "sections": {name: anchor(name) for name in TECHNIQUE_SECTIONS},
        "examples": [_kernel_facts(generation, example) for example in generation.examples[slug]],
    }


def kernel_page(generation: Generation, slug: str) -> dict[str, Any]:
    """A kernel with what it derives from and what derives from it.

    Raises
    ------
    NotFoundError
        No kernel has this slug.
    """
    if slug not in generation.kernels:
        raise NotFoundError("No kernel has this slug.")
    entry = generation.kernels[slug].entry
    improved = [name for name, k in generation.kernels.items() if k.entry.derived_from == slug]
    return _kernel_facts(generation, slug) | {
        "origin": generation.sources[generation.kernels[slug].source],
        "measurements": measurements(ranked_records(entry, generation.kernel_entries)),
        "times": contenders(entry.title, entry.verified),
        "kernels": generation.kernels,
        "titles": {name: record.entry.title for name, record in generation.techniques.items()},
        "improved_by": improved,
    }


def chunk_page(generation: Generation, chunk_id: str) -> dict[str, Any]:
    """One chunk.

    Raises
    ------
    NotFoundError
        No chunk has this id.
    """
    # Half a surrogate pair, which an address may hold, cannot be looked up.
    is_ascii = chunk_id.isascii()
    view = chunk_view(generation, chunk_id) if is_ascii else None
    chunk = generation.store.find(chunk_id) if is_ascii else None
    if view is None or chunk is None:
        raise NotFoundError("No chunk has this id.")
    return view | {"entry": entry_address(generation, chunk.kind, chunk.entry)}


def sources_page(generation: Generation) -> dict[str, Any]:
    """The sources and the state of the index."""
    return {"sources": sources_view(generation), "index": index_view(generation)}


def gate_rows(gates: Sequence[Gate]) -> list[dict[str, Any]]:
    """Gates with the metrics that they are on."""
    return [
        {"gate": gate, "sign": _SIGNS[gate.op], "metric": find_metric(gate.metric)}
        for gate in gates
    ]


def measurements(records: Sequence[Verified]) -> list[dict[str, Any]]:
    """All records, in groups of one GPU, set of versions and date, in the given order."""
    groups: dict[tuple[str, str, str], list[Verified]] = {}
    for record in records:
        tools = [
            f"{name} {version}"
            for name, version in (
                ("driver", record.driver),
                ("CUDA", record.toolkit),
                ("PyTorch", record.torch),
                ("Triton", record.triton),
            )
            if version
        ]
        key = (record.gpu, ", ".join(tools), record.date.isoformat())
        groups.setdefault(key, []).append(record)
    return [
        {"gpu": gpu, "versions": versions, "date": date, "records": group}
        for (gpu, versions, date), group in groups.items()
    ]


def entry_addresses(generation: Generation) -> dict[str, str]:
    """Slug → address of every entry; a kernel gives way to a technique of its name."""
    kernels = {slug: f"/kernel/{slug}" for slug in generation.kernels}
    return kernels | {slug: f"/technique/{slug}" for slug in generation.techniques}


def entry_address(generation: Generation, kind: str, slug: str | None) -> str | None:
    """Where the entry that a chunk belongs to is shown, or None if it belongs to none."""
    if kind == "technique" and slug in generation.techniques:
        return f"/technique/{slug}"
    if kind == "kernel" and slug in generation.kernels:
        return f"/kernel/{slug}"
    return None


def _kernel_facts(generation: Generation, slug: str) -> dict[str, Any]:
    kernels = generation.kernel_entries
    return kernel_view(generation, slug) | {"measured": kernel_line(kernels[slug], kernels)}


def _row(generation: Generation, result: Result) -> dict[str, Any]:
    """A search result as the page shows it."""
    chunk = generation.store.find(result.id)
    assert chunk is not None  # the result was made from it
    entry = chunk.entry or ""
    href = entry_address(generation, chunk.kind, entry)
    measured = None
    if href is not None:
        records = generation.techniques if chunk.kind == "technique" else generation.kernels
        measured = entry_line(records[entry].entry, generation.kernel_entries, brief=True)
    return {
        "result": result,
        "href": href or f"/chunk/{result.id}",
        "measured": measured,
        "excerpt": excerpt(chunk),
        "explanation": explain_score(result.explanation or {}),
    }
