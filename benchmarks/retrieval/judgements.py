"""The judged queries that are stored here: techniques, unanswerable questions, kernels; validated.

`queries/techniques.yaml` and `queries/unanswerable.yaml` are written by us; docs/retrieval.md gives
their format. `queries/kernels.yaml` holds identifiers alone: which functions of the packages
implement the same operator.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from benchmarks.retrieval.cases import Answer, Case
from benchmarks.retrieval.indexes import Corpus
from benchmarks.retrieval.sentences import normalized
from kb.errors import KbError
from kb.search.models import MAX_QUERY_CHARS
from kb.vocabulary import load_yaml

FOLDER = Path(__file__).with_name("queries")
Style = Literal["symptom", "metrics", "api-symbol", "error", "how-to", "concept"]
_CALIBRATION = Path(__file__).parents[1] / "abstention" / "questions.yaml"


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TechniqueQuery(_Model):
    """A question with the entries that answer it."""

    id: str = Field(pattern=r"^[a-z0-9-]+$")
    style: Style
    query: str = Field(min_length=3)
    answers: dict[str, Annotated[int, Field(ge=1, le=3)]] = Field(min_length=1)
    """`technique:SLUG` or `kernel:SLUG` → 3 what was asked for, 2 useful, 1 related."""


class UnanswerableQuery(_Model):
    """A question without an answer in the corpus or the packages."""

    id: str = Field(pattern=r"^[a-z0-9-]+$")
    topic: str = Field(min_length=3)
    """Subject of the question, for the table of abstention's failures."""
    query: str = Field(min_length=3)


class Implementation(_Model):
    """An operator in one file of a package of the `full` set."""

    package: str
    path: str
    symbols: list[str] = Field(min_length=1)
    """Its functions, the kernel first: that one is asked with, and any of them is an answer."""

    @property
    def name(self) -> str:
        """As a query's id."""
        return f"{self.package}:{self.path}:{self.symbols[0]}"


class Operator(_Model):
    """One operator as several packages or backends implement it."""

    operator: str = Field(pattern=r"^[a-z0-9-]+$")
    implementations: list[Implementation] = Field(min_length=2)


def technique_cases(corpus: Corpus, path: Path = FOLDER / "techniques.yaml") -> list[Case]:
    """The technique queries; none where the file is not there.

    Raises KbError if the file is malformed, names an entry that does not exist, repeats a query,
    takes one from a title, an alias or the calibration of abstention, or asks nothing fully
    answered.
    """
    queries: list[TechniqueQuery] = _read(path, TechniqueQuery)
    _check_texts(path, queries, _names(corpus))
    units = set(corpus.units)
    for query in queries:
        missing = sorted(set(query.answers) - units)
        if missing:
            raise KbError(f"{path.name}: {query.id}: the corpus has no {', '.join(missing)}")
        if max(query.answers.values()) < 3:
            raise KbError(f"{path.name}: {query.id}: no answer has grade 3, what was asked for")
    return [
        Case(
            query.id,
            query.query,
            tuple(Answer(name, frozenset({name}), grade) for name, grade in query.answers.items()),
            {"style": query.style},
        )
        for query in queries
    ]


def unanswerable_cases(corpus: Corpus, path: Path = FOLDER / "unanswerable.yaml") -> list[Case]:
    """The questions that nothing answers; see `technique_cases`."""
    queries: list[UnanswerableQuery] = _read(path, UnanswerableQuery)
    _check_texts(path, queries, _names(corpus))
    return [Case(query.id, query.query, (), {"topic": query.topic}) for query in queries]


def judged_texts() -> list[str]:
    """All stored questions of both halves, which nothing may be taught."""
    stored = (("techniques", TechniqueQuery), ("unanswerable", UnanswerableQuery))
    return [q.query for name, model in stored for q in _read(FOLDER / f"{name}.yaml", model)]


