"""Search one generation: lexical and dense scores fused, ranked by domain, folded, cut to k."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.ma  # or np.unique does, at the first search in a thread: see `kb.parsing`
from numpy.typing import NDArray

from kb.embedders import Embedder
from kb.errors import InvalidInputError
from kb.index.nearest import Nearest
from kb.index.reader import Generation
from kb.index.tokens import terms
from kb.index.vectors import top
from kb.profiles.values import metric_values
from kb.search.abstention import Evidence, calibration, relevance
from kb.search.classifier import Classifier
from kb.search.entries import Entries, EntryScores
from kb.search.filtering import check_filters, filter_mask
from kb.search.folding import fold
from kb.search.functions import Candidates, FunctionWeighing
from kb.search.models import Filters, IndexInfo, Result, SearchResponse, to_result
from kb.search.names import NamedRows
from kb.search.query import QueryReader, Understanding
from kb.search.query_terms import query_terms
from kb.search.ranking import HIGHEST, Ranker
from kb.search.replacements import replacements_in
from kb.search.weighing import Weighing
from kb.search.weights import shift_to_best

# Depth of each order that is fused. Deeper changed no result on the development queries.
CANDIDATES = 100
# Share of the words in the fused score; meaning has the rest. Function search was flat from 0.35 to
# 0.42 on the development queries, and 0.015 nDCG@10 lower at 0.5. Scores are fused, not ranks: a
# chunk that is far ahead by words stays ahead, which gave 0.04 nDCG@10 more than reciprocal ranks
# (Bruch, Gai, Ingber: An analysis of fusion functions for hybrid retrieval, TOIS 2023, find the
# same).
WORDS = 0.4
# A pasted kernel is found by what it does; its words are its author's. Flat from 0.1 to 0.2.
WORDS_OF_PASTED = 0.15
# Up to this many chunks the exact product takes no longer than the rest of a search (5 ms of one
# core), and gives the same answer every time; beyond it a server asks Chroma's graph
# (`kb.index.nearest`).
EXACT_LIMIT = 100_000


# Chunks that are looked into for the words of the query: the best by words.
_COVERAGE_CHUNKS = 5
# Of the nearest chunks, as many tell whether the index knows the topic.
_SUPPORT_CHUNKS = 10

# So many words or fewer are covered by chance alike; who asks with one means its field.
_FEW_WORDS = 5
# How far a kernel comes after the technique that is asked for.
_MARGIN = 1e-3
# Code in these is a kernel.
_KERNEL_LANGUAGES = frozenset({"triton", "cuda"})


class Hit(NamedTuple):
    """One ranked chunk, before its text is read."""

    row: int
    score: float
    """In [0, 1]."""
    total: float
    """What the score is made of, unscaled; it orders those whose score is 0."""
    parts: dict[str, Any]


class Scored(NamedTuple):
    """The candidates for one query, best first, (n,) each."""

    rows: NDArray[np.intp]
    scores: NDArray[np.float64]
    parts: dict[str, NDArray[np.float64]]
    """What the words, the neighbours and the meaning are worth, by name: what is not metadata."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """All results of a query, best first, and whether to show them."""

    hits: list[Hit]
    intent: Understanding
    relevance: float
    evidence: Evidence
    abstained: bool
    ranker: Ranker
    """What metadata added to each score, for those who ask."""


class Searcher:
    """Searches one generation with the embedder that made it."""

    def __init__(
        self, generation: Generation, embedder: Embedder, *, exact_limit: int = EXACT_LIMIT
    ) -> None:
        self.generation = generation
        self._embedder = embedder
        self._calibration = calibration(generation.manifest.embedder)
        self._reader = QueryReader(generation)
        self._names = NamedRows(generation.columns)
        self._entries = Entries(generation)
        self._weighing = Weighing(generation, self._entries)
        self._classifier = Classifier(generation.manifest.embedder, self._entries.places)
        self._functions = FunctionWeighing(generation)
        self._chunk_mask = np.ones(generation.columns.count, dtype=np.bool_)
        self._chunk_mask[self._entries.rows] = False
        self.nearest = Nearest(generation, exact_limit)

    def techniques_in(self, code: str, language: str) -> tuple[str, ...]:
        """Slugs of the techniques that code of this language shows, sorted."""
        return self._reader.detector.techniques(code, language)

    def search(
        self,
        query: str,
        k: int = 10,
        filters: Filters | None = None,
        *,
        explain: bool = False,
        mask: NDArray[np.bool_] | None = None,
    ) -> SearchResponse:
        """Answer a query. `mask`, (n,), keeps a subset of the chunks that the filters keep.

        Raises
        ------
        InvalidInputError
            If the query is blank, k is below 1, or a filter is malformed or has an unknown value.
        """
        started = time.perf_counter()
        ranking = self.rank(query, k, filters or Filters(), mask)
        results = [] if ranking.abstained else self._results(ranking, explain=explain)
        return SearchResponse(
            query=query,
            results=results,
            abstained=ranking.abstained,
            metrics=metric_values(ranking.intent.metrics),
            notes=_notes(query, ranking),
            took_ms=round((time.perf_counter() - started) * 1e3, 3),
            index=IndexInfo.model_validate(self.generation.manifest, from_attributes=True),
        )

    def rank(
        self, query: str, k: int, filters: Filters, subset: NDArray[np.bool_] | None = None
    ) -> Ranking:
        """Rank chunks for a query without reading their texts."""
        if not query.strip():
            raise InvalidInputError("the query is empty: say what the kernel does or what is slow")
        if k < 1:
            raise InvalidInputError(f"k must be at least 1, not {k}")
        check_filters(filters, self.generation)
        mask = filter_mask(filters, self.generation.columns)
        if subset is not None:
            mask = subset if mask is None else mask & subset
        intent = self._reader.read(query)
        lexical = self.generation.lexical
        tokens = query_terms(intent, lexical)
        text = intent.text if intent.pasted is None else intent.pasted.embedding_text()
        words = lexical.scores(tokens)
        vector = self._embedder.embed_query(text)
        dense = self.nearest.similarities(vector)
        ranker = Ranker(intent, self.generation, self._names)
        near = self.nearest.of(self._entries.rows, vector, dense)
        learned = self._classifier.likelihoods(vector, text)
        entries = self._entries.score(tokens, lexical, near, mask)
        pieces = self._chunk_mask if mask is None else self._chunk_mask & mask
        lexical_rows = top(words, CANDIDATES, pieces & (words > 0))
        dense_rows = self.nearest.rows(vector, dense, CANDIDATES, pieces)
        defined = self._names.definitions(intent.symbols)
        rows = np.unique(np.concatenate((lexical_rows, dense_rows, defined[pieces[defined]])))
        cosines = self.nearest.of(rows, vector, dense)
        highest = float((words if mask is None else words[mask]).max(initial=0.0)) or 1.0
        share = WORDS if intent.pasted is None else WORDS_OF_PASTED
        word_scores, near_scores = words[rows] / highest, np.maximum(cosines, 0.0)
        fused = share * word_scores + (1 - share) * near_scores
        candidates = Candidates(rows, word_scores, near_scores, fused)
        near_entries = near if mask is None else near[mask[self._entries.rows]]
        entry_rows = (
            self._entries.rows if mask is None else self._entries.rows[mask[self._entries.rows]]
        )
        best_rows = np.union1d(lexical_rows[:_COVERAGE_CHUNKS], entry_rows[words[entry_rows] > 0])
        coverage = self._coverage(tokens, best_rows[top(words[best_rows], _COVERAGE_CHUNKS)])
        evidence = Evidence(
            *_nearness(np.append(cosines, near_entries)),
            coverage=coverage,
            named=max(intent.shares.values(), default=0.0),
            identified=float(self._identified(intent)),
            covered=coverage if entries.covered is None else entries.covered,
            operator=float(bool(intent.ops)),
            length=math.log1p(max(len(tokens), _FEW_WORDS)),
            known=len(lexical.known(tokens)) / max(len(tokens), 1),
        )
        probability = relevance(evidence, self._calibration)
        scored = self._scored(candidates, entries, learned, ranker)
        hits = self._top_hits(scored, (lexical_rows, dense_rows), k)
        outside = intent.domain.outside and not self._names.codes(intent.symbols)
        abstained = probability < self._calibration.threshold or not hits or outside
        return Ranking(hits, intent, probability, evidence, abstained, ranker)

    def _coverage(self, tokens: list[str], best: NDArray[np.intp]) -> float:
        """Share of the tokens' information that stands in any of the best chunks."""
        lexical = self.generation.lexical
        information = {token: lexical.idf(token) for token in tokens}
        total = sum(information.values())
        if not total or not len(best):
            return 0.0
        covered = (idf for token, idf in information.items() if lexical.holding(token, best).any())
        return sum(covered) / total

    def _identified(self, intent: Understanding) -> bool:
        """Whether something in the query is of the field whatever its words are."""
        if intent.metrics or (intent.pasted and intent.pasted.language in _KERNEL_LANGUAGES):
            return True
        in_index = self.generation.lexical.known
        if intent.plain_word:
            return bool(in_index(terms(intent.text)))
        return any(slug not in intent.shares for slug in intent.techniques) or any(
            in_index([symbol.lower()]) for symbol in intent.symbols
        )

    def _scored(
        self, pieces: Candidates, entries: EntryScores, learned: NDArray[np.float64], ranker: Ranker
    ) -> Scored:
        """Every candidate, and every entry that the filters keep, best first."""
        places = np.flatnonzero(entries.eligible)
        first = len(pieces.rows)
        rows = np.concatenate((pieces.rows, entries.best_rows[places]))
        texts = np.concatenate((pieces.fused, entries.fused[places]))
        related, deltas, implied, penalties = np.zeros((4, len(rows)))
        totals = ranker.totals(rows)
        intent = ranker.intent
        deltas[:first] = self._functions.corrections(intent, entries.tokens, pieces, totals[:first])
        if len(places):
            signals = ranker.signals(self._entries.places)
            speaking = entries.fused + signals.named + signals.gates
            neighbour_gains = self._entries.neighbour_gains(speaking)
            related[first:] = neighbour_gains[places]
            plain = entries.fused + neighbour_gains
            plain[places] += totals[first:]
            entry_deltas = self._weighing.corrections(entries, intent, signals, plain, learned)
            entry_deltas = shift_to_best(entry_deltas[places], plain[places])
            if not (intent.ops_apart or intent.wants_kernel):
                # Who names a technique and no operator gets it before its examples.
                values = np.full(len(plain), -np.inf)
                values[places] = plain[places] + entry_deltas
                ahead = self._entries.ahead_of_named(values, signals.named > 0)[places]
                entry_deltas -= np.where(ahead > 0, ahead + _MARGIN, 0.0)
            deltas[first:] = entry_deltas
            implied[first:] = ranker.implied_scores(self._entries.places)[places]
            penalties[first:] = ranker.contradiction_penalties(self._entries.places)[places]
        scores = texts + related + deltas + totals + implied + penalties
        order = np.lexsort((rows, -scores))
        is_technique, is_chunk = np.zeros((2, len(rows)), dtype=np.bool_)
        is_technique[first:], is_chunk[:first] = self._entries.techniques[places], True
        parts = {
            "fused": texts,
            "technique matches": np.where(is_technique, 0.0, related),
            "example matches": np.where(is_technique, related, 0.0),
            "sections and neighbours": np.where(is_chunk, 0.0, deltas),
            "name and coverage": np.where(is_chunk, deltas, 0.0),
            "meaning": implied,
            "contradicted": penalties,
        }
        ordered = {name: column[order] for name, column in parts.items()}
        return Scored(rows[order], scores[order], ordered)

    def _top_hits(self, scored: Scored, orders: Sequence[NDArray[np.intp]], k: int) -> list[Hit]:
        """The k best distinct answers; `orders` are the rows by words and by meaning."""
        ranks = [{row: rank for rank, row in enumerate(o.tolist(), 1)} for o in orders]
        hits = [self._hit(scored, at, ranks) for at in fold(scored.rows, self.generation, k)]
        return sorted(hits, key=lambda hit: (-hit.total, hit.row))[:k]

    def _hit(self, scored: Scored, place: int, ranks: Sequence[Mapping[int, int]]) -> Hit:
        """One candidate, with what its text and its neighbours are worth in parts.

        `ranks`: row → its rank by words, and by meaning.
        """
        row, total = int(scored.rows[place]), float(scored.scores[place])
        worth = {name: float(column[place]) for name, column in scored.parts.items()}
        names = zip(("lexical rank", "dense rank"), ranks, strict=True)
        parts: dict[str, Any] = {"fused": worth.pop("fused")}
        parts |= {name: rank[row] for name, rank in names if row in rank}
        parts |= {name: value for name, value in worth.items() if value}
        return Hit(row, min(max(total, 0.0) / HIGHEST, 1.0), total, parts)

    def _results(self, ranking: Ranking, *, explain: bool) -> list[Result]:
        chunks = self.generation.store.rows([hit.row for hit in ranking.hits])
        return [
            to_result(
                chunk,
                self.generation.sources[chunk.source],
                round(hit.score, 6),
                ranking.ranker.standings(chunk.techniques) if chunk.entry else (),
                self._explain(hit, ranking) if explain else None,
            )
            for chunk, hit in zip(chunks, ranking.hits, strict=True)
        ]

    @staticmethod
    def _explain(hit: Hit, ranking: Ranking) -> dict[str, Any]:
        details: dict[str, Any] = {"relevance": round(ranking.relevance, 4)}
        if ranking.intent.spelled:
            details["read as"] = ranking.intent.text
        return {**hit.parts, **ranking.ranker.parts(hit.row), **details}

    def close(self) -> None:
        """Release Chroma's view, if one was made. The generation stays open."""
        self.nearest.close()


def _notes(query: str, ranking: Ranking) -> list[str]:
    """What is to be said before the results: replaced interfaces, and what counters mean."""
    replaced = [] if ranking.intent.pasted else [r.words for r in replacements_in(query)]
    return replaced + ([] if ranking.abstained else list(ranking.intent.meaning.notes))


def _nearness(cosines: NDArray[np.float32]) -> tuple[float, float]:
    """The highest cosine, and the mean of the highest ones."""
    count = min(_SUPPORT_CHUNKS, len(cosines))
    near = np.partition(cosines, -count)[-count:] if count else cosines
    return (float(near.max()), float(near.mean())) if len(near) else (0.0, 0.0)
