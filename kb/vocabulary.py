"""The fixed words of the knowledge base, from data files: taxonomy and metrics."""

import math
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import yaml


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
    shown: tuple[str, ...] = ()
    """What Nsight Compute calls it on its details page."""
    said: tuple[str, ...] = ()
    """What people call it."""
    loose: tuple[str, ...] = ()
    """What people call it, and other things as well: a number needs its unit beside these."""
    unsaid: tuple[str, ...] = ()
    """Aliases that mean something else in a question."""
    complement: tuple[str, ...] = ()
    """Names of 100 % less the value."""
    least: float = 0.0
    """No kernel has less."""
    most: float = math.inf
    """No kernel has more."""
    instead: str | None = None
    """The metric that is read where this one was not collected."""


# libyaml parses these files about seven times faster than the pure Python loader, and every command
# reads them; a build of PyYAML without it does as well.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# Far above what an entry holds: they bound what a few kilobytes of foreign YAML can grow to.
_DEEPEST_YAML = 20
_MOST_YAML = 50_000
_LONGEST_NUMBER = 100
_IN_NUMBERS = frozenset("0123456789_:.+-eE")


def load_yaml(text: str) -> Any:
    """Plain values from YAML text; no tags that construct objects.

    Raises
    ------
    yaml.YAMLError
        If it cannot be parsed.
    """
    return yaml.load(text, _LOADER)  # noqa: S506 - one of the two safe loaders


def check_foreign_yaml(text: str) -> None:
    """Refuse YAML that is small as text and large or deep as values. Builds nothing.

    Raises
    ------
    yaml.YAMLError
        It is malformed, nested deeper than entries are, uses aliases, or holds too much.
    """
    depth = 0
    for count, event in enumerate(yaml.parse(text, _LOADER)):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        problem = None
        if isinstance(event, yaml.AliasEvent):
            problem = "aliases (*name) are not supported: write the value where it is used"
        elif depth > _DEEPEST_YAML:
            problem = f"nested deeper than {_DEEPEST_YAML} levels"
        elif count > _MOST_YAML:
            problem = f"more than {_MOST_YAML:,} values"
        elif isinstance(event, yaml.ScalarEvent) and event.implicit[0] and _is_long(event.value):
            problem = "a number with too many digits: quote what is text"
        if problem is not None:
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)  # type: ignore[arg-type]


def _is_long(number: str) -> bool:
    """Whether a plain scalar is a number too long to read: to base 60, that takes its square."""
    return len(number) > _LONGEST_NUMBER and _IN_NUMBERS.issuperset(number)


def compose_yaml(text: str) -> yaml.Node | None:
    """The nodes of YAML text, which say where each value stands; None where there is none.

    Raises
    ------
    yaml.YAMLError
        If it cannot be parsed.
    """
    node: yaml.Node | None = yaml.compose(text, _LOADER)
    return node


def read_data(name: str) -> Any:
    """The values in the YAML file `name` of `kb/data`."""
    return load_yaml((files("kb") / "data" / name).read_text(encoding="utf-8"))


@cache
def taxonomy() -> dict[str, dict[str, str]]:
    """Bottleneck → technique slug → title, in the order of the data file."""
    return {
        bottleneck: {slug: str(title) for slug, title in techniques.items()}
        for bottleneck, techniques in read_data("taxonomy.yaml").items()
    }


def technique_titles() -> dict[str, str]:
    """Technique slug → title, in the order of the data file."""
    return {slug: title for group in taxonomy().values() for slug, title in group.items()}


@cache
def _metrics() -> dict[str, Metric]:
    table: dict[str, Metric] = {}
    for section, metrics in read_data("metrics.yaml").items():
        for name, fields in metrics.items():
            if not isinstance(fields, dict):
                continue  # the section's title
            # Lists as the tuples that `Metric` has.
            values: dict[str, Any] = {
                key: tuple(value) if isinstance(value, list) else value
                for key, value in fields.items()
            }
            metric = Metric(name, section, **values)
            for spelling in (name, *metric.aliases):
                table[spelling.lower()] = metric
    return table


def find_metric(spelling: str) -> Metric | None:
    """The metric that goes by this name or alias, or None."""
    return _metrics().get(spelling.strip().lower())


@cache
def metric_sections() -> dict[str, str]:
    """Section of metrics → its title, in the order of the data file."""
    return {name: str(section["title"]) for name, section in read_data("metrics.yaml").items()}


def all_metrics() -> list[Metric]:
    """Every known metric once, by section."""
    return list(dict.fromkeys(_metrics().values()))
