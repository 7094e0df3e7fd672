"""Tokens of the BM25 baselines: their own, so that tuning the product does not move them."""

import re

import Stemmer
from bm25s.stopwords import STOPWORDS_EN_PLUS

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|\d+")
_PART = re.compile(r"[A-Z]+(?![a-z])\d*|[A-Z]?[a-z]+\d*|\d+")
_STEMMER = Stemmer.Stemmer("english")
_STOPWORDS = frozenset(STOPWORDS_EN_PLUS)


def tokens(text: str) -> list[str]:
    """Identifiers whole and in parts at case and underscores; parts stemmed by Snowball."""
    result: list[str] = []
    for word in _WORD.findall(text):
        parts = [part.lower() for part in _PART.findall(word)]
        if len(parts) > 1:
            result.append(word.lower())
        result += _STEMMER.stemWords(parts)
    return result


def query_tokens(query: str) -> list[str]:
    """Distinct tokens of a query in order, without bm25s's English stop words."""
    words = [word for word in query.split() if word.lower().strip(".,;:()") not in _STOPWORDS]
    return list(dict.fromkeys(tokens(" ".join(words))))
