"""What words and counters of the field mean: the entries that answer them, and notes."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from kb.index.tokens import terms
from kb.profiles.names import find_names, is_spelled
from kb.search.phrases import Phrases
from kb.vocabulary import find_metric, read_data

# A stall or a pipe at this share of the time is as clear as its name alone.
_CLEAR_PERCENT = 30.0
# Who gives more counters than these shows a profile: gates weigh them together, and one counter's
# meaning is a hint among others.
_FEW_METRICS = 2
_AMONG_MANY = 0.25


@dataclass(frozen=True, slots=True)
class Meaning:
    """The entries and the note for one phrase or counter."""

    techniques: Mapping[str, float]
    """Slug → weight in [-1, 1]."""
    kernels: Mapping[str, float]
    note: str = ""
    metric: str | None = None
    """The metric whose name means it."""
    said: tuple[str, ...] = ()
    """Phrases that mean it."""
    pattern: re.Pattern[str] | None = None
    code: re.Pattern[str] | None = None
    """What it looks like in code."""
    bound: tuple[str, float, float] | None = None
    """A metric, and the values below and above which its value has to lie."""


@dataclass(frozen=True, slots=True)
class QueryMeaning:
    """The combined meaning of a query's words."""

    entries: Mapping[str, float] = field(default_factory=dict)
    """`technique:SLUG` or `kernel:SLUG` → weight in [-1, 1]."""
    notes: tuple[str, ...] = ()


def query_meaning(query: str, metrics: Mapping[str, float]) -> QueryMeaning:
    """What a query means beyond its words; `metrics` are those for which it gives values.

    Takes time in proportion to the query.
    """
    tokens = terms(query)
    metric_names = metrics.keys() | {
        place.names[0].metric.name
        for place in find_names(query)
        if not place.names[0].loose and is_spelled(place.names[0].metric, query, place)
    }
    alone = len(metrics) <= _FEW_METRICS
    phrases = _phrase_index().matches(tokens)
    shares = (
        (meaning, _share(meaning, query, number in phrases, metric_names, metrics))
        for number, meaning in enumerate(_meanings())
    )
    return _strongest(
        (meaning, share * _AMONG_MANY if meaning.metric is not None and not alone else share)
        for meaning, share in shares
        if share
    )


def code_meaning(code: str) -> QueryMeaning:
    """What patterns in pasted code are symptoms of; linear in the code's length."""
    return _strongest(
        (meaning, 1.0)
        for meaning in _meanings()
        if meaning.code is not None and meaning.code.search(code)
    )


def _strongest(shares: Iterable[tuple[Meaning, float]]) -> QueryMeaning:
    """Of all meanings, each with how much it is meant, the strongest for each entry."""
    weights: dict[str, float] = {}
    notes: dict[str, None] = {}
    for meaning, share in shares:
        if meaning.note:
            notes[meaning.note] = None
        for kind, entries in (("technique", meaning.techniques), ("kernel", meaning.kernels)):
            for slug, weight in entries.items():
                entry, value = f"{kind}:{slug}", weight * share
                if abs(value) > abs(weights.get(entry, 0.0)):
                    weights[entry] = value
    return QueryMeaning(weights, tuple(notes))


def _share(
    meaning: Meaning, query: str, is_said: bool, names: Iterable[str], metrics: Mapping[str, float]
) -> float:
    """How much a query means it, in [0, 1]."""
    if meaning.bound is not None:
        metric, below, above = meaning.bound
        if metric not in metrics or not above < metrics[metric] < below:
            return 0.0
    if is_said:
        return 1.0
    if any(regex is not None and regex.search(query) for regex in (meaning.pattern, meaning.code)):
        return 1.0
    if meaning.metric is None or meaning.metric not in names:
        return 0.0
    spec = find_metric(meaning.metric)
    value = metrics.get(meaning.metric)
    if meaning.bound is None and value is not None and spec is not None and spec.unit == "%":
        return min(value / _CLEAR_PERCENT, 1.0)
    return 1.0


@cache
def _meanings() -> tuple[Meaning, ...]:
    return tuple(_meaning(fields) for fields in read_data("meanings.yaml"))


@cache
def _phrase_index() -> Phrases[int]:
    """Phrase → the number of what it means."""
    return Phrases(
        (name, number) for number, meaning in enumerate(_meanings()) for name in meaning.said
    )


def _meaning(fields: dict[str, Any]) -> Meaning:
    metric = find_metric(fields["metric"]) if "metric" in fields else None
    bound = None
    if (limits := fields.get("with")) is not None:
        other = find_metric(limits["metric"])
        assert other is not None  # a test reads the whole file
        bound = (other.name, float(limits.get("below", "inf")), float(limits.get("above", "-inf")))
    return Meaning(
        techniques=fields.get("techniques", {}),
        kernels=fields.get("kernels", {}),
        note=fields.get("note", ""),
        metric=metric.name if metric is not None else None,
        said=tuple(fields.get("said", ())),
        pattern=re.compile(fields["pattern"]) if "pattern" in fields else None,
        code=re.compile(fields["code"], re.MULTILINE) if "code" in fields else None,
        bound=bound,
    )


@dataclass(frozen=True, slots=True)
class DomainTerms:
    """How a query relates to the field of GPU kernels, whatever the index holds."""

    terms: int = 0
    """Distinct words and phrases that only the field has."""
    neutral: frozenset[str] = frozenset()
    """Tokens of the field and of libraries: an index that lacks one is no judge of it."""
    outside: bool = False
    """Whether it asks about what lies beside the field."""


def domain_terms(query: str) -> DomainTerms:
    """How a query relates to the field of GPU kernels."""
    words = _field_words()
    tokens = terms(query)
    field_words, libraries, outside = (words[name] for name in ("field", "libraries", "outside"))
    neutral = frozenset(field_words.terms_in(tokens) | libraries.terms_in(tokens))
    return DomainTerms(len(field_words.matches(tokens)), neutral, bool(outside.matches(tokens)))


@cache
def _field_words() -> dict[str, Phrases[tuple[str, ...]]]:
    data = read_data("field_words.yaml")
    groups = data["field"]
    field = [word for name, value in groups.items() if name != "phrases" for word in value.split()]
    words = {"field": [*field, *groups["phrases"]], "libraries": data["libraries"]}
    words["outside"] = data["outside"]
    return {
        group: Phrases((name, tuple(terms(name))) for name in names)
        for group, names in words.items()
    }
