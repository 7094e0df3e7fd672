"""Domain ranking: what a chunk's metadata adds to the fused score of its text.

Every constant is in units of the fused score, where 1 means first in both the lexical and the dense
order. They were chosen on the development half of the benchmark's queries.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from kb.architectures import any_runs_on
from kb.index.columns import Values
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


Parts = dict[str, float]


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
        # Each term reads some columns; those the query says nothing about are left out. The terms
        # are functions of the class: bound methods would make a cycle, and the generation's files
        # would stay open until the next garbage collection.
        self._terms: list[tuple[tuple[str, ...], Callable[..., Parts]]] = [
            (("kinds", "techniques"), Ranker._by_technique),
            (("sources",), Ranker._by_source),
        ]
        if understanding.ops:
            self._terms.append((("ops",), Ranker._by_operator))
        if understanding.languages:
            self._terms.append((("languages",), Ranker._by_language))
        if understanding.device:
            self._terms.append((("architectures",), Ranker._by_architecture))
        if self._symbols:
            self._terms.append((("symbols",), Ranker._by_symbol))

    def parts(self, row: int) -> Parts:
        """The named parts that the metadata of the chunk at `row` adds to its score."""
        parts: Parts = {}
        for fields, term in self._terms:
            parts |= term(self, *(self._columns[field].of(row) for field in fields))
        return {name: value for name, value in parts.items() if value}

    def totals(self, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """The sum of `parts` for each row, (n,); a term runs once per distinct metadata."""
        total = np.zeros(len(rows))
        for fields, term in self._terms:
            columns = [self._columns[field] for field in fields]
            known: dict[tuple[int, ...], float] = {}
            for position, key in enumerate(
                zip(*(column.codes[rows].tolist() for column in columns), strict=True)
            ):
                if key not in known:
                    values = (c.values[code] for c, code in zip(columns, key, strict=True))
                    known[key] = sum(term(self, *values).values())
                total[position] += known[key]
        return total

    def named(self) -> list[str]:
        """Techniques that the query names, the first one first."""
        return list(self._named)

    def _by_technique(self, kinds: Values, techniques: Values) -> Parts:
        is_entry = kinds[0] == "technique"
        named = max((self._named.get(slug, 0.0) for slug in techniques), default=0.0)
        share = 1.0 if is_entry else SHOWS_TECHNIQUE / NAMED_TECHNIQUE
        gates = GATES * self._gates.get(techniques[0], 0.0) if is_entry else 0.0
        return {"kind": KIND_PRIOR[kinds[0]], "technique named": named * share, "gates": gates}

    def _by_source(self, sources: Values) -> Parts:
        return {"source quality": SOURCE_QUALITY * (self._quality[sources[0]] - 1.0)}

    def _by_operator(self, ops: Values) -> Parts:
        return {} if set(self._said.ops).isdisjoint(ops) else {"operator named": NAMED_OP}

    def _by_language(self, languages: Values) -> Parts:
        if languages[0] not in _CODE_LANGUAGES:
            return {}
        fits = any(languages[0] in _SAME_LANGUAGE[each] for each in self._said.languages)
        return {"language": LANGUAGE_FIT if fits else LANGUAGE_MISFIT}

    def _by_architecture(self, architectures: Values) -> Parts:
        assert self._said.device is not None  # the term is left out otherwise
        runs = any_runs_on(architectures, self._said.device)
        return {} if runs else {"architecture": ARCHITECTURE_MISFIT}

    def _by_symbol(self, symbols: Values) -> Parts:
        if not symbols:
            return {}
        symbol = symbols[0].lower()
        last = symbol.replace("::", ".").rsplit(".", 1)[-1]
        return {"defines symbol": DEFINES_SYMBOL} if self._symbols & {symbol, last} else {}
