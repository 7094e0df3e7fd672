"""Search one generation: lexical and dense orders fused, ranked by domain, folded, cut to k."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kb.embedders import Embedder
from kb.errors import InvalidInputError
from kb.index.chroma import ChromaSearch
from kb.index.reader import Generation
from kb.index.vectors import top
from kb.search.abstention import Calibration, Evidence, calibration, relevance
from kb.search.filtering import filter_mask
from kb.search.models import Filters, IndexInfo, Result, SearchResponse, to_result
from kb.search.names import NamedRows
from kb.search.pasted import telling_terms
from kb.search.query import QueryReader, Understanding
from kb.search.ranking import HIGHEST, Ranker, last_name

# Depth of each order that is fused. Deeper changed no result on the development queries.
CANDIDATES = 100
# Share of the words in the fused score; meaning has the rest. Function search was flat from 0.45 to
# 0.6 on the development queries. Scores are fused, not ranks: a chunk that is far ahead by words
# stays ahead, which gave 0.04 nDCG@10 more than reciprocal ranks (Bruch, Gai, Ingber: An analysis
# of fusion functions for hybrid retrieval, TOIS 2023, find the same).
WORDS = 0.5
# Two functions of one name that are this alike are copies, of another package or backend; only the
# better one is shown. Without the name, siblings such as `load_a` and `load_b` would go as copies.
FOLD_SIMILARITY = 0.95
# Functions of one file that are shown before those of other files have had their turn: neighbours
# share their words, and one long file would fill the page.
PER_FILE = 4
# The second-best section of an entry counts this much: an entry that answers twice is a better one.
SECOND_SECTION = 0.3
# Up to this many chunks the exact product is quick (about 2 ms at 20,000 on 2 cores) and gives the
# same answer every time; beyond it Chroma's graph takes over for unfiltered queries.
EXACT_LIMIT = 200_000


class Hit(NamedTuple):
    """One ranked chunk, before its text is read; hundreds are made for each query."""

    row: int
    score: float
    parts: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ranking:
    """All that a query found, best first, and whether it is worth showing."""

    hits: list[Hit]
    said: Understanding
    relevance: float
    evidence: Evidence
    abstained: bool
    ranker: Ranker
    """What metadata added to each score, for those who ask."""


class Searcher:
    """Searches one generation with the embedder that made it."""

    def __init__(
        self,
        generation: Generation,
        embedder: Embedder,
        *,
        exact_limit: int = EXACT_LIMIT,
    ) -> None:
        self.generation = generation
        self._embedder = embedder
        self._calibration: Calibration = calibration(generation.manifest.embedder)
        self._reader = QueryReader(generation)
        self._names = NamedRows(generation.columns)
        self._chroma: ChromaSearch | None = None
        if generation.manifest.chunks > exact_limit:
            self._chroma = ChromaSearch(generation.chroma_folder)

    def search(
        self,
        query: str,
        k: int = 10,
        filters: Filters | None = None,
        *,
        explain: bool = False,
        mask: NDArray[np.bool_] | None = None,
    ) -> SearchResponse:
        """Answer a query. `mask`, (n,), keeps chunks that the filters keep as well.

        Raises
        ------
        InvalidInputError
            If the query is blank, k is below 1, or a filter is malformed.
        """
        started = time.perf_counter()
        ranking = self.rank(query, k, filters or Filters(), mask)
        results = [] if ranking.abstained else self._results(ranking, explain=explain)
        manifest = self.generation.manifest
        return SearchResponse(
            query=query,
            results=results,
            abstained=ranking.abstained,
            took_ms=round((time.perf_counter() - started) * 1e3, 3),
            index=IndexInfo(
                generation=manifest.generation, chunks=manifest.chunks, embedder=manifest.embedder
            ),
        )

    def rank(
        self, query: str, k: int, filters: Filters, kept: NDArray[np.bool_] | None = None
    ) -> Ranking:
        """Rank chunks for a query without reading their texts."""
        if not query.strip():
            raise InvalidInputError("the query is empty: say what the kernel does or what is slow")
        if k < 1:
            raise InvalidInputError(f"k must be at least 1, not {k}")
        mask = filter_mask(filters, self.generation.columns)
        if kept is not None:
            mask = kept if mask is None else mask & kept
        said = self._reader.read(query)
        lexical = self.generation.lexical
        if said.pasted is None:
            tokens, text = lexical.query_tokens(query), query
        else:
            tokens, text = telling_terms(said.pasted, lexical), said.pasted.embedding_text()
        words = lexical.scores(tokens)
        vector = self._embedder.embed_query(text)
        dense = self.generation.vectors.similarities(vector) if self._chroma is None else None
        found = words > 0  # most chunks hold no word of the query: do not sort their ties
        lexical_rows = top(words, CANDIDATES, found if mask is None else found & mask)
        dense_rows, similarities = self._nearest(vector, dense, mask)
        ranker = Ranker(said, self.generation)
        evidence = self._evidence(tokens, lexical_rows, similarities, said, ranker)
        probability = relevance(evidence, self._calibration)
        named = self._named_rows(said, ranker, mask)
        rows = np.unique(np.concatenate((lexical_rows, dense_rows, named)))
        cosines = dense[rows] if dense is not None else self.generation.vectors.rows[rows] @ vector
        highest = float(words[lexical_rows[0]]) if len(lexical_rows) else 1.0
        fused = WORDS * words[rows] / highest + (1 - WORDS) * np.maximum(cosines, 0.0)
        hits = self._scored(rows, fused, (lexical_rows, dense_rows), ranker)
        hits = self._fold(hits, k)
        abstained = probability < self._calibration.threshold or not hits
        return Ranking(hits, said, probability, evidence, abstained, ranker)

    def _named_rows(
        self, said: Understanding, ranker: Ranker, mask: NDArray[np.bool_] | None
    ) -> NDArray[np.intp]:
        """Rows of what the query names, or its metrics speak for, however it is worded."""
        rows = self._names.definitions(said.symbols)
        cards = self._names.cards(ranker.supported())
        rows = np.concatenate((rows, cards))
        return rows if mask is None else rows[mask[rows]]

    def _nearest(
        self,
        vector: NDArray[np.float32],
        dense: NDArray[np.float32] | None,
        mask: NDArray[np.bool_] | None,
    ) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
        """The nearest chunks' rows and their cosines, best first."""
        matrix = self.generation.vectors
        if dense is None and self._chroma is not None and mask is None:
            ids = self._chroma.nearest(vector, CANDIDATES)
            found = [self.generation.store.row_of(each) for each in ids]
            rows = np.array([row for row in found if row is not None], dtype=np.intp)
            near = matrix.rows[rows] @ vector
            order = np.argsort(-near, kind="stable")
            return rows[order], near[order]
        if dense is None:
            dense = matrix.similarities(vector)
        rows = top(dense, CANDIDATES, mask)
        return rows, dense[rows]

    def _evidence(
        self,
        tokens: list[str],
        lexical_rows: NDArray[np.intp],
        similarities: NDArray[np.float32],
        said: Understanding,
        ranker: Ranker,
    ) -> Evidence:
        near = similarities[:10]
        lexical = self.generation.lexical
        information = {token: lexical.idf(token) for token in tokens}
        total = sum(information.values())
        covered = 0.0
        if total and len(lexical_rows):
            best = lexical_rows[:5]
            for token, idf in information.items():
                if lexical.occurs(token, best):
                    covered += idf
        named = bool(ranker.named() or said.metrics or self._defined(said))
        return Evidence(
            similarity=float(near[0]) if len(near) else 0.0,
            support=float(near.mean()) if len(near) else 0.0,
            coverage=covered / total if total else 0.0,
            named=float(named),
        )

    def _defined(self, said: Understanding) -> bool:
        known = self.generation.lexical.known
        return any(known([symbol.lower()]) for symbol in said.symbols)

    @staticmethod
    def _scored(
        rows: NDArray[np.intp],
        fused: NDArray[np.float64],
        orders: tuple[NDArray[np.intp], NDArray[np.intp]],
        ranker: Ranker,
    ) -> list[Hit]:
        """Every candidate with its score and what it is made of, best first."""
        parts: list[dict[str, Any]] = [{"fused": value} for value in fused.tolist()]
        for name, order in zip(("lexical rank", "dense rank"), orders, strict=True):
            for rank, position in enumerate(np.searchsorted(rows, order).tolist(), start=1):
                parts[position][name] = rank
        examples = ranker.from_examples(rows, fused)
        for at in np.flatnonzero(examples).tolist():
            parts[at]["example matches"] = float(examples[at])
        scores = np.maximum(fused + examples + ranker.totals(rows), 0.0)
        best = np.argsort(-scores, kind="stable").tolist()
        row_list, score_list = rows.tolist(), scores.tolist()
        return [Hit(row_list[at], score_list[at], parts[at]) for at in best]

    def _fold(self, hits: list[Hit], k: int) -> list[Hit]:
        """The k best distinct answers: one chunk per entry, one of each set of near-copies, and of
        one file `PER_FILE` functions before those of others.
        """
        columns = self.generation.columns
        entries, folds = columns["entries"], columns["folds"]
        first: dict[str, int] = {}
        kept: list[Hit] = []
        later: list[Hit] = []
        files: Counter[tuple[str, ...]] = Counter()
        copies: dict[str, list[NDArray[np.float32]]] = {}
        for hit in hits:
            group = entries.of(hit.row) or folds.of(hit.row)
            if group and group[0] in first:
                self._credit(kept, first, group[0], hit)
                continue
            if len(kept) >= k:
                continue
            vector = self.generation.vectors.rows[hit.row]
            symbol = columns["symbols"].of(hit.row)
            if symbol and columns["kinds"].of(hit.row)[0] == "code":
                alike = copies.setdefault(last_name(symbol[0]), [])
                if any(float(vector @ other) > FOLD_SIMILARITY for other in alike):
                    continue
                alike.append(vector)
                file = (*columns["sources"].of(hit.row), *columns["paths"].of(hit.row))
                files[file] += 1
                if files[file] > PER_FILE:
                    later.append(hit)
                    continue
            if group:
                first[group[0]] = len(kept)
            kept.append(hit)
        kept += later[: max(k - len(kept), 0)]
        kept = [Hit(hit.row, min(hit.score / HIGHEST, 1.0), hit.parts) for hit in kept]
        return sorted(kept, key=lambda hit: (-hit.score, hit.row))[:k]

    @staticmethod
    def _credit(kept: list[Hit], first: dict[str, int], group: str, hit: Hit) -> None:
        best = kept[first[group]]
        if "second section" not in best.parts and "fused" in hit.parts:
            extra = SECOND_SECTION * float(hit.parts["fused"])
            parts = {**best.parts, "second section": extra}
            kept[first[group]] = Hit(best.row, best.score + extra, parts)

    def _results(self, ranking: Ranking, *, explain: bool) -> list[Result]:
        chunks = self.generation.store.rows([hit.row for hit in ranking.hits])
        describe: Callable[[Hit], dict[str, Any] | None] = (
            (lambda hit: self._explain(hit, ranking)) if explain else (lambda _hit: None)
        )
        return [
            to_result(
                chunk, self.generation.sources[chunk.source], round(hit.score, 6), describe(hit)
            )
            for chunk, hit in zip(chunks, ranking.hits, strict=True)
        ]

    @staticmethod
    def _explain(hit: Hit, ranking: Ranking) -> dict[str, Any]:
        added = ranking.ranker.parts(hit.row)
        return {**hit.parts, **added, "relevance": round(ranking.relevance, 4)}

    def close(self) -> None:
        """Let Chroma's view go, if one was made. The generation stays open."""
        if self._chroma is not None:
            self._chroma.close()
