"""Lexical tokens: identifiers whole and split on case and underscores, words stemmed."""

import re
from collections.abc import Iterator
from functools import cache
from itertools import chain
from typing import Any

from kb.caching import cached_by_word
from kb.vocabulary import read_data

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:(?:\.|::)[A-Za-z_][A-Za-z0-9_]*)*|\d+(?:\.\d+)?")
_PART = re.compile(r"[A-Z]+\d*(?=[A-Z][a-z])|[A-Z]?[a-z]+\d*|[A-Z]+\d*|\d+")
_SEPARATOR = re.compile(r"\.|::")
# Shorter words have no ending worth removing, and stems of them collide.
_SHORTEST_STEMMED = 4


@cache
def _stemmer() -> Any:
    from Stemmer import Stemmer  # noqa: PLC0415 - a compiled module, loaded on first use

    return Stemmer("english")


@cached_by_word
def stem(word: str) -> str:
    """A word without its ending, in lower case as it was given."""
    if len(word) < _SHORTEST_STEMMED or not word.isascii() or not word.isalpha():
        return word
    return str(_stemmer().stemWord(word))


@cached_by_word
def _expand(word: str) -> tuple[str, ...]:
    """The tokens of one word: every part, each identifier whole, and the dotted name whole."""
    names = _SEPARATOR.split(word)
    tokens: list[str] = []
    for name in names:
        parts = _PART.findall(name)
        if len(parts) > 1:
            tokens.append(name.lower())
        tokens.extend(stem(part.lower()) for part in parts)
    if len(names) > 1:
        tokens.append(word.lower())
    return tuple(tokens)


def tokenize(text: str) -> list[str]:
    """Tokens of a text for the lexical index, in order, with repetitions.

    `tl.make_tensor_descriptor` gives `tl`, `make_tensor_descriptor`, its three parts stemmed, and
    the dotted name itself.
    """
    return list(chain.from_iterable(map(_expand, _WORD.findall(text))))


@cache
def _full_forms() -> dict[str, tuple[str, ...]]:
    """Stemmed short form → stemmed words that it stands for."""
    return {
        stem(short): tuple(stem(word) for word in full.split())
        for full, shorts in read_data("abbreviations.yaml").items()
        for short in shorts
    }


@cached_by_word
def _terms(word: str) -> tuple[str, ...]:
    full = _full_forms()
    return tuple(term for token in _expand(word) for term in full.get(token, (token,)))


def terms(text: str) -> list[str]:
    """The tokens of a text with short forms written out: what the lexical index holds.

    `rmsnorm_bwd` gives `rmsnorm_bwd`, `rms`, `norm` and `backward`, as "backward of the RMS norm"
    does but for the identifier: `kb/data/abbreviations.yaml` says what stands for what.
    """
    return list(chain.from_iterable(map(_terms, _WORD.findall(text))))


def spaced(text: str) -> str:
    """A text's words and the parts of its identifiers in lower case, parted by single spaces."""
    return " ".join(chain.from_iterable(map(_parts, _WORD.findall(text))))


@cached_by_word
def _parts(word: str) -> tuple[str, ...]:
    return tuple(part.lower() for part in _PART.findall(word))


def identifiers(text: str) -> Iterator[str]:
    """Words of a query that look like identifiers: dotted, with underscores or mixed case."""
    for word in _WORD.findall(text):
        if "_" in word or "." in word or "::" in word or re.search(r"[a-z][A-Z]", word):
            yield word


# Names of an index come up again in query after query.
@cached_by_word
def plain_name(symbol: str) -> str:
    """A qualified name as names are compared: `ns::Class.Fn` → `ns.class.fn`."""
    return symbol.replace("::", ".").lower().strip(".")


@cached_by_word
def last_name(symbol: str) -> str:
    """The last part of a qualified name, as names are compared."""
    return plain_name(symbol).rpartition(".")[2]
