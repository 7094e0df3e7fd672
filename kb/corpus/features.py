"""What code says of itself beside its techniques: operator family, dtypes, oldest architecture.

The words are data: `kb/data/operators.yaml` and `kb/data/features.yaml`.
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import PurePosixPath

from kb.corpus.comments import without_comments
from kb.corpus.operators import subwords
from kb.patterns import AnyOf, Screen, any_of, encoded
from kb.vocabulary import read_data

_CODE = frozenset({"triton", "python", "cuda", "cpp"})
# Accumulators and scales have the first in every kernel, indices the others: each says something
# only of code that names no type before it.
_COMMON = ({"float64", "float32"}, {"int64", "int32"})
_SCOPES = re.compile(r"[.:]+")
_WORD = re.compile(r"[a-z0-9]+")
# Code between these runs on the newer architectures, other code beside it on the older ones.
_GUARD = re.compile(r"^[ \t]*#[ \t]*(if|ifdef|ifndef|elif|else|endif)\b(.*)$", re.MULTILINE)
_MAX_DEPTH = 32
_ARCHITECTURE_TEST = re.compile(r"__CUDA_ARCH|CUDA_ARCH|_ENABLED\b|_SUPPORTED\b|__CUDACC_VER")
_ELSE = re.compile(r"^[ \t]*#[ \t]*else\b.*$", re.MULTILINE)
_NONE = re.compile(r"INVALID_CONTROL_PATH|\btrap\b|\bassert\(|printf\(|NOT_IMPLEMENTED")


@dataclass(frozen=True, slots=True)
class Features:
    """What was recognised in one piece of code."""

    op: str | None
    dtypes: tuple[str, ...]
    architectures: tuple[str, ...]
    """The oldest that it runs on, as one value; empty where nothing asks for one."""


@dataclass(frozen=True, slots=True)
class _Marks:
    value: str
    names: AnyOf | None
    general: AnyOf | None
    code: AnyOf | None


def features(text: str, language: str, symbol: str | None, path: str) -> Features:
    """Operator family, dtypes and oldest architecture of a piece of code; of prose, none.

    Parameters
    ----------
    text
        The piece; its comments and docstrings do not count.
    symbol
        Its qualified name, `Class.method` or `ns::fn`.
    path
        Of its file, with `/`.
    """
    if language not in _CODE:
        return Features(None, (), ())
    bare = without_comments(text, language)
    code = encoded(bare)
    return Features(
        _operator(code, symbol, path), _dtypes(code), _architectures(bare, symbol, path)
    )


def features_version() -> str:
    """Changes when the data does, so that code is tagged anew."""
    digest = hashlib.blake2b(digest_size=8)
    for name in ("operators.yaml", "features.yaml"):
        digest.update((files("kb") / "data" / name).read_bytes())
    return digest.hexdigest()


def operators_named(words: str) -> tuple[str, ...]:
    """Every family named in lower-case, space-separated words; special families first."""
    patterns, screen = _spoken_operators()
    text = encoded(words)
    candidates = (patterns[place] for place in screen.candidates(text))
    return tuple(family for family, pattern in candidates if pattern.search(text))


def dtypes_named(words: str) -> frozenset[str]:
    """The dtypes that words of a question or code name: `fp8` stands for several."""
    spoken: dict[str, list[str]] = _data("features.yaml")["spoken"]
    tokens = frozenset(_WORD.findall(words.lower()))
    dtypes = {dtype for word in tokens & spoken.keys() for dtype in spoken[word]}
    return frozenset(dtypes | set(_dtypes(encoded(words))))


_data = cache(read_data)


def _marks(table: dict[str, dict[str, list[str]]]) -> tuple[_Marks, ...]:
    return tuple(
        _Marks(value, *(any_of(marks.get(key, ())) for key in ("names", "general", "code")))
        for value, marks in table.items()
    )


@cache
def _operators() -> tuple[_Marks, ...]:
    return _marks(_data("operators.yaml"))


@cache
def _spoken_operators() -> tuple[list[tuple[str, AnyOf]], Screen]:
    """Families and their names, those that say something anywhere first, and what finds them."""
    patterns = [
        (family.value, pattern)
        for key in ("names", "general")
        for family in _operators()
        if (pattern := getattr(family, key)) is not None
    ]
    return patterns, Screen([pattern.source for _, pattern in patterns])


@cache
def _targets() -> tuple[_Marks, ...]:
    return _marks(_data("features.yaml")["architectures"])


@cache
def _numbers() -> tuple[tuple[str, AnyOf], ...]:
    table: dict[str, list[str]] = _data("features.yaml")["dtypes"]
    return tuple((dtype, AnyOf(spellings)) for dtype, spellings in table.items())


@cache
def _family_named(name: str, *, general: bool) -> str | None:
    """The family that a name, its words parted by spaces, goes by."""
    text = encoded(name)
    for family in _operators():
        pattern = family.general if general else family.names
        if pattern is not None and pattern.search(text):
            return family.value
    return None


def _places(symbol: str | None, path: str) -> Iterator[str]:
    """Names that may say what a piece computes, the nearest first."""
    parts = [part for part in _SCOPES.split(symbol or "") if part]
    yield from reversed(parts)
    place = PurePosixPath(path)
    yield place.stem
    # The outermost folder is the package's own name, or its archive's.
    yield from reversed(place.parent.parts[1:])


def _operator(code: bytes, symbol: str | None, path: str) -> str | None:
    places = [subwords(place) for place in _places(symbol, path)]
    for general in (False, True):
        for place in places:
            family_ = _family_named(place, general=general)
            if family_ is not None:
                return family_
    for family in _operators():
        if family.code is not None and family.code.search(code):
            return family.value
    return None


def _dtypes(code: bytes) -> tuple[str, ...]:
    dtypes = [dtype for dtype, spelling in _numbers() if spelling.search(code)]
    floats, indices = _COMMON
    narrow = [dtype for dtype in dtypes if dtype not in floats | indices]
    return tuple(sorted(narrow or [d for d in dtypes if d in floats] or dtypes))


def _architectures(bare: str, symbol: str | None, path: str) -> tuple[str, ...]:
    names = encoded(f"{symbol or ''} {path}".lower())
    code = encoded(_always_compiled(bare))
    for target in _targets():
        if target.names is not None and target.names.search(names):
            return (target.value,)
        if target.code is not None and target.code.search(code):
            return (target.value,)
    return ()


def _always_compiled(bare: str) -> str:
    """The code without what has another form beside it for older architectures."""
    if "__CUDA_ARCH" not in bare and "_ENABLED" not in bare:
        return bare
    out: list[str] = []
    at = 0
    open_ifs: list[tuple[int, bool, bool]] = []  # start, tests an architecture, has an #else
    for match in _GUARD.finditer(bare):
        word, rest = match[1], match[2]
        if word in {"if", "ifdef", "ifndef"}:
            open_ifs.append((match.start(), bool(_ARCHITECTURE_TEST.search(rest)), False))
        elif word in {"else", "elif"} and open_ifs:
            start, tests, _ = open_ifs[-1]
            open_ifs[-1] = (start, tests, True)
        elif word == "endif" and open_ifs:
            start, tests, other = open_ifs.pop()
            near = len(open_ifs) < _MAX_DEPTH  # each region is read again by those around it
            if near and tests and other and start >= at and not _refuses(bare[start : match.end()]):
                out.append(bare[at:start])
                at = match.end()
    return "".join([*out, bare[at:]])


def _refuses(region: str) -> bool:
    """Whether the other form only says that there is none."""
    return _NONE.search(_ELSE.split(region, maxsplit=1)[-1]) is not None
