"""Hard negatives by BM25: documents that share a query's words and do not answer it."""

from collections.abc import Sequence

import bm25s
import numpy as np

from benchmarks.embedder.training.records import Document, TrainingSet
from benchmarks.retrieval.baselines.tokens import query_tokens, tokens

PER_PAIR = 4
DEPTH = 12
"""Documents looked at: the pair's own group and another language's fall out."""
KINDS = frozenset({"docstring", "comment", "question"})
GPU_LANGUAGES = frozenset({"triton", "cuda", "entry"})
"""Documents that are searched for negatives, and whose pairs get some; other pairs get theirs from
the model."""


def add_negatives(built: TrainingSet) -> None:
    """Give every pair whose document is for a GPU its negatives, from all documents for one."""
    pool = [at for at, document in enumerate(built.documents) if _searched(document)]
    if len(pool) <= DEPTH:
        return
    index = bm25s.BM25(method="lucene")
    index.index([tokens(built.documents[at].text) for at in pool], show_progress=False)
    wanted = [
        pair
        for pair in built.pairs
        if pair.kind in KINDS and _searched(built.documents[pair.document])
    ]
    asked = [query_tokens(pair.query) or [""] for pair in wanted]
    known = index.vocab_dict
    asked = [[each for each in words if each in known] for words in asked]
    for pair, words in zip(wanted, asked, strict=True):
        if words:
            scores = index.get_scores(words)
            best = np.argpartition(-scores, DEPTH)[:DEPTH]
            ranked = best[np.argsort(-scores[best], kind="stable")]
            pair.negatives = _negatives(built, pair.document, [pool[at] for at in ranked])


def _negatives(built: TrainingSet, answer: int, ranked: Sequence[int]) -> list[int]:
    own = built.documents[answer]
    kept = [
        at
        for at in ranked
        if built.documents[at].group != own.group and built.documents[at].held_out == own.held_out
    ]
    return kept[:PER_PAIR]


def _searched(document: Document) -> bool:
    return document.language in GPU_LANGUAGES
