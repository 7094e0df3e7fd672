"""Code in a query: a pasted kernel, and which of its terms to search with."""

import re
from dataclasses import dataclass

from kb.corpus.comments import without_comments
from kb.index.lexical import LexicalIndex
from kb.index.tokens import terms
from kb.patterns import LinearPattern

# Words that begin code and no sentence. One of them and several lines make a query code.
_CUDA = re.compile(
    r"__global__|__device__|^[ \t]*#include\b|\bblockIdx\.|\bthreadIdx\.", re.MULTILINE
)
_PYTHON = re.compile(
    r"^[ \t]*(?:async )?def \w+\s*\(|^[ \t]*@\w[\w.]*(?:jit|kernel)\b|\btl\.(?:load|store|dot)\(",
    re.MULTILINE,
)
_MIN_LINES = 3
_NAMES = LinearPattern(r"\bdef\s+(\w+)|\b__global__\b[^({;]*?\b(\w+)\s*\(")
# Of a whole file in a query the first functions say what it is.
_MAX_NAMES = 32
# What a kernel is called, and the operations it is made of, tell it from others; the hundreds of
# further names in it cost time and find whatever shares its author's habits.
_MAX_TERMS = 40


@dataclass(frozen=True, slots=True)
class PastedCode:
    """A pasted piece of code."""

    code: str
    """Without comments and docstrings."""
    language: str
    """`triton`, `python` or `cuda`."""
    names: tuple[str, ...]
    """The functions that it defines, kernels and others, in order."""

    def embedding_text(self) -> str:
        """The text to embed: its name above the code, as for chunks of code."""
        return "\n".join([*self.names[:1], self.code])


def pasted_code(query: str) -> PastedCode | None:
    """The code in a query, or None where the query is a sentence, a name, an error or a profile."""
    if query.count("\n") + 1 < _MIN_LINES:
        return None
    cuda, python = _CUDA.search(query), _PYTHON.search(query)
    if cuda is None and python is None:
        return None
    language = "cuda" if python is None else "triton" if "tl." in query else "python"
    code = without_comments(query, language)
    lines = (line.rstrip() for line in code.split("\n"))
    definitions = _NAMES.groups(code, _MAX_NAMES)
    names = tuple(dict.fromkeys(python or cuda or "" for python, cuda in definitions))
    return PastedCode("\n".join(line for line in lines if line), language, names)


def distinctive_terms(pasted: PastedCode, lexical: LexicalIndex) -> list[str]:
    """The terms to search with: those of its names, then the rarest that the index knows."""
    name_tokens = [term for name in pasted.names for term in terms(name)]
    known_terms = lexical.known(lexical.query_tokens(pasted.code))
    rest = sorted(known_terms, key=lambda term: -lexical.idf(term))
    return list(dict.fromkeys([*lexical.known(name_tokens), *rest]))[:_MAX_TERMS]
