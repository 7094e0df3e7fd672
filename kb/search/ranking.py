"""Domain ranking: what a chunk's metadata adds to the fused score of its text.

Every constant is in units of the fused score, which is 1 for a chunk that matches the query's words
best and has the same meaning. The best chunk of a query has 0.6 to 0.9, the tenth 0.2 less.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from kb.architectures import any_runs_on
from kb.index.columns import Values
from kb.index.reader import Generation
from kb.index.tokens import plain_name
from kb.search.entries import FROM_KERNEL
from kb.search.gates import GateStanding, judge_gates
from kb.search.names import NamedRows
from kb.search.query import Understanding
from kb.search.weighing import Signals

# The query names the technique: its entry answers before anything that only mentions it.
NAMED_TECHNIQUE = 0.35
# Later names in the query weigh less than the first (longest) one.
NAMED_DECAY = 0.6
# What a name counts where it is a few words of many: "tensor cores idle while loads are waited for"
# asks for what helps the tensor cores. The larger its share of the query, the more it is the topic.
NAMED_IN_PASSING = 0.4
# A kernel or code chunk that shows a named technique.
SHOWS_TECHNIQUE = 0.12
_SHOWS_SHARE = SHOWS_TECHNIQUE / NAMED_TECHNIQUE
# The chunk's operator is named. Doubling it lowered nDCG@10 of function search by 0.006: a word
# such as "scale" names an operator in one sentence and nothing in the next.
NAMED_OP = 0.05
# The chunk computes what a pasted kernel computes, which is read from its code.
SAME_OP = 0.12
# The chunk works with a number format that is named.
NAMED_DTYPE = 0.05
# The chunk's source is named. It is no part of the largest sum: code has no gates and no prior.
NAMED_SOURCE = 0.15
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
# The metrics that the query gives speak against the technique as a whole: it comes behind every
# other one. Who names the technique asks about it all the same, and is told.
CONTRADICTED = -3.0
# What the query's words and counters mean, beside what they name: at full weight as much as a name.
MEANT = 0.40
# An entry explains and cites; bare code only shows. Kernels of the corpus are checked, but with as
# much as techniques they would hide the functions that are asked for (0.19 nDCG@10 of the slice).
KIND_PRIOR = {"technique": 0.30, "kernel": 0.08, "code": 0.0, "doc": 0.0, "note": 0.0}
# Imports, constants and the heads of classes name everything around them and do nothing.
ROLE_PRIOR = {"other": -0.15, "type": -0.10}
# A kernel is asked for: its body comes before what launches it. Doubling it lowers nDCG@10 of
# function search by 0.003, where "kernel" is often said of the launcher.
KERNEL_WANTED = {"kernel": 0.08, "host": -0.04}
# Of a package that is named with an operator (`liger rope`): its wrapper bears both names, and the
# kernel is what is asked for.
KERNEL_OF_SOURCE = {"kernel": 0.24, "host": -0.12}
# The pasted kernel does this already; another one that does more is worth reading.
ALREADY_USED = -0.10
DOES_MORE = 0.02
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


Factors = tuple[tuple[str, NDArray[np.float64]], ...]
"""Columns, and what each distinct value of one is worth, (distinct,). They are multiplied."""
Term = dict[str, Factors]
"""Parts of a score by name."""


class Ranker:
    """Adjustments for one query over one generation.

    They are computed for the few distinct values of each column, and looked up for the chunks.
    `names` are those of the generation.
    """

    def __init__(self, intent: Understanding, generation: Generation, names: NamedRows) -> None:
        self.intent = intent
        self._columns = generation.columns
        self._named = {
            slug: NAMED_TECHNIQUE
            * NAMED_DECAY**rank
            * (NAMED_IN_PASSING + (1 - NAMED_IN_PASSING) * intent.shares.get(slug, 1.0))
            for rank, slug in enumerate(intent.techniques)
        }
        self._gates = {
            slug: judge_gates(record.entry, intent.metrics)
            for slug, record in generation.techniques.items()
            if intent.metrics
        }
        # Those that the query says nothing about are left out.
        self._terms: list[Term] = [self._by_technique(), self._by_source(generation)]
        self._terms.append(self._by_role())
        if intent.ops:
            worth = SAME_OP if intent.pasted else NAMED_OP
            self._terms.append({"operator named": self._match("ops", intent.ops, worth)})
        if intent.languages and not intent.pasted:
            # What is like a kernel may well be in the other language.
            self._terms.append({"language": self._factor("languages", self._language_fit)})
        if device := intent.device:
            runs = self._factor(
                "architectures",
                lambda names: 0.0 if any_runs_on(names, device) else ARCHITECTURE_MISFIT,
            )
            self._terms.append({"architecture": runs})
        if intent.dtypes:
            dtypes = self._match("dtypes", intent.dtypes, NAMED_DTYPE)
            self._terms.append({"dtype named": dtypes})
        if intent.pasted:
            self._terms.append(self._beside_pasted())
        if intent.symbols:
            self._terms.append(self._by_symbol(names.codes(intent.symbols)))

    def parts(self, row: int) -> dict[str, float]:
        """The named parts that the metadata of the chunk at `row` adds to its score."""
        rows = np.array([row])
        parts = {
            name: float(value[0])
            for term in self._terms
            for name, value in self._values(term, rows)
        }
        return {name: value for name, value in parts.items() if value}

    def totals(self, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """The sum of `parts` for each row, (n,)."""
        total = np.zeros(len(rows))
        for term in self._terms:
            total += sum(value for _, value in self._values(term, rows))
        return total

    def _values(
        self, term: Term, rows: NDArray[np.intp]
    ) -> Iterator[tuple[str, NDArray[np.float64]]]:
        """Each part of a term, for each row."""
        for name, factors in term.items():
            factor_values = (table[self._columns[field].codes[rows]] for field, table in factors)
            yield name, reduce(np.multiply, factor_values)

    def signals(self, places: Mapping[str, int]) -> Signals:
        """What counts for each entry besides its text: its name, or its gates given the metrics.

        `places` maps an entry to its place in the result. Only techniques get a value here;
        `Entries.neighbour_gains` computes their kernels' share.
        """
        gates = {slug: GATES * verdict.support for slug, verdict in self._gates.items()}
        shares = {slug: verdict.met_share for slug, verdict in self._gates.items()}
        return Signals(
            *(_technique_values(worth, places) for worth in (self._named, gates, shares))
        )

    def contradiction_penalties(self, places: Mapping[str, int]) -> NDArray[np.float64]:
        """`CONTRADICTED` for each technique that the query's metrics contradict and that it does
        not name, (m,); `places` as for `said`.
        """
        penalties = {
            slug: CONTRADICTED
            for slug, verdict in self._gates.items()
            if verdict.contradicted and slug not in self._named
        }
        return _technique_values(penalties, places)

    def implied_scores(self, places: Mapping[str, int]) -> NDArray[np.float64]:
        """What the meaning of the query's words is worth to each entry, (m,), as for `said`."""
        return MEANT * _entry_values(self.intent.meaning.entries, places)

    def standings(self, slugs: Sequence[str]) -> list[GateStanding]:
        """How the query's metrics compare with the gates of these techniques."""
        return [
            standing
            for slug in slugs
            if slug in self._gates
            for standing in self._gates[slug].standings
        ]

    def _factor(self, field: str, worth: Callable[[Values], float]) -> Factors:
        """A column, with what each of its distinct values is worth."""
        values = self._columns[field].values
        return ((field, np.fromiter((worth(value) for value in values), np.float64, len(values))),)

    def _match(self, field: str, accepted: Collection[str], worth: float) -> Factors:
        """`worth` for what has any of the wanted values in a column."""
        accepted_set = frozenset(accepted)
        return self._factor(field, lambda values: 0.0 if accepted_set.isdisjoint(values) else worth)

    def _by_technique(self) -> Term:
        term: Term = {"kind": self._factor("kinds", lambda kinds: KIND_PRIOR[kinds[0]])}
        if self._named:
            techniques = self._columns["techniques"]
            best = np.zeros(len(techniques.values))
            for slug, weight in self._named.items():
                codes = techniques.codes_by_value.get(slug, ())
                best[codes] = np.maximum(best[codes], weight)
            share = self._factor("kinds", lambda kinds: _by_kind(kinds, 1.0, _SHOWS_SHARE))
            term |= {"technique named": (("techniques", best), *share)}
        if self._gates:
            gates = self._factor(
                "techniques",
                lambda slugs: (
                    GATES * self._gates[slugs[0]].support
                    if slugs and slugs[0] in self._gates
                    else 0.0
                ),
            )
            entries = self._factor("kinds", lambda kinds: _by_kind(kinds, 1.0, 0.0))
            term |= {"gates": gates + entries}
        return term

    def _beside_pasted(self) -> Term:
        used = self.intent.used
        more = self._factor("techniques", lambda tags: 0.0 if used.issuperset(tags) else DOES_MORE)
        return {
            "already used": self._match("techniques", used, ALREADY_USED)
            + self._factor("kinds", lambda kinds: _by_kind(kinds, 1.0, 0.0)),
            "does more": more + self._factor("kinds", lambda kinds: _by_kind(kinds, 0.0, 1.0)),
        }

    def _by_source(self, generation: Generation) -> Term:
        quality = self._factor(
            "sources",
            lambda sources: SOURCE_QUALITY * (generation.sources[sources[0]].quality - 1.0),
        )
        term: Term = {"source quality": quality}
        if names := self.intent.sources:
            term |= {"source named": self._match("sources", names, NAMED_SOURCE)}
        return term

    def _by_role(self) -> Term:
        role_worth: Mapping[str, float] = {}
        if self.intent.wants_kernel:
            of_source = self.intent.sources and self.intent.ops
            role_worth = KERNEL_OF_SOURCE if of_source else KERNEL_WANTED

        def worth(table: Mapping[str, float]) -> Factors:
            return self._factor("roles", lambda roles: table.get(roles[0] if roles else "", 0.0))

        return {"role": worth(ROLE_PRIOR), "kernel wanted": worth(role_worth)}

    def _language_fit(self, languages: Values) -> float:
        if languages[0] not in _CODE_LANGUAGES:
            return 0.0
        fits = any(languages[0] in _SAME_LANGUAGE[language] for language in self.intent.languages)
        return LANGUAGE_FIT if fits else LANGUAGE_MISFIT

    def _by_symbol(self, codes: Sequence[int]) -> Term:
        values = self._columns["symbols"].values
        queried = {plain_name(symbol) for symbol in self.intent.symbols}
        # The one column with nearly as many values as there are chunks: only those of the name.
        table = np.zeros(len(values))
        for code in codes:
            whole = plain_name(values[code][0])
            is_full_name = any(whole == name or whole.endswith("." + name) for name in queried)
            share = 1.0 if is_full_name else BY_LAST_NAME
            if not self.intent.only_symbols:
                share = IN_A_SENTENCE if share == 1.0 else 0.0
            elif self.intent.plain_word:
                share *= PLAIN_WORD
            table[code] = DEFINES_SYMBOL * share
        return {"defines symbol": (("symbols", table),)}


def _entry_values(worth: Mapping[str, float], places: Mapping[str, int]) -> NDArray[np.float64]:
    """What entries are worth, each at its place, (m,); 0 for the others."""
    values = np.zeros(len(places))
    for entry, value in worth.items():
        if (place := places.get(entry)) is not None:
            values[place] = value
    return values


def _technique_values(worth: Mapping[str, float], places: Mapping[str, int]) -> NDArray[np.float64]:
    """As `_entry_values`, by slugs of techniques."""
    return _entry_values({f"technique:{slug}": value for slug, value in worth.items()}, places)


def _by_kind(kinds: Values, entry: float, other: float) -> float:
    """One value for techniques, another one for what shows them."""
    return entry if kinds[0] == "technique" else other
