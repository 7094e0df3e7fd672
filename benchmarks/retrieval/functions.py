"""Function search: a function's own first sentence finds the function, its documentation taken out.

`python -m benchmarks.retrieval.functions` chooses the queries of both sets anew and writes
`queries/functions-*.tsv`, which hold identifiers and digests only: package, path, symbol, line, and
a digest of the sentence. A run reads the sentences from the packages and refuses differing ones.
"""

import csv
import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from itertools import takewhile
from pathlib import Path

from pydantic import TypeAdapter

from benchmarks.retrieval.cases import Answer, Case
from benchmarks.retrieval.documentation import Documented
from benchmarks.retrieval.fitting import make_parser
from benchmarks.retrieval.indexes import BuiltIndex, Corpus, build_index, open_index
from benchmarks.retrieval.sentences import first_sentence, normalized, refusal
from kb.embedders import load_embedder
from kb.errors import KbError
from kb.index.tokens import tokenize

FOLDER = Path(__file__).with_name("queries")
COUNTS = {"small": 160, "full": 1000}
"""Queries of each set."""
MIN_LINES = 4
"""Lines with text of a function without its documentation: shorter ones are accessors."""
MAX_PER_FILE = 8
"""Keeps a long file from being much of the set."""
_DIGEST = 6


@dataclass(frozen=True, slots=True)
class Identifier:
    """A query as it is stored."""

    package: str
    path: str
    symbol: str
    line: int
    sentence: str
    """Digest of the sentence."""

    @property
    def id(self) -> str:
        """Readable, and the same in every set."""
        return f"{self.package}:{self.path}:{self.line}:{self.symbol}"


@dataclass(frozen=True, slots=True)
class _Candidate:
    identifier: Identifier
    sentence: str
    row: int
    function: Documented


def function_cases(name: str, built: BuiltIndex, corpus: Corpus) -> list[Case]:
    """The queries of a set with their answers.

    Raises KbError if a stored query is not what the packages say: the list or the reader changed.
    """
    candidates = {candidate.identifier.id: candidate for candidate in _documented(built, corpus)}
    stored = read_identifiers(FOLDER / f"functions-{name}.tsv")
    differing = [
        identifier.id
        for identifier in stored
        if identifier.id not in candidates or candidates[identifier.id].identifier != identifier
    ]
    if differing:
        raise KbError(
            f"{len(differing)} of {len(stored)} stored queries are not in the packages as read "
            f"now, the first {differing[0]}: `python -m benchmarks.retrieval.functions` chooses "
            "anew; then every baseline has to be measured again"
        )
    return [_case(candidates[identifier.id], corpus) for identifier in stored]


def documented_cases(built: BuiltIndex, corpus: Corpus) -> list[Case]:
    """Every documented function of an index as a query, by no list and no rules."""
    return [_case(candidate, corpus) for candidate in _documented(built, corpus)]


def eligible_cases(built: BuiltIndex, corpus: Corpus) -> list[Case]:
    """Every function that the rules allow as a query, of which a set is chosen."""
    return [_case(candidate, corpus) for candidate in _eligible(built, corpus)[0]]


def read_identifiers(path: Path) -> list[Identifier]:
    """The stored queries of a set."""
    with path.open(encoding="utf-8", newline="") as stream:
        rows = csv.DictReader(stream, delimiter="\t")
        return TypeAdapter(list[Identifier]).validate_python(list(rows))


def _case(candidate: _Candidate, corpus: Corpus) -> Case:
    identifier = candidate.identifier
    chunk = corpus.chunks[candidate.row]
    shared = set(tokenize(candidate.sentence)) & set(tokenize(identifier.symbol))
    return Case(
        id=identifier.id,
        query=candidate.sentence,
        answers=(Answer("function", _units(candidate, corpus)),),
        labels={
            "package": identifier.package,
            "language": chunk.language,
            "words of the query in the symbol": str(min(len(shared), 3)) + "+" * (len(shared) > 3),
            "length": "up to 10 words" if len(candidate.sentence.split()) <= 10 else "longer",
        },
        # copies of one sentence in several packages stay in one half
        group=identifier.sentence,
    )


def _units(candidate: _Candidate, corpus: Corpus) -> frozenset[str]:
    """The chunk that begins the function, the other parts of an over-long one, and all copies."""
    identifier, first = candidate.identifier, corpus.chunks[candidate.row]
    rows = corpus.by_file[identifier.package, identifier.path]
    parts = [row for row in rows if row >= candidate.row and corpus.chunks[row].symbol]

    def is_same_function(row: int) -> bool:
        chunk = corpus.chunks[row]
        return chunk.symbol == first.symbol and chunk.start_line >= first.start_line

    return frozenset(corpus.units[row] for row in takewhile(is_same_function, parts))


