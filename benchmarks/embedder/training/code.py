"""Pairs out of source files: a function's description, taken out of it, and the function.

Functions are cut, and their header written, by the product's own chunkers and records, and their
documentation is found and blanked as KernelRetrieve blanks it, so a document looks as an index's
does.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.embedder.training.records import Document, Kind
from benchmarks.embedder.training.sources import SourceFile
from benchmarks.retrieval.documentation import Documented, without_documentation
from benchmarks.retrieval.sentences import first_sentence, refusal
from ingest.chunkers import CPP_SUFFIXES, PYTHON_SUFFIXES, chunk_file
from ingest.chunkers.piece import Piece
from ingest.chunking import fold_key
from kb.records import Chunk

MIN_LINES = 3
"""Lines with text of a function: shorter ones are accessors."""
MIN_LETTERS = 60
"""Characters without white space, for the same reason."""
MAX_CHARS = 2_400
"""Of a document: more than any model here reads (512 tokens)."""
MAX_HOST_CHARS = 1_400
"""Of host code: about 256 tokens (only kernels are tried with more)."""
READ_CHARS = 900
"""About as much as the model reads of a function: its vector ignores comments further down."""
MAX_COMMENTS = 2
"""Comments of one function: further ones describe lines, not the function."""
MIN_QUERY_WORDS = 4
MAX_QUERY_CHARS = 300

_SPACE = re.compile(r"\s+")
_LINE_COMMENT = re.compile(r"^[ \t]*(?:#(?![!:])|//+)[ \t]*(.+?)[ \t]*$", re.MULTILINE)
_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[_:.]+")
# The text of an error that is raised, thrown or checked.
_ERROR = re.compile(
    r"(?:raise \w*(?:Error|Exception|Warning)|throw [\w:]+|assert\b[^\n]*?,|TORCH_CHECK\([^\n\"]*,"
    r"|static_assert\([^\n\"]*,|fatal\w*|PADDLE_ENFORCE\w*|CHECK\w*\([^\n\"]*)\s*\(?\s*f?\"([^\"\n]{20,200})\""
)
_CODE_LIKE = re.compile(r"[=;{}]|\w\(|->|\bif\b.*:$|^\W")


@dataclass(frozen=True, slots=True)
class Example:
    """A document and the queries that it answers."""

    document: Document
    fold: str
    """Equal for copies."""
    symbol: str
    code: str
    """The function as it stands, without its documentation."""
    queries: tuple[tuple[Kind, str], ...]


def pairs_of_file(file: SourceFile) -> Iterator[Example]:
    """Every function of a file that is long enough."""
    if file.path.suffix.lower() not in PYTHON_SUFFIXES | CPP_SUFFIXES:
        return
    bare, documented = without_documentation(file.path, file.text)
    pieces = [piece for piece in chunk_file(file.path, bare) if piece.symbol]
    documented_at: dict[int, list[Documented]] = {}
    for function in documented:
        line = function.line
        holders = (i for i, p in enumerate(pieces) if p.start_line <= line <= p.end_line)
        documented_at.setdefault(next(holders, -1), []).append(function)
    # Later parts of an over-long function have its name, too.
    first = {piece.symbol: number for number, piece in reversed(list(enumerate(pieces)))}
    for number in sorted(first.values()):
        if _is_long_enough(pieces[number]):
            yield from _variants(file, pieces[number], documented_at.get(number, []))


def _is_long_enough(piece: Piece) -> bool:
    lines = sum(bool(line.strip()) for line in piece.text.split("\n"))
    return lines >= MIN_LINES and len(_SPACE.sub("", piece.text)) >= MIN_LETTERS


def _variants(file: SourceFile, piece: Piece, documented: list[Documented]) -> Iterator[Example]:
    """The function as it stands, and once more without each comment that is a query for it."""
    symbol = piece.symbol or ""
    queries: list[tuple[Kind, str]] = []
    for function in documented:
        first = first_sentence(function.doc)
        sentences = (first, second_sentence(function.doc, first))
        queries += [("docstring", text) for text in sentences if is_query(text, function.symbol)]
    queries += [("error", text) for text in error_texts(piece.text)[:1]]
    if piece.language != "python":  # where documentation has enough names
        queries.append(("symbol", symbol_words(symbol)))
    yield _example(file, piece, piece.text, tuple(queries))
    for sentence, stripped in _comments(piece.text, symbol)[:MAX_COMMENTS]:
        yield _example(file, piece, stripped, (("comment", sentence),))


def _example(
    file: SourceFile, piece: Piece, code: str, queries: tuple[tuple[Kind, str], ...]
) -> Example:
    symbol = piece.symbol or ""
    text = embedded_text(
        Chunk("", "code", file.package, symbol, str(file.path), 1, 1, piece.language, code, symbol)
    )
    if piece.language in {"python", "cpp"}:
        text = text[:MAX_HOST_CHARS]
    document = Document(text, piece.language, file.package, group=-1)
    return Example(document, fold_key(piece.text, piece.language), symbol, code, queries)


def embedded_text(chunk: Chunk) -> str:
    """The text that the product embeds of a chunk, with white space collapsed."""
    header, _, content = chunk.embedding_text().partition("\n")
    return f"{header}\n{_SPACE.sub(' ', content).strip()}"[:MAX_CHARS]


def is_query(sentence: str, symbol: str) -> bool:
    """Whether a sentence says enough: by KernelRetrieve's rules, but shorter ones pass."""
    if len(sentence) > MAX_QUERY_CHARS:
        return False
    reason = refusal(sentence, symbol)
    return reason is None or (
        reason in {"too short", "names the function"} and len(sentence.split()) >= MIN_QUERY_WORDS
    )


def second_sentence(doc: str, first: str) -> str:
    """What the documentation says after its first sentence, as one sentence; may be empty."""
    _, _, rest = " ".join(doc.split()).partition(first[-20:] or "\0")
    return first_sentence(rest.lstrip(" ."))


def error_texts(code: str) -> list[str]:
    """Texts of errors that `code` raises, without placeholders."""
    texts = (re.sub(r"\{[^}]*\}|%[sdfr]|\\n", "", match) for match in _ERROR.findall(code))
    return [text.strip() for text in texts if len(text.split()) >= MIN_QUERY_WORDS]


def symbol_words(symbol: str) -> str:
    """A name as words: `ns::fooBar_baz` is asked for as "foo bar baz"."""
    *scope, last = re.split(r"::|\.", symbol)
    words = _WORD_START.sub(" ", " ".join([*scope[-1:], last or symbol])).split()
    return " ".join(words).lower()


def _comments(code: str, symbol: str) -> list[tuple[str, str]]:
    """Comments that read as sentences, each with the code that it was taken out of."""
    comments: list[tuple[str, str]] = []
    for match in _LINE_COMMENT.finditer(code[:READ_CHARS]):
        sentence = match[1]
        if not _CODE_LIKE.search(sentence) and refusal(sentence, symbol) is None:
            comments.append((sentence, code[: match.start(1)] + code[match.end(1) :]))
    return comments
