"""What a misspelt word costs a search: `python -m benchmarks.retrieval.misspelt`.

Every technique query and every unanswerable one gets one mistake in one plain word: two letters in
the wrong order, one left out, one doubled or another one in its place; never the first letter. Word
and mistake are drawn by the query's id. The same queries are asked as they were written, misspelt,
and misspelt with nothing read anew. Means over both halves; no query is shown.
"""

import random
import string
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.retrieval.cases import Case
from benchmarks.retrieval.fitting import parser
from benchmarks.retrieval.indexes import Corpus, build_index, opened
from benchmarks.retrieval.judgements import technique_cases, unanswerable_cases
from benchmarks.retrieval.metrics import interval, named_answers, rank_metrics
from benchmarks.timing import interleaved
from kb.embedders import Embedder, load_embedder
from kb.search.engine import Searcher
from kb.search.models import Filters
from kb.search.spelling import Spelling

_SHORTEST = 5
_DEPTH = 10
_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Asked:
    """What became of the queries of one kind, asked in one way."""

    quality: list[float]
    """nDCG@10 of each, 0 where it was refused; empty for unanswerable ones."""
    refused: int
    read_anew: int
    count: int


def misspell(query: str, seed: str) -> str:
    """The query with one mistake in one of its plain words; itself where it has none."""
    draw = random.Random(seed)
    words = query.split(" ")
    plain = [
        place
        for place, word in enumerate(words)
        if len(word) >= _SHORTEST and word.isascii() and word.isalpha() and word[1:].islower()
    ]
    if not plain:
        return query
    place = draw.choice(plain)
    words[place] = _mistaken(words[place], draw)
    return " ".join(words)


def _mistaken(word: str, draw: random.Random) -> str:
    at = draw.randrange(1, len(word) - 1)
    before, letter, after = word[:at], word[at], word[at + 1 :]
    other = draw.choice([each for each in string.ascii_lowercase if each != letter])
    unlike = [place for place in range(1, len(word) - 1) if word[place] != word[place + 1]]
    forms = [before + after, before + 2 * letter + after, before + other + after]
    if unlike:
        swap = draw.choice(unlike)
        forms.append(word[:swap] + word[swap + 1] + word[swap] + word[swap + 2 :])
    return draw.choice(forms)


def ask(cases: Sequence[Case], queries: Sequence[str], corpus: Corpus, searcher: Searcher) -> Asked:
    """Ask one query for each case."""
    quality: list[float] = []
    refused = read_anew = 0
    for case, query in zip(cases, queries, strict=True):
        ranking = searcher.rank(query, _DEPTH, Filters())
        refused += ranking.abstained
        read_anew += bool(ranking.said.spelled)
        if case.answers:
            units = [corpus.units[hit.row] for hit in ranking.hits]
            found = [] if ranking.abstained else named_answers(units, case.answers)
            quality.append(rank_metrics(found, case.answers)["nDCG@10"])
    return Asked(quality, refused, read_anew, len(cases))


def _nothing_read_anew() -> Any:
    return patch.object(Spelling, "correct", lambda _self, query: (query, {}))


def slowdown(corpus: Corpus, embedder: Embedder) -> float:
    """Median ratio of a search's time with the reading to one without, query by query, in turns."""
    searcher = Searcher(corpus.generation, embedder)

    def search(query: str, way: str) -> None:
        with _nothing_read_anew() if way == "without" else nullcontext():
            searcher.search(query)

    ratios: list[float] = []
    for case in technique_cases(corpus):
        ways = {way: partial(search, case.query, way) for way in ("with", "without")}
        took = interleaved(ways, _ROUNDS)
        ratios += np.divide(took["with"], took["without"]).tolist()
    return float(np.median(ratios))


def measure(corpus: Corpus, embedder: Embedder) -> dict[str, dict[str, Asked]]:
    """Kind of query → way of asking → what became of them."""
    searcher = Searcher(corpus.generation, embedder)
    kinds = {"answerable": technique_cases(corpus), "unanswerable": unanswerable_cases(corpus)}
    found: dict[str, dict[str, Asked]] = {}
    for kind, cases in kinds.items():
        written = [case.query for case in cases]
        misspelt = [misspell(case.query, case.id) for case in cases]
        with _nothing_read_anew():
            left = ask(cases, misspelt, corpus, searcher)
        found[kind] = {
            "as written": ask(cases, written, corpus, searcher),
            "misspelt, left so": left,
            "misspelt": ask(cases, misspelt, corpus, searcher),
        }
    return found


def main() -> None:
    """Print the table."""
    made = parser(__doc__)
    made.add_argument("--index", choices=("full", "corpus"), default="full")
    arguments = made.parse_args()
    embedder = load_embedder()
    built = build_index(arguments.index, arguments.work, embedder)
    with opened(built.folder) as corpus:
        report(measure(corpus, embedder))
        print(
            f"time of a search with the reading: {slowdown(corpus, embedder):.2f} of that without"
        )


def report(found: dict[str, dict[str, Asked]]) -> None:
    """One line for each kind and way, and what the reading gives query by query."""
    for kind, ways in found.items():
        for way, asked in ways.items():
            mean = f"nDCG@10 {np.mean(asked.quality):.3f}, " if asked.quality else ""
            share = f"{asked.refused / asked.count:.1%}"
            print(f"{kind}, {way}: {mean}refused {share}, read anew {asked.read_anew}")
        misspelt, left = ways["misspelt"].quality, ways["misspelt, left so"].quality
        if misspelt:
            given = interval(np.subtract(misspelt, left))
            print(f"read anew or not: {given.mean:+.3f} ({given.low:+.3f} to {given.high:+.3f})")


if __name__ == "__main__":
    main()