def _documented(built: BuiltIndex, corpus: Corpus) -> Iterator[_Candidate]:
    """Every documented function whose first lines are in a chunk of the index."""
    for package, material in built.material.items():
        for path, functions in material.documented.items():
            chunks = [(r, corpus.chunks[r]) for r in corpus.by_file.get((package, path), ())]
            for function in functions:
                holders = (r for r, c in chunks if c.start_line <= function.line <= c.end_line)
                if (r := next(holders, None)) is not None:
                    sentence = first_sentence(function.doc)
                    digest = hashlib.blake2b(sentence.encode(), digest_size=_DIGEST).hexdigest()
                    identifier = Identifier(package, path, function.symbol, function.line, digest)
                    yield _Candidate(identifier, sentence, r, function)


def _eligible(built: BuiltIndex, corpus: Corpus) -> tuple[list[_Candidate], Counter[str]]:
    """Candidates that the rules allow, and the reasons why the others were left out."""
    refusals: Counter[str] = Counter()
    accepted: list[_Candidate] = []
    for candidate in _documented(built, corpus):
        reason = refusal(candidate.sentence, candidate.function.symbol)
        if reason := reason or _misfit_reason(candidate, corpus):
            refusals[reason] += 1
        else:
            accepted.append(candidate)
    return _unambiguous(accepted, corpus, refusals), refusals


def _misfit_reason(candidate: _Candidate, corpus: Corpus) -> str | None:
    chunk, function = corpus.chunks[candidate.row], candidate.function
    names = {chunk.symbol, (chunk.symbol or "").rsplit("::", 1)[-1]}
    inside = chunk.end_line >= function.end_line and f"def {function.symbol}(" in chunk.text
    # the launcher of a kernel shares the kernel's chunk; a method of a small class is no chunk
    if function.symbol not in names and not (chunk.language == "triton" and inside):
        return "part of another chunk"
    lines = chunk.text.split("\n")[: function.end_line - chunk.start_line + 1]
    if sum(bool(line.strip()) for line in lines) < MIN_LINES:
        return "too few lines"
    return None


def _unambiguous(
    candidates: list[_Candidate], corpus: Corpus, refusals: Counter[str]
) -> list[_Candidate]:
    """One query per sentence; none that has two different answers or whose text is in a chunk."""
    by_sentence: dict[str, list[_Candidate]] = {}
    for candidate in candidates:
        by_sentence.setdefault(normalized(candidate.sentence), []).append(candidate)
    text = "\0".join(normalized(chunk.text) for chunk in corpus.chunks)
    accepted: list[_Candidate] = []
    for sentence, group in by_sentence.items():
        if len({corpus.units[candidate.row] for candidate in group}) > 1:
            refusals["several functions say it"] += len(group)
        elif sentence in text:
            refusals["stands in the index"] += len(group)
        else:
            refusals["copy"] += len(group) - 1
            accepted.append(min(group, key=lambda candidate: candidate.identifier.id))
    return accepted


def _round_robin(candidates: list[_Candidate], corpus: Corpus, count: int) -> list[Identifier]:
    """Choose the queries of a set.

    Groups of package and language take turns, so that none is most of the set; within a group the
    digest of the sentence gives the order.
    """
    groups: dict[tuple[str, str], list[_Candidate]] = {}
    for candidate in sorted(candidates, key=lambda candidate: candidate.identifier.sentence):
        key = (candidate.identifier.package, corpus.chunks[candidate.row].language)
        groups.setdefault(key, []).append(candidate)
    chosen: list[Identifier] = []
    files: Counter[tuple[str, str]] = Counter()
    while len(chosen) < count and any(groups.values()):
        for _, group in sorted(groups.items()):
            while group:
                identifier = group.pop(0).identifier
                file = (identifier.package, identifier.path)
                if files[file] < MAX_PER_FILE:
                    files[file] += 1
                    chosen.append(identifier)
                    break
    return sorted(chosen[:count], key=lambda identifier: identifier.id)


def main() -> None:
    """Write the lists of both sets."""
    parser = make_parser(__doc__)
    parser.add_argument("sets", nargs="*", default=list(COUNTS), help="small, full")
    arguments = parser.parse_args()
    for name in arguments.sets:
        built = build_index(name, arguments.work, load_embedder())
        with open_index(built.folder) as corpus:
            accepted, refusals = _eligible(built, corpus)
            chosen = _round_robin(accepted, corpus, COUNTS[name])
        path = FOLDER / f"functions-{name}.tsv"
        with path.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream, delimiter="\t", lineterminator="\n")
            writer.writerow(Identifier.__match_args__)
            writer.writerows(astuple(identifier) for identifier in chosen)
        print(f"{path}: {len(chosen)} queries over {len(corpus.chunks):,} chunks")
        for reason, count in refusals.most_common():
            print(f"  {count:6,} left out: {reason}")


if __name__ == "__main__":
    main()
