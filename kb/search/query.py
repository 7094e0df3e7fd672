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


class QueryReader:
    """Reads queries by the words of one generation's entries, which are tokenized once."""

    def __init__(self, generation: Generation) -> None:
        self._techniques = _Phrases()
        for slug, record in generation.techniques.items():
            for name in _names(record):
                self._techniques.add(name, slug)
        self._ops = _Phrases()
        for op in {value for values in generation.columns["ops"].values for value in values}:
            self._ops.add(op.replace("-", " "), op)

    def read(self, query: str) -> Understanding:
        """Recognise what a query names."""
        tokens = tokenize(query)
        techniques = self._techniques.found_in(tokens)
        return Understanding(
            text=query,
            # the longest name first: it says most
            techniques=tuple(sorted(techniques, key=lambda slug: (-techniques[slug], slug))),
            ops=tuple(sorted(self._ops.found_in(tokens))),
            languages=tuple(dict.fromkeys(_LANGUAGES[t] for t in tokens if t in _LANGUAGES)),
            device=_device(query),
            symbols=tuple(dict.fromkeys(identifiers(query))),
            metrics=metrics_in(query),
        )


class _Phrases:
    """Names as token sequences, found in a query in one pass."""

    def __init__(self) -> None:
        self._by_first: dict[str, list[tuple[list[str], str]]] = {}

    def add(self, name: str, meaning: str) -> None:
        phrase = tokenize(name)
        if len("".join(phrase)) >= _SHORTEST_NAME:
            self._by_first.setdefault(phrase[0], []).append((phrase, meaning))

    def found_in(self, tokens: list[str]) -> dict[str, int]:
        """Meaning → tokens of its longest name that stands in the query."""
        found: dict[str, int] = {}
        for position, token in enumerate(tokens):
            for phrase, meaning in self._by_first.get(token, ()):
                if tokens[position : position + len(phrase)] == phrase:
                    found[meaning] = max(found.get(meaning, 0), len(phrase))
        return found


def _names(record: TechniqueRecord) -> Iterable[str]:
    entry = record.entry
    yield entry.slug.replace("-", " ")
    yield re.sub(r"\(.*?\)", "", entry.title)
    yield from entry.aliases


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
