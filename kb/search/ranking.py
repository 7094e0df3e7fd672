"""Domain ranking: what a chunk's metadata adds to the fused score of its text.

Every constant is in units of the fused score, where 1 means first in both the lexical and the dense
order. They were chosen on the development half of the benchmark's queries.
"""

from dataclasses import dataclass

from kb.architectures import any_runs_on
from kb.index.reader import Generation
from kb.search.gates import judge_gates
from kb.search.query import Understanding

# The query names the technique: its entry answers before anything that only mentions it.
NAMED_TECHNIQUE = 0.35
# Later names in the query weigh less than the first (longest) one.
NAMED_DECAY = 0.6
# A kernel or code chunk that shows a named technique.
SHOWS_TECHNIQUE = 0.12
# The chunk's operator is named.
NAMED_OP = 0.10
# The chunk defines an identifier that the query names: nothing answers better.
DEFINES_SYMBOL = 0.60
# Language named, and the chunk is in it or in the other one.
LANGUAGE_FIT = 0.06
LANGUAGE_MISFIT = -0.10
# Architecture named, and the chunk does not run there.
ARCHITECTURE_MISFIT = -0.40
# Full support by the gates, for metrics that the query gives.
GATES = 0.45
# An entry explains and cites; bare code only shows. Kernels of the corpus are checked.
KIND_PRIOR = {"technique": 0.08, "kernel": 0.03, "code": 0.0, "doc": 0.0, "note": 0.0}
# Ranking weight of the source, relative to the best: 0.8 costs a fifth of this.
SOURCE_QUALITY = 0.15

# The largest sum there can be; it scales scores into [0, 1].
HIGHEST = 1.0 + NAMED_TECHNIQUE + NAMED_OP + DEFINES_SYMBOL + LANGUAGE_FIT + GATES + 0.08

_CODE_LANGUAGES = {"triton", "cuda", "cpp", "python"}
_SAME_LANGUAGE = {"triton": {"triton", "python"}, "cuda": {"cuda", "cpp"}}


@dataclass(frozen=True, slots=True)
class Adjustment:
    """The named parts that metadata adds to a chunk's score."""

    parts: dict[str, float]

    @property
    def total(self) -> float:
        """Their sum."""
        return sum(self.parts.values())


class Ranker:
    """Adjustments for one query over one generation; what depends on the query is done once."""

    def __init__(self, understanding: Understanding, generation: Generation) -> None:
        self._said = understanding
        self._columns = generation.columns
        self._quality = {name: source.quality for name, source in generation.sources.items()}
        self._named = {
            slug: NAMED_TECHNIQUE * NAMED_DECAY**rank
            for rank, slug in enumerate(understanding.techniques)
        }
        self._symbols = {symbol.lower() for symbol in understanding.symbols}
        self._gates = {
            slug: judge_gates(record.entry, understanding.metrics).support
            for slug, record in generation.techniques.items()
            if understanding.metrics
        }

    def adjustment(self, row: int) -> Adjustment:
        """What the metadata of the chunk at `row` adds."""
        columns, said = self._columns, self._said
        kind = columns["kinds"].of(row)[0]
        techniques = columns["techniques"].of(row)
        language = columns["languages"].of(row)[0]
        parts = {"kind": KIND_PRIOR[kind]}
        named = max((self._named.get(slug, 0.0) for slug in techniques), default=0.0)
        if named:
            share = 1.0 if kind == "technique" else SHOWS_TECHNIQUE / NAMED_TECHNIQUE
            parts["technique named"] = named * share
        if said.ops and set(said.ops) & set(columns["ops"].of(row)):
            parts["operator named"] = NAMED_OP
        if self._defines(columns["symbols"].of(row)):
            parts["defines symbol"] = DEFINES_SYMBOL
        if said.languages and language in _CODE_LANGUAGES:
            fits = any(language in _SAME_LANGUAGE[each] for each in said.languages)
            parts["language"] = LANGUAGE_FIT if fits else LANGUAGE_MISFIT
        if said.device and not any_runs_on(columns["architectures"].of(row), said.device):
            parts["architecture"] = ARCHITECTURE_MISFIT
        if kind == "technique" and self._gates:
            parts["gates"] = GATES * self._gates.get(techniques[0], 0.0)
        quality = self._quality.get(columns["sources"].of(row)[0], 0.8)
        parts["source quality"] = SOURCE_QUALITY * (quality - 1.0)
        return Adjustment({name: value for name, value in parts.items() if value})

    def supported(self) -> list[str]:
        """Techniques whose gates the query's metrics support, the best supported first."""
        supported = [slug for slug, support in self._gates.items() if support > 0]
        return sorted(supported, key=lambda slug: (-self._gates[slug], slug))

    def named(self) -> list[str]:
        """Techniques that the query names, the first one first."""
        return list(self._named)

    def _defines(self, symbols: tuple[str, ...]) -> bool:
        if not self._symbols or not symbols:
            return False
        symbol = symbols[0].lower()
        last = symbol.replace("::", ".").rsplit(".", 1)[-1]
        return symbol in self._symbols or last in self._symbols
