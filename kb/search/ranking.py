"""Domain ranking: what a chunk's metadata adds to the fused score of its text.

Every constant is in units of the fused score, which is 1 for a chunk that has the query's words as
no other has and its very meaning. The best chunk of a query has 0.6 to 0.9, the tenth 0.2 less.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from kb.architectures import any_runs_on
from kb.index.columns import Values
from kb.index.reader import Generation
from kb.search.entries import FROM_KERNEL
from kb.search.gates import judge_gates
from kb.search.query import Understanding

# The query names the technique: its entry answers before anything that only mentions it.
NAMED_TECHNIQUE = 0.35
# Later names in the query weigh less than the first (longest) one.
NAMED_DECAY = 0.6
# What a name counts where it is a few words of many: "tensor cores idle while loads are waited for"
# asks for what helps the tensor cores. The larger its share of the query, the more it is the topic.
NAMED_IN_PASSING = 0.4
# A kernel or code chunk that shows a named technique.
SHOWS_TECHNIQUE = 0.12
# The chunk's operator is named. Twice as much cost function search 0.006 nDCG@10: a word such as
# "scale" names an operator in one sentence and nothing in the next.
NAMED_OP = 0.05
# The chunk works with a number format that is named.
NAMED_DTYPE = 0.05
# The chunk defines an identifier that is all of the query: nothing answers better.
DEFINES_SYMBOL = 0.60
# One plain word, such as `softmax`: a function's name, or just the topic.
PLAIN_WORD = 0.5
# In a sentence the identifier is more often what the answer uses than what it is.
IN_A_SENTENCE = 0.1
# The query is `tl.dot` and `dot` is defined: the prefix is a module's short name, or another class.
BY_LAST_NAME = 0.5
# Language named, and the chunk is in it or in the other one.
LANGUAGE_FIT = 0.06
LANGUAGE_MISFIT = -0.10
# Architecture named, and the chunk does not run there.
ARCHITECTURE_MISFIT = -0.40
# Full support by the gates, for metrics that the query gives.
GATES = 0.45
# An entry explains and cites; bare code only shows. Kernels of the corpus are checked, but with as
# much as techniques they would hide the functions that are asked for (0.19 nDCG@10 of the slice).
KIND_PRIOR = {"technique": 0.30, "kernel": 0.08, "code": 0.0, "doc": 0.0, "note": 0.0}
# Imports, constants and the heads of classes name everything around them and do nothing.
ROLE_PRIOR = {"other": -0.15, "type": -0.10}
# A kernel is asked for: its body comes before what launches it. Twice as much would cost function
# search 0.003 nDCG@10, where "kernel" is often said of the launcher.
KERNEL_WANTED = {"kernel": 0.08, "host": -0.04}
# The pasted kernel does this already; another one that does more is worth reading.
ALREADY_USED = -0.10
DOES_MORE = 0.04
# Ranking weight of the source, relative to the best: 0.8 costs a fifth of this.
SOURCE_QUALITY = 0.15

# The largest sum there can be; it scales scores into [0, 1].
HIGHEST = (
    1.0
    + NAMED_TECHNIQUE
    + NAMED_OP
    + NAMED_DTYPE
    + DEFINES_SYMBOL
    + LANGUAGE_FIT
    + FROM_KERNEL
    + GATES
    + KIND_PRIOR["technique"]
)

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
            slug: NAMED_TECHNIQUE
            * NAMED_DECAY**rank
            * (NAMED_IN_PASSING + (1 - NAMED_IN_PASSING) * understanding.shares.get(slug, 1.0))
            for rank, slug in enumerate(understanding.techniques)
        }
        self._symbols = {plain_name(symbol) for symbol in understanding.symbols}
        self._last_names = {last_name(symbol) for symbol in understanding.symbols}
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
            (("roles",), Ranker._by_role),
        ]
        if understanding.ops:
            self._terms.append((("ops",), Ranker._by_operator))
        if understanding.languages:
            self._terms.append((("languages",), Ranker._by_language))
        if understanding.device:
            self._terms.append((("architectures",), Ranker._by_architecture))
        if understanding.dtypes:
            self._terms.append((("dtypes",), Ranker._by_dtype))
        if understanding.pasted:
            self._terms.append((("kinds", "techniques"), Ranker._beside_pasted))
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
            shape = tuple(len(column.values) for column in columns)
            codes = [column.codes[rows].astype(np.intp) for column in columns]
            distinct, places = np.unique(np.ravel_multi_index(codes, shape), return_inverse=True)
            found = zip(*(code.tolist() for code in np.unravel_index(distinct, shape)), strict=True)
            added = [
                sum(
                    term(self, *(c.values[at] for c, at in zip(columns, key, strict=True))).values()
                )
                for key in found
            ]
            total += np.array(added, dtype=np.float64)[places] if added else 0.0
        return total

    def named(self) -> list[str]:
        """Techniques that the query names, the first one first."""
        return list(self._named)

    def support(self, places: Mapping[str, int]) -> NDArray[np.float64]:
        """What speaks for each entry beside its text, (m,): its name, or its gates by the metrics.

        `places` tells where each entry's is. Only a technique's; what its kernels get of it is
        `Entries.passed_on`'s.
        """
        found = np.zeros(len(places))
        for slug in {*self._named, *self._gates}:
            place = places.get(f"technique:{slug}")
            if place is not None:
                gates = GATES * self._gates.get(slug, 0.0)
                found[place] = self._named.get(slug, 0.0) + gates
        return found

    def _by_technique(self, kinds: Values, techniques: Values) -> Parts:
        is_entry = kinds[0] == "technique"
        named = max((self._named.get(slug, 0.0) for slug in techniques), default=0.0)
        share = 1.0 if is_entry else SHOWS_TECHNIQUE / NAMED_TECHNIQUE
        gates = GATES * self._gates.get(techniques[0], 0.0) if is_entry else 0.0
        return {"kind": KIND_PRIOR[kinds[0]], "technique named": named * share, "gates": gates}

    def _beside_pasted(self, kinds: Values, techniques: Values) -> Parts:
        if kinds[0] == "technique":
            used = not self._said.used.isdisjoint(techniques)
            return {"already used": ALREADY_USED if used else 0.0}
        return {"does more": 0.0 if self._said.used.issuperset(techniques) else DOES_MORE}

    def _by_source(self, sources: Values) -> Parts:
        return {"source quality": SOURCE_QUALITY * (self._quality[sources[0]] - 1.0)}

    def _by_operator(self, ops: Values) -> Parts:
        return {} if set(self._said.ops).isdisjoint(ops) else {"operator named": NAMED_OP}

    def _by_dtype(self, dtypes: Values) -> Parts:
        return {} if self._said.dtypes.isdisjoint(dtypes) else {"dtype named": NAMED_DTYPE}

    def _by_role(self, roles: Values) -> Parts:
        role = roles[0] if roles else ""
        wanted = KERNEL_WANTED.get(role, 0.0) if self._said.wants_kernel else 0.0
        return {"role": ROLE_PRIOR.get(role, 0.0), "kernel wanted": wanted}

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
        if not symbols or last_name(symbols[0]) not in self._last_names:
            return {}
        whole = plain_name(symbols[0])
        named = any(whole == name or whole.endswith("." + name) for name in self._symbols)
        share = 1.0 if named else BY_LAST_NAME
        if not self._said.only_symbols:
            share = IN_A_SENTENCE if share == 1.0 else 0.0
        elif self._said.plain_word:
            share *= PLAIN_WORD
        return {"defines symbol": DEFINES_SYMBOL * share}


# Names of an index come up again in query after query.
@lru_cache(maxsize=1 << 16)
def plain_name(symbol: str) -> str:
    """A qualified name as names are compared: `ns::Class.Fn` → `ns.class.fn`."""
    return symbol.replace("::", ".").lower().strip(".")


@lru_cache(maxsize=1 << 16)
def last_name(symbol: str) -> str:
    """The last part of a qualified name, as names are compared."""
    return plain_name(symbol).rpartition(".")[2]
