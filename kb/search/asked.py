"""The tokens that a query is searched with."""

import re

from kb.index.lexical import LexicalIndex
from kb.index.tokens import identifiers
from kb.search.pasted import telling_terms
from kb.search.query import Understanding

_SEPARATOR = re.compile(r"\.|::")
# A product's or a format's name with the number of its version, as tokens have it.
_NUMBERED = re.compile(r"([a-z]{3,})\d+[a-z]?")

# So many words that only the field has make a question one of it.
_SURELY = 2


def asked_terms(said: Understanding, lexical: LexicalIndex) -> list[str]:
    """Distinct tokens, in order; of pasted code those that tell it from other code.

    An identifier is searched for whole and by its parts. One that no chunk has is left to its
    parts, and a version that no chunk names (`hbm3e`) to the name: as tokens of their own they
    would count as the rarest words of the query, which nothing holds. So would words of the field
    that an index happens to lack, and any others beside two of these: they are left out.
    """
    if said.pasted is not None:
        return telling_terms(said.pasted, lexical)
    whole = {each.lower() for symbol in said.symbols for each in _wholes(symbol)}
    neutral, of_field = said.of_field.neutral, said.of_field.terms >= _SURELY
    terms: dict[str, None] = {}
    for term in lexical.query_tokens(said.text):
        if lexical.known([term]):
            terms[term] = None
        elif term in neutral or of_field:
            continue
        elif (numbered := _NUMBERED.fullmatch(term)) and lexical.known([numbered[1]]):
            terms[numbered[1]] = None
        elif term not in whole:
            terms[term] = None
    # A source that is named is looked for by its name; as a word it would find what repeats it.
    rest = [term for term in terms if term not in said.source_terms]
    return rest or list(terms)


def _wholes(symbol: str) -> list[str]:
    """A dotted name, and those of its names that have parts."""
    return [symbol, *(name for part in _SEPARATOR.split(symbol) for name in identifiers(part))]
