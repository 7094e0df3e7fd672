"""The tokens with which a query is searched."""

import re

from kb.index.lexical import LexicalIndex
from kb.index.tokens import identifiers
from kb.search.pasted import distinctive_terms
from kb.search.query import Understanding

_SEPARATOR = re.compile(r"\.|::")
# A product's or a format's name with the number of its version, as tokens have it.
_VERSIONED = re.compile(r"([a-z]{3,})\d+[a-z]?")

# So many words that only the field has make a question one of it.
_SURE_COUNT = 2


def query_terms(intent: Understanding, lexical: LexicalIndex) -> list[str]:
    """Distinct tokens, in order; for pasted code, those that distinguish it from other code.

    An identifier is searched for whole and by its parts. If no chunk has it, only its parts are
    used, and for a version that no chunk names (`hbm3e`), only the name: otherwise they would count
    as the rarest words of the query, which no chunk contains. For the same reason domain words that
    the index lacks are left out; if a query has two domain words, so is any other unknown word.
    """
    if intent.pasted is not None:
        return distinctive_terms(intent.pasted, lexical)
    whole = {part.lower() for symbol in intent.symbols for part in _with_parts(symbol)}
    neutral, of_domain = intent.domain.neutral, intent.domain.terms >= _SURE_COUNT
    terms: dict[str, None] = {}
    for term in lexical.query_tokens(intent.text):
        if lexical.known([term]):
            terms[term] = None
        elif term in neutral or of_domain:
            continue
        elif (numbered := _VERSIONED.fullmatch(term)) and lexical.known([numbered[1]]):
            terms[numbered[1]] = None
        elif term not in whole:
            terms[term] = None
    # A source that is named is looked for by its name; as a word it would find what repeats it.
    rest = [term for term in terms if term not in intent.source_terms]
    return rest or list(terms)


def _with_parts(symbol: str) -> list[str]:
    """A dotted name, and those of its names that have parts."""
    return [symbol, *(name for part in _SEPARATOR.split(symbol) for name in identifiers(part))]
