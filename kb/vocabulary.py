"""The fixed words of the knowledge base, from data files: taxonomy, metrics, GPU names."""

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import yaml

from kb.errors import InvalidInputError


@dataclass(frozen=True, slots=True)
class Metric:
    """One profiler metric: its Nsight Compute name, section, label and unit."""

    name: str
    section: str
    label: str
    unit: str
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU model that a request may name."""

    name: str
    architecture: str


def _load(name: str) -> dict[str, dict[str, object]]:
    text = (files("kb") / "data" / name).read_text(encoding="utf-8")
    data: dict[str, dict[str, object]] = yaml.safe_load(text)
    return data


@cache
def taxonomy() -> dict[str, dict[str, str]]:
    """Bottleneck → technique slug → title, in the order of the data file."""
    return {
        bottleneck: {slug: str(title) for slug, title in techniques.items()}
        for bottleneck, techniques in _load("taxonomy.yaml").items()
    }


@cache
def _metrics() -> dict[str, Metric]:
    table: dict[str, Metric] = {}
    for section, metrics in _load("metrics.yaml").items():
        for name, fields in metrics.items():
            assert isinstance(fields, dict)
            aliases = tuple(str(alias) for alias in fields["aliases"])
            metric = Metric(name, section, str(fields["label"]), str(fields["unit"]), aliases)
            for spelling in (name, *aliases):
                table[spelling.lower()] = metric
    return table


def find_metric(spelling: str) -> Metric | None:
    """The metric that goes by this name or alias, or None."""
    return _metrics().get(spelling.strip().lower())


def all_metrics() -> list[Metric]:
    """Every known metric once, by section."""
    return list(dict.fromkeys(_metrics().values()))


@cache
def _gpus() -> dict[str, Gpu]:
    table: dict[str, Gpu] = {}
    for name, fields in _load("gpus.yaml").items():
        gpu = Gpu(name, str(fields["architecture"]))
        aliases = fields["aliases"]
        assert isinstance(aliases, list)
        for spelling in (name, *aliases):
            table[str(spelling).lower()] = gpu
    return table


def find_gpu(name: str) -> Gpu:
    """The GPU that goes by this name.

    Raises
    ------
    InvalidInputError
        If no GPU goes by it: there is no silent fallback.
    """
    gpu = _gpus().get(name.strip().lower())
    if gpu is None:
        known = ", ".join(dict.fromkeys(each.name for each in _gpus().values()))
        raise InvalidInputError(f"unknown GPU '{name}': use one of {known}")
    return gpu


def gpu_names() -> list[str]:
    """The names of all known GPUs, the longest first."""
    return sorted({gpu.name for gpu in _gpus().values()}, key=lambda name: (-len(name), name))