def kernel_cases(corpus: Corpus, path: Path = FOLDER / "kernels.yaml") -> list[Case]:
    """The kernel of each implementation as a query for the operator's other ones.

    Functions in the query's own file are neither answers nor searched. All of one operator are in
    one half. Raises KbError if the file is malformed, or a function is not in the packages.
    """
    cases: list[Case] = []
    operators: list[Operator] = _read(path, Operator)
    for operator in operators:
        answers = {
            implementation.name: Answer(implementation.name, _units(implementation, corpus, path))
            for implementation in operator.implementations
        }
        for implementation in operator.implementations:
            rows = _rows(implementation, implementation.symbols[0], corpus, path)
            cases.append(
                Case(
                    id=implementation.name,
                    query="\n".join(corpus.chunks[row].text for row in rows)[:MAX_QUERY_CHARS],
                    answers=_other_answers(implementation, operator, answers),
                    labels={
                        "language": corpus.chunks[rows[0]].language,
                        "package": implementation.package,
                    },
                    excluded=frozenset(corpus.by_file[implementation.package, implementation.path]),
                    group=operator.operator,
                )
            )
    return cases


def _other_answers(
    query: Implementation, operator: Operator, answers: dict[str, Answer]
) -> tuple[Answer, ...]:
    """The answers to one implementation: all others that are not copies of it."""
    own_units = answers[query.name].units
    others = tuple(
        replace(answers[implementation.name], units=answers[implementation.name].units - own_units)
        for implementation in operator.implementations
        if implementation.path != query.path or implementation.package != query.package
    )
    others = tuple(answer for answer in others if answer.units)
    if not others:
        raise KbError(f"kernels.yaml: {operator.operator}: nothing but copies of {query.name}")
    return others


def _units(impl: Implementation, corpus: Corpus, path: Path) -> frozenset[str]:
    rows = (row for symbol in impl.symbols for row in _rows(impl, symbol, corpus, path))
    return frozenset(corpus.units[row] for row in rows)


def _rows(impl: Implementation, symbol: str, corpus: Corpus, path: Path) -> list[int]:
    """The chunks of a function: one, or the parts of an over-long one."""
    rows = corpus.by_file.get((impl.package, impl.path), [])
    matching = [row for row in rows if corpus.chunks[row].symbol == symbol]
    if not matching:
        raise KbError(f"{path.name}: no chunk of {impl.package} {impl.path} is called {symbol}")
    return matching


def _names(corpus: Corpus) -> dict[str, str]:
    """Normalized titles and aliases of entries, and calibration questions → what they are."""
    names: dict[str, str] = {}
    for slug, record in corpus.generation.techniques.items():
        for name in (record.entry.title, *record.entry.aliases):
            names[normalized(name)] = f"a name of {slug}"
    for slug, kernel in corpus.generation.kernels.items():
        names[normalized(kernel.entry.title)] = f"the title of {slug}"
    calibration = load_yaml(_CALIBRATION.read_text(encoding="utf-8"))["calibrate"]
    for question in (*calibration["answerable"], *calibration["unanswerable"]):
        names[normalized(question)] = "a question that abstention was calibrated on"
    return names


def _check_texts(
    path: Path, queries: Iterable[TechniqueQuery | UnanswerableQuery], names: dict[str, str]
) -> None:
    queries = list(queries)
    for field in ("id", "query"):
        counts = Counter(normalized(getattr(query, field)) for query in queries)
        repeated = [text for text, count in counts.items() if count > 1]
        if repeated:
            raise KbError(f"{path.name}: {field} '{repeated[0]}' is there more than once")
    for query in queries:
        origin = names.get(normalized(query.query))
        # an identifier can be an alias: nobody asks for `tl.dot` in other words
        if origin and not (isinstance(query, TechniqueQuery) and query.style == "api-symbol"):
            raise KbError(f"{path.name}: {query.id}: the query is {origin}: ask in other words")


def _read(path: Path, model: type[Any]) -> list[Any]:
    if not path.is_file():
        return []
    try:
        data = load_yaml(path.read_text(encoding="utf-8"))
        return TypeAdapter(list[model]).validate_python(data or [])  # type: ignore[valid-type]
    except (yaml.YAMLError, ValidationError) as error:
        raise KbError(f"{path}: {error}") from error
