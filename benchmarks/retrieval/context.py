"""Recall through the real context: whether the answer is in `build_context`'s text."""

from collections.abc import Sequence

from benchmarks.retrieval.cases import Case
from benchmarks.retrieval.indexes import Corpus
from benchmarks.retrieval.metrics import BUDGETS, best_of
from kb.context.build import build_context
from kb.context.models import ContextRequest, ContextResponse
from kb.context.packing import SEPARATOR
from kb.embedders import Embedder
from kb.search.engine import Searcher

# Below a technique's heading and provenance: fewer only name it.
_USABLE_WORDS = 20


def context_recall(
    cases: Sequence[Case], corpus: Corpus, embedder: Embedder
) -> dict[str, dict[str, float]]:
    """Case id → recall@{500,1000,2000,4000}t of a context of that many tokens.

    An answer counts only if the context makes it usable: a technique with text below its heading, a
    kernel with its example, which is whole or absent.
    """
    searcher = Searcher(corpus.generation, embedder)
    recalls: dict[str, dict[str, float]] = {}
    for case in cases:
        best = {answer.name for answer in best_of(case.answers)}
        recalls[case.id] = {}
        for budget in BUDGETS:
            response = build_context(ContextRequest(query=case.query, max_tokens=budget), searcher)
            present = best & _usable_names(response, corpus)
            recalls[case.id][f"recall@{budget}t"] = float(bool(present))
    return recalls


def _usable_names(response: ContextResponse, corpus: Corpus) -> set[str]:
    parts = [part.splitlines() for part in response.text.split(SEPARATOR)]
    headings = {part[0] for part in parts if len(" ".join(part[2:]).split()) >= _USABLE_WORDS}
    techniques = corpus.generation.techniques
    names = {corpus.units[corpus.rows[example]] for example in response.examples}
    for technique in response.techniques:
        title = techniques[technique.slug].entry.title
        if {f"# {title}", f"# {title} ({technique.slug})"} & headings:
            names.add(f"technique:{technique.slug}")
    return names
