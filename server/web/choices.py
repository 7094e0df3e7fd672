"""The filters that the search form offers: what the index holds, and what is chosen already."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kb.corpus.entries import BOTTLENECKS
from kb.gpus import find_gpu, gpu_names
from kb.index.reader import Generation
from kb.records import KINDS
from kb.views import tree_view


@dataclass(frozen=True, slots=True)
class Choice:
    """One value of a filter."""

    value: str
    label: str
    chosen: bool


@dataclass(frozen=True, slots=True)
class FilterField:
    """One filter: its parameter, its heading and its values."""

    name: str
    heading: str
    choices: list[Choice]
    is_wide: bool = False
    """Whether the labels are long."""


def filter_fields(generation: Generation, chosen: Mapping[str, list[str]]) -> list[FilterField]:
    """All filters. A chosen value that the index does not know is offered as well."""
    techniques = {
        technique["slug"]: technique["title"]
        for bottleneck in tree_view(generation)["bottlenecks"]
        for technique in bottleneck["techniques"]
    }
    languages = sorted(generation.columns["languages"].codes_by_value)
    return [
        _field("kind", "Kind", _same(KINDS), chosen),
        _field("bottleneck", "Bottleneck", _same(BOTTLENECKS), chosen),
        _field("language", "Language", _same(languages), chosen),
        _field("architecture", "Runs on", device_architectures(), chosen),
        _field("technique", "Technique", techniques, chosen, is_wide=True),
        _field("source", "Source", _same(generation.sources), chosen, is_wide=True),
    ]


def device_architectures() -> dict[str, str]:
    """Architecture → label with the GPUs that have it, oldest first."""
    gpus: dict[str, list[str]] = {}
    for name in gpu_names():
        gpus.setdefault(find_gpu(name).architecture, []).append(name)
    ordered = sorted(gpus, key=lambda name: int("".join(c for c in name if c.isdigit())))
    return {name: f"{name} ({', '.join(sorted(gpus[name]))})" for name in ordered}


def _same(values: Iterable[str]) -> dict[str, str]:
    return {value: value for value in values}


def _field(
    name: str,
    heading: str,
    labels: Mapping[str, str],
    chosen: Mapping[str, list[str]],
    *,
    is_wide: bool = False,
) -> FilterField:
    selected = chosen.get(name, [])
    everything = {**labels, **{value: value for value in selected if value not in labels}}
    choices = [Choice(value, label, value in selected) for value, label in everything.items()]
    return FilterField(name, heading, choices, is_wide)
