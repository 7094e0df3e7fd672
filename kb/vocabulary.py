"""The fixed words of the knowledge base, from data files: taxonomy, metrics, GPU names."""

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

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
    varies: bool = False
    """Not every card has it."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """What a request's GPU name stands for; its specifications are in `kb.gpus`."""

    name: str
    """The family, such as H100, which may stand for several cards of one architecture."""
    architecture: str


# libyaml parses these files about seven times faster than the pure Python loader, and every command
# reads them; a build of PyYAML without it does as well.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# Words before a card's name that do not tell cards apart.
_GPU_PREFIX = re.compile(r"^(?:(?:nvidia|geforce|tesla) )+")


def load_yaml(text: str) -> Any:
    """Plain values from YAML text; no tags that construct objects.

    Raises
    ------
    yaml.YAMLError
        If it cannot be parsed.
    """
    return yaml.load(text, _LOADER)  # noqa: S506 - one of the two safe loaders


def compose_yaml(text: str) -> yaml.Node | None:
    """The nodes of YAML text, which say where each value stands; None where there is none.

    Raises
    ------
    yaml.YAMLError
        If it cannot be parsed.
    """
    node: yaml.Node | None = yaml.compose(text, _LOADER)
    return node


def _load(name: str) -> dict[str, dict[str, object]]:
    text = (files("kb") / "data" / name).read_text(encoding="utf-8")
    data: dict[str, dict[str, object]] = load_yaml(text)
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
            if not isinstance(fields, dict):
                continue  # the section's title
            aliases = tuple(str(alias) for alias in fields["aliases"])
            varies = bool(fields.get("varies", False))
            label, unit = str(fields["label"]), str(fields["unit"])
            metric = Metric(name, section, label, unit, aliases, varies)
            for spelling in (name, *aliases):
                table[spelling.lower()] = metric
    return table


def find_metric(spelling: str) -> Metric | None:
    """The metric that goes by this name or alias, or None."""
    return _metrics().get(spelling.strip().lower())


@cache
def metric_sections() -> dict[str, str]:
    """Section of metrics → its title, in the order of the data file."""
    return {name: str(section["title"]) for name, section in _load("metrics.yaml").items()}


def all_metrics() -> list[Metric]:
    """Every known metric once, by section."""
    return list(dict.fromkeys(_metrics().values()))


def gpu_spelling(name: str) -> str:
    """A GPU's name in the one spelling by which names are compared.

    `NVIDIA A100-SXM4-80GB` and `a100 sxm4 80gb` are one.
    """
    return _GPU_PREFIX.sub("", " ".join(re.split(r"[\s_-]+", name.strip().lower())))


@cache
def gpu_table() -> dict[str, dict[str, object]]:
    """`gpus.yaml` as it stands; `kb.gpus` checks it."""
    return _load("gpus.yaml")


@cache
def _gpus() -> dict[str, Gpu]:
    table: dict[str, Gpu] = {}
    for name, fields in gpu_table().items():
        gpu = Gpu(str(fields["family"]), str(fields["architecture"]))
        aliases = fields["aliases"]
        assert isinstance(aliases, list)
        for spelling in (gpu.name, name, *aliases):
            table[gpu_spelling(str(spelling))] = gpu
    return table


def find_gpu(name: str) -> Gpu:
    """The GPU family that goes by this name, or that a card of this name belongs to.

    Raises
    ------
    InvalidInputError
        If no GPU goes by it: there is no silent fallback.
    """
    gpu = _gpus().get(gpu_spelling(name))
    if gpu is None:
        known = ", ".join(dict.fromkeys(each.name for each in _gpus().values()))
        raise InvalidInputError(f"unknown GPU '{name}': use one of {known}")
    return gpu


def gpu_names() -> list[str]:
    """The names of all known GPU families, the longest first."""
    return sorted({gpu.name for gpu in _gpus().values()}, key=lambda name: (-len(name), name))
