"""The teaching set: questions with the techniques that answer them, to train the classifier.

`teaching/SLUG.yaml` holds questions written for one technique, `teaching/_none_*.yaml` those that
no technique answers. Each item is a family: one situation, asked in several voices. A paraphrase is
no new situation, so families are weighted and split whole. `teaching/README.md` gives the format.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import numpy as np
import yaml
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator
from scipy.sparse import coo_array  # type: ignore[import-untyped]
from scipy.sparse.csgraph import connected_components  # type: ignore[import-untyped]

from benchmarks.retrieval.sentences import normalized
from kb.errors import KbError
from kb.search.models import MAX_QUERY_CHARS
from kb.vocabulary import load_yaml, taxonomy

FOLDER = Path(__file__).with_name("teaching")
Style = Literal["symptom", "code", "metrics", "how-to", "concept", "error", "api"]
Voice = Literal["kernel", "framework", "beginner", "profiler", "agent", "compiler"]
STYLES: tuple[str, ...] = get_args(Style)
NOTHING = "nothing applies"
"""The style of a question that no technique answers."""

# Above this cosine two questions of different families are one question, and the later one goes.
COPY = 0.97
# Above this one two families describe one situation, and are on one side of every split. At 0.90
# families of different causes begin to be joined by a shared kernel or GPU.
SAME_SITUATION = 0.92
# Above this one a question is as good as one of the benchmark's: half of those are the same
# identifier or message, the others ask the same in few other words.
LIKE_JUDGED = 0.90

Text = Annotated[str, Field(min_length=3, max_length=MAX_QUERY_CHARS)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Family(_Model):
    """One situation, and how people ask about it."""

    family: int = Field(ge=1)
    """One number for a situation; a file may hold it again in another style."""
    style: Style | None = None
    topic: str | None = Field(default=None, min_length=2)
    """What a question is about that no technique answers."""
    techniques: dict[str, Annotated[int, Field(ge=1, le=3)]]
    """Technique → 3 what was asked for, 2 useful, 1 related; empty where nothing applies."""
    questions: list[dict[Voice, Text]] = Field(min_length=1)

    @model_validator(mode="after")
    def _consistent(self) -> "Family":
        if any(len(question) != 1 for question in self.questions):
            raise ValueError(f"family {self.family}: each question is one `voice: text`")
        if bool(self.techniques) == (self.style is None):
            raise ValueError(
                f"family {self.family}: give a style, or a topic where nothing applies"
            )
        if self.techniques and max(self.techniques.values()) < 3:
            raise ValueError(f"family {self.family}: no technique has grade 3")
        if not self.techniques and self.topic is None:
            raise ValueError(f"family {self.family}: nothing applies: name its topic")
        return self


@dataclass(frozen=True, slots=True)
class Question:
    """One question of the teaching set."""

    text: str
    style: str
    """One of `STYLES`, or `NOTHING`."""
    techniques: dict[str, int]
    """Technique → grade; empty where nothing applies."""
    file: str
    """The technique that its file was written for, or the file's name where nothing applies."""
    family: str
    """`FILE/NUMBER`."""


def teaching_questions(folder: Path = FOLDER) -> list[Question]:
    """All questions, in the order of files and lines.

    Raises KbError if a file is malformed, names a technique that the taxonomy does not have, or
    repeats a question; names the file.
    """
    slugs = {slug for group in taxonomy().values() for slug in group}
    questions: list[Question] = []
    for path in sorted(folder.glob("*.yaml")):
        for family in _read(path):
            if unknown := sorted(set(family.techniques) - slugs):
                raise KbError(f"{path.name}: family {family.family}: no technique {unknown[0]}")
            for question in family.questions:
                (text,) = question.values()
                style = family.style or NOTHING
                name = f"{path.stem}/{family.family}"
                questions.append(Question(text, style, family.techniques, path.stem, name))
    counts = Counter(" ".join(question.text.split()) for question in questions)
    if repeated := [text for text, count in counts.items() if count > 1]:
        raise KbError(f"{folder.name}: asked more than once: {repeated[0][:80]!r}")
    return questions


def copies(questions: Sequence[Question], vectors: NDArray[np.float32]) -> list[tuple[int, int]]:
    """Pairs of questions of different families that are nearer than `COPY`, the earlier first.

    `vectors` (n, dimensions) are of length 1.
    """
    families = [question.family for question in questions]
    return [(a, b) for a, b in _near_pairs(vectors, COPY) if families[a] != families[b]]


def situations(questions: Sequence[Question], vectors: NDArray[np.float32]) -> NDArray[np.intp]:
    """A number for the situation of each question, (n,): similar families are joined.

    Parameters
    ----------
    vectors
        Of the questions, (n, dimensions), of length 1.
    """
    row_of = {question.family: row for row, question in enumerate(questions)}
    same_family = [(row, row_of[question.family]) for row, question in enumerate(questions)]
    firsts, seconds = zip(*same_family, *_near_pairs(vectors, SAME_SITUATION), strict=True)
    shape = (len(questions), len(questions))
    graph = coo_array((np.ones(len(firsts)), (firsts, seconds)), shape=shape)
    _, numbers = connected_components(graph, directed=False)
    return np.asarray(numbers, dtype=np.intp)


def _near_pairs(vectors: NDArray[np.float32], cosine: float) -> Iterable[tuple[int, int]]:
    """Pairs of rows nearer than `cosine`, in order."""
    step = 1024
    for start in range(0, len(vectors), step):
        near = vectors[start : start + step] @ vectors.T
        firsts, seconds = np.nonzero(near > cosine)
        for first, second in zip((firsts + start).tolist(), seconds.tolist(), strict=True):
            if first < second:
                yield first, second


def novel(
    questions: Sequence[Question],
    vectors: NDArray[np.float32],
    texts: Iterable[str],
    judged: NDArray[np.float32],
) -> NDArray[np.bool_]:
    """Which questions are neither in the words of one of `texts` nor nearly so, (n,).

    A benchmark is not to be taught. Identifiers and error messages are asked for in one way, so
    that the teaching set holds some of the benchmark's.

    Parameters
    ----------
    vectors, judged
        Of the questions, (n, dimensions), and of the texts, (texts, dimensions), of length 1.
    """
    judged_texts = {normalized(text) for text in texts}
    is_reworded = np.array(
        [normalized(question.text) not in judged_texts for question in questions], dtype=np.bool_
    )
    is_distant = np.asarray((vectors @ judged.T).max(axis=1, initial=-1.0) <= LIKE_JUDGED, np.bool_)
    return np.logical_and(is_reworded, is_distant)


def _read(path: Path) -> list[Family]:
    try:
        data: Any = load_yaml(path.read_text(encoding="utf-8"))
        return TypeAdapter(list[Family]).validate_python(data)
    except (yaml.YAMLError, ValidationError) as error:
        raise KbError(f"{path}: {error}") from error
