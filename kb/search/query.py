"""What a query says: techniques, operator, language, architecture and metrics named in it."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache

from kb.index.reader import Generation
from kb.index.state import TechniqueRecord
from kb.index.tokens import identifiers, tokenize
from kb.vocabulary import all_metrics, find_gpu, find_metric, gpu_names

_LANGUAGES = {"triton": "triton", "cuda": "cuda", "tl": "triton"}
_ARCHITECTURE = re.compile(r"\bsm_?(\d{2,3})([af]?)\b", re.IGNORECASE)
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)\s*(%|percent|k|m|g)?", re.IGNORECASE)
_SCALE = {"k": 1e3, "m": 1e6, "g": 1e9}
# How far behind a metric's name its value may stand: "L2 hit rate is only about 30%".
_VALUE_WINDOW = 24
# One-word aliases are matched whole; shorter ones are too common to mean the technique.
_SHORTEST_NAME = 3


@dataclass(frozen=True, slots=True)
class Understanding:
    """What was recognised in a query."""

    text: str
    techniques: tuple[str, ...] = ()
    ops: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    device: str | None = None
    """Architecture named, directly or by a GPU's name."""
    symbols: tuple[str, ...] = ()
    """Words that look like identifiers."""
    metrics: dict[str, float] = field(default_factory=dict)
    """Nsight Compute metric → value, where the query gives both."""


def understand(query: str, generation: Generation) -> Understanding:
    """Recognise what a query names, by the words of the index's own entries."""
    tokens = tokenize(query)
    return Understanding(
        text=query,
        techniques=_techniques(tokens, generation.techniques.values()),
        ops=_ops(tokens, generation),
        languages=tuple(dict.fromkeys(_LANGUAGES[t] for t in tokens if t in _LANGUAGES)),
        device=_device(query),
        symbols=tuple(dict.fromkeys(identifiers(query))),
        metrics=metrics_in(query),
    )


def _contains(tokens: list[str], phrase: list[str]) -> bool:
    size = len(phrase)
    return any(tokens[i : i + size] == phrase for i in range(len(tokens) - size + 1))


def _names(record: TechniqueRecord) -> Iterable[str]:
    entry = record.entry
    yield entry.slug.replace("-", " ")
    yield re.sub(r"\(.*?\)", "", entry.title)
    yield from entry.aliases


def _techniques(tokens: list[str], records: Iterable[TechniqueRecord]) -> tuple[str, ...]:
    """Techniques whose slug, title or alias stands in the query, the longest name first."""
    found: dict[str, int] = {}
    for record in records:
        for name in _names(record):
            phrase = tokenize(name)
            if len("".join(phrase)) >= _SHORTEST_NAME and _contains(tokens, phrase):
                found[record.entry.slug] = max(found.get(record.entry.slug, 0), len(phrase))
    return tuple(sorted(found, key=lambda slug: (-found[slug], slug)))


def _ops(tokens: list[str], generation: Generation) -> tuple[str, ...]:
    ops = {value for values in generation.columns["ops"].values for value in values}
    return tuple(sorted(op for op in ops if _contains(tokens, tokenize(op.replace("-", " ")))))


def _device(query: str) -> str | None:
    match = _ARCHITECTURE.search(query)
    if match:
        return f"sm_{match[1]}{match[2].lower()}"
    lowered = query.lower()
    for name in gpu_names():
        if re.search(rf"\b{re.escape(name.lower())}\b", lowered):
            return find_gpu(name).architecture
    return None


@cache
def _metric_spellings() -> list[tuple[re.Pattern[str], str]]:
    spellings: list[tuple[str, str]] = []
    for metric in all_metrics():
        names = {metric.name, metric.label, *metric.aliases}
        spellings += [(name.lower().replace("_", " "), metric.name) for name in names]
    # The longest first, so that "global load efficiency" is not read as a shorter name in it.
    spellings.sort(key=lambda pair: -len(pair[0]))
    return [(re.compile(rf"(?<!\w){re.escape(name)}(?!\w)"), metric) for name, metric in spellings]


def metrics_in(query: str) -> dict[str, float]:
    """Metrics that a query gives with a value: `L2 hit rate is 30%` → its full name and 30."""
    text = query.lower().replace("_", " ")
    found: dict[str, float] = {}
    for pattern, metric in _metric_spellings():
        for match in pattern.finditer(text):
            rest = text[match.end() : match.end() + _VALUE_WINDOW]
            number = _NUMBER.search(rest.split(",")[0].split(";")[0].split("\n")[0])
            if number and metric not in found:
                found[metric] = float(number[1]) * _SCALE.get(number[2] or "", 1.0)
            # A shorter spelling must not match inside this one again.
            text = text[: match.start()] + " " * (match.end() - match.start()) + text[match.end() :]
    return found


def resolve_profile(profile: dict[str, float]) -> tuple[dict[str, float], list[str]]:
    """A profile under full metric names, and the keys that name no known metric."""
    known: dict[str, float] = {}
    ignored: list[str] = []
    for key, value in profile.items():
        metric = find_metric(key)
        if metric is None:
            ignored.append(key)
        else:
            known[metric.name] = value
    return known, ignored
