"""What each role has to answer: pydantic models, whose JSON schemas go with the requests."""

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from judge.problem.syntax import MAX_FILE_BYTES
from kb.docstrings import describe_fields

_Line = Annotated[str, Field(min_length=1, max_length=2000)]
# Keywords that endpoints with strict schemas refuse, or that only repeat what a name says. What
# they ask for is checked here whatever the endpoint does.
_UNKNOWN_TO_ENDPOINTS = frozenset(
    {"title", "default", "minLength", "maxLength", "minItems", "maxItems"}
)


class _Reply(BaseModel):
    model_config = ConfigDict(extra="forbid", json_schema_extra=describe_fields)


class Plan(_Reply):
    """One change to try."""

    parent: str
    """Id of the kernel to change."""
    technique: str
    """Slug of the technique, from the list of the request, or `other`."""
    claim: Annotated[str, Field(min_length=1, max_length=8000)]
    """What is changed, and why that makes the kernel faster: all that the programmer has to know,
    in at most 8,000 characters."""
    metric: str | None
    """Nsight Compute metric that should move, of those in the evidence; null where none is."""
    direction: Literal["up", "down"] | None
    """Which way it should move; null without a metric."""
    expected: float | None
    """The value it should reach, in the unit of the evidence; null where you cannot tell."""
    risk: _Line
    """What may go wrong, in at most 2,000 characters."""
    evidence: Annotated[list[str], Field(min_length=1, max_length=12)]
    """Ids of what the claim rests on: `E1` and so on, slugs in the knowledge, ids of chunks."""


class Plans(_Reply):
    """Changes to try, the most promising first."""

    plans: Annotated[list[Plan], Field(min_length=1, max_length=16)]


class Code(_Reply):
    """A kernel file, as it is after the reply; never asked for as JSON."""

    note: Annotated[str, Field(max_length=2000)]
    """One sentence: what was done."""
    code: Annotated[str, Field(min_length=1, max_length=MAX_FILE_BYTES)]
    """The whole file."""


class Finding(StrEnum):
    """What the numbers say about a hypothesis."""

    CONFIRMED = "confirmed"
    FALSIFIED = "falsified"
    INCONCLUSIVE = "inconclusive"


class Action(StrEnum):
    """What to do with it next."""

    PRESERVE = "preserve"
    """Keep this change in what follows."""
    REVERT = "revert"
    """Take it back; something else about the kernel may be worth keeping."""
    AVOID = "avoid"
    """Do not try this again on this problem."""
    FOCUS = "focus"
    """Go further in this direction."""


class Reflection(_Reply):
    """One candidate's hypothesis after the numbers."""

    candidate: str
    """Its id."""
    finding: Finding
    """confirmed, falsified or inconclusive."""
    action: Action
    """preserve, revert, avoid or focus."""
    lesson: Annotated[str, Field(min_length=1, max_length=600)]
    """One or two sentences with the numbers that decided it, and what to do next."""


class Reflections(_Reply):
    """One for each candidate of the request."""

    reflections: Annotated[list[Reflection], Field(max_length=64)]


def wire_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of a reply in the form that endpoints with strict schemas take."""
    schema: dict[str, Any] = _plain(model.model_json_schema())
    return schema


def _plain(part: Any, *, names: bool = False) -> Any:
    if isinstance(part, dict):
        return {
            key: _plain(value, names=key in {"properties", "$defs"} and not names)
            for key, value in part.items()
            if names or key not in _UNKNOWN_TO_ENDPOINTS
        }
    return [_plain(item) for item in part] if isinstance(part, list) else part
