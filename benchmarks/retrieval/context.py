"""Recall through the real context: whether what was asked for is in `build_context`'s text."""

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

    An answer counts only if what is shown of it is usable: a technique says what to do beneath its
    heading, and an example, which is whole or absent, is of the kernel.
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
    parts = [part.splitlines() for part in response.text.split(SEPARATOR)]
    said = {part[0] for part in parts if len(" ".join(part[2:]).split()) >= _USABLE_WORDS}
    techniques = corpus.generation.techniques
    held = {corpus.units[corpus.rows[example]] for example in response.examples}
    for chosen in response.techniques:
        title = techniques[chosen.slug].entry.title
        if {f"# {title}", f"# {title} ({chosen.slug})"} & said:
            held.add(f"technique:{chosen.slug}")
    return held
