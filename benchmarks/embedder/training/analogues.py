"""Pairs of functions that do the same thing in different packages, found by their names.

Two authors who call a function `chunk_scan_fwd_kernel` mean the same operator; what they wrote
differs. Names that many functions have say too little and are left out. A function is asked with
as a pasted one is: without its header.
"""

from collections.abc import Mapping, Sequence

from benchmarks.embedder.training.code import spoken
from benchmarks.embedder.training.records import Document, Pair

MIN_WORDS = 2
MAX_FUNCTIONS = 6
"""Of one name: a name that more functions have is as good as none."""
LANGUAGES = frozenset({"triton", "cuda", "python"})


def analogues(documents: Sequence[Document], symbols: Mapping[int, str], most: int) -> list[Pair]:
    """Pairs whose query is the code of another document; at most `most` for each."""
    named: dict[str, dict[int, int]] = {}
    for at, document in enumerate(documents):
        symbol = symbols.get(document.group)
        if symbol is None or document.language not in LANGUAGES:
            continue
        words = spoken(symbol.rsplit("::", 1)[-1].rsplit(".", 1)[-1])
        if len(words.split()) >= MIN_WORDS:
            named.setdefault(words, {}).setdefault(document.group, at)
    pairs: list[Pair] = []
    for _, functions in sorted(named.items()):
        ats = list(functions.values())
        if not 2 <= len(ats) <= MAX_FUNCTIONS:
            continue
        for at in ats:
            others = [
                other
                for other in ats
                if documents[other].package != documents[at].package
                and documents[other].held_out == documents[at].held_out
            ]
            pairs += [Pair("", other, "analogue", asked_with=at) for other in others[:most]]
    return pairs
