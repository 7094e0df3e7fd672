"""The judged queries that are stored here: techniques, unanswerable questions, kernels; validated.

`queries/techniques.yaml` and `queries/unanswerable.yaml` are written by us; docs/retrieval.md gives
their format. `queries/kernels.yaml` holds identifiers alone: which functions of the packages
implement the same operator.
"""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from benchmarks.retrieval.cases import Answer, Case
from benchmarks.retrieval.indexes import Corpus
from benchmarks.retrieval.sentences import normalized
from kb.errors import KbError

FOLDER = Path(__file__).with_name("queries")
STYLES = ("symptom", "metrics", "api-symbol", "error", "how-to", "concept")
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
    """A question that nothing in the corpus or the packages answers."""

    id: str = Field(pattern=r"^[a-z0-9-]+$")
    topic: str = Field(min_length=3)
    """What it is about, for the table of where abstention fails."""
    query: str = Field(min_length=3)


class Operator(_Model):
    """Functions of several packages or backends that implement the same operator."""

    operator: str = Field(pattern=r"^[a-z0-9-]+$")
    functions: list[str] = Field(min_length=2)
    """`PACKAGE:PATH:SYMBOL`, of the `full` set."""


def technique_cases(corpus: Corpus, path: Path = FOLDER / "techniques.yaml") -> list[Case]:
    """The technique queries; none where the file is not there.

    Raises
    ------
    KbError
        If the file is malformed, names an entry that does not exist, repeats a query, takes one
        from a title, an alias or the calibration of abstention, or asks nothing fully answered.
    """
    queries: list[TechniqueQuery] = _read(path, TechniqueQuery)
    _check_texts(path, queries, _names(corpus))
    known = set(corpus.units)
    for query in queries:
        missing = sorted(set(query.answers) - known)
        if missing:
            raise KbError(f"{path.name}: {query.id}: the corpus has no {', '.join(missing)}")
        if max(query.answers.values()) < 3:
            raise KbError(f"{path.name}: {query.id}: no answer has grade 3, what was asked for")
    return [
        Case(
            query.id,
            query.query,
            tuple(Answer(name, frozenset({name}), g) for name, g in query.answers.items()),
            {"style": query.style},
        )
        for query in queries
    ]


def unanswerable_cases(corpus: Corpus, path: Path = FOLDER / "unanswerable.yaml") -> list[Case]:
    """The questions that nothing answers; none where the file is not there.

    Raises
    ------
    KbError
        As for `technique_cases`.
    """
    queries: list[UnanswerableQuery] = _read(path, UnanswerableQuery)
    _check_texts(path, queries, _names(corpus))
    return [Case(each.id, each.query, (), {"topic": each.topic}) for each in queries]


def kernel_cases(corpus: Corpus, path: Path = FOLDER / "kernels.yaml") -> list[Case]:
    """Each judged kernel as a query for the others of its operator; none without the file.

    Answers are the functions of the same operator outside the query's own file. All functions of
    one operator are in one half.

    Raises
    ------
    KbError
        If the file is malformed, or a function is not in the packages.
    """
    cases: list[Case] = []
    for operator in _read(path, Operator):
        units = {name: _function_rows(name, corpus, path) for name in operator.functions}
        for name, rows in units.items():
            package, file, _ = name.split(":", 2)
            others = {
                other: found
                for other, found in units.items()
                if not other.startswith(f"{package}:{file}:")
            }
            if not others:
                continue
            answers = tuple(
                Answer(other, frozenset(corpus.units[row] for row in found))
                for other, found in others.items()
            )
            own = {corpus.units[row] for row in rows}
            if any(own & answer.units for answer in answers):
                raise KbError(f"{path.name}: {name} is a copy of another of {operator.operator}")
            chunk = corpus.chunks[rows[0]]
            cases.append(
                Case(
                    id=name,
                    query="\n".join(corpus.chunks[row].text for row in rows),
                    answers=answers,
                    labels={"language": chunk.language, "package": package},
                    excluded=frozenset(corpus.by_file[package, file]),
                    group=operator.operator,
                )
            )
    return cases


def _function_rows(name: str, corpus: Corpus, path: Path) -> list[int]:
    """The chunks of a function: one, or the parts of an over-long one."""
    package, file, symbol = name.split(":", 2)
    rows = corpus.by_file.get((package, file), [])
    found = [row for row in rows if corpus.chunks[row].symbol == symbol]
    if not found:
        raise KbError(f"{path.name}: no chunk of {package} {file} is called {symbol}")
    return found


def _names(corpus: Corpus) -> dict[str, str]:
    """Normalized titles and aliases of entries, and calibration questions → what they are."""
    names: dict[str, str] = {}
    for slug, record in corpus.generation.techniques.items():
        for name in (record.entry.title, *record.entry.aliases):
            names[normalized(name)] = f"a name of {slug}"
    for slug, kernel in corpus.generation.kernels.items():
        names[normalized(kernel.entry.title)] = f"the title of {slug}"
    calibration = yaml.safe_load(_CALIBRATION.read_text(encoding="utf-8"))["calibrate"]
    for question in (*calibration["answerable"], *calibration["unanswerable"]):
        names[normalized(question)] = "a question that abstention was calibrated on"
    return names


def _check_texts(
    path: Path, queries: Iterable[TechniqueQuery | UnanswerableQuery], names: dict[str, str]
) -> None:
    queries = list(queries)
    for field in ("id", "query"):
        counts = Counter(normalized(getattr(each, field)) for each in queries)
        repeated = [text for text, count in counts.items() if count > 1]
        if repeated:
            raise KbError(f"{path.name}: {field} '{repeated[0]}' is there more than once")
    for each in queries:
        taken = names.get(normalized(each.query))
        # an identifier can be an alias: nobody asks for `tl.dot` in other words
        if taken and not (isinstance(each, TechniqueQuery) and each.style == "api-symbol"):
            raise KbError(f"{path.name}: {each.id}: the query is {taken}: ask in other words")


def _read(path: Path, model: type[Any]) -> list[Any]:
    if not path.is_file():
        return []
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
        return TypeAdapter(list[model]).validate_python(data or [])  # type: ignore[valid-type]
    except (yaml.YAMLError, ValidationError) as error:
        raise KbError(f"{path}: {error}") from error
