"""Recall through the real context: whether what was asked for is in `build_context`'s text."""

from collections.abc import Sequence

from benchmarks.retrieval.cases import Case
from benchmarks.retrieval.indexes import Corpus
from benchmarks.retrieval.metrics import BUDGETS, best_of
from kb.context.build import build_context
from kb.context.models import ContextRequest, ContextResponse
from kb.embedders import Embedder
from kb.search.engine import Searcher


def context_recall(
    cases: Sequence[Case], corpus: Corpus, embedder: Embedder
) -> dict[str, dict[str, float]]:
    """Case id → recall@{500,1000,2000,4000}t of a context of that many tokens.

    An answer counts when its technique's heading stands in the text, or its kernel is an example.
    """
    searcher = Searcher(corpus.generation, embedder)
    found: dict[str, dict[str, float]] = {}
    for case in cases:
        wanted = {answer.name for answer in best_of(case.answers)}
        found[case.id] = {}
        for budget in BUDGETS:
            response = build_context(ContextRequest(query=case.query, max_tokens=budget), searcher)
            held = wanted & _held(response, corpus)
            found[case.id][f"recall@{budget}t"] = float(bool(held))
    return found


def _held(response: ContextResponse, corpus: Corpus) -> set[str]:
    lines = set(response.text.splitlines())
    techniques = corpus.generation.techniques
    held = {corpus.units[corpus.rows[each]] for each in response.examples}
    for chosen in response.techniques:
        title = techniques[chosen.slug].entry.title
        if {f"# {title}", f"# {title} ({chosen.slug})"} & lines:
            held.add(f"technique:{chosen.slug}")
    return held
