"""Extracts a reply from a model's text: JSON, JSON among words, code in one fence, or edits.

What is extracted is data: it is measured and validated here, and never executed.
"""

import json
import re
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from agent.proposers.llm.edits import SEARCH, EditError, apply_edits, read_edits
from agent.proposers.llm.models import Code
from agent.proposers.llm.prompting import shorten
from kb.refusals import first_problem

Answer = TypeVar("Answer", bound=BaseModel)
_OPENING = re.compile(r"(`{3,}|~{3,})[ \t]*([\w+.#-]*)[^`]*")
_NOTE = 300  # characters of a note
_DATA = frozenset({"json", "jsonc", "json5"})


class NotUsableError(ValueError):
    """The text is no such reply; the message tells the model what to correct."""


def extract(text: str, kind: type[Answer], base: str | None = None) -> Answer:
    """The reply in a text.

    A JSON object may stand alone, in a fence, or among words. Code stands in one fence of its own,
    or is `base` with search/replace edits.

    Raises
    ------
    NotUsableError
        There is none, there are several, or it does not have the form.
    """
    if not text.strip():
        raise NotUsableError("it is empty")
    if kind is Code and SEARCH in text:
        return kind.model_validate(_edited_code(text, base))
    fences, outside = _fences(text)
    reply = _find_object(text, fences)
    if reply is None and kind is Code:
        reply = _code_reply(text, fences, outside)
    if reply is None:
        raise NotUsableError("it holds no JSON object")
    try:
        return kind.model_validate(reply)
    except ValidationError as error:
        raise NotUsableError(first_problem(error)) from error


def _fences(text: str) -> tuple[list[tuple[str, str]], str]:
    """Closed code blocks as (language, text), and what stands outside of them.

    By lines, in time proportional to the text, whatever it holds.
    """
    fences: list[tuple[str, str]] = []
    outside: list[str] = []
    body: list[str] = []
    mark = language = ""
    for line in text.splitlines(keepends=True):
        bare = line.strip()
        if mark:
            # A closing fence is at least as long as the opening one.
            if bare.startswith(mark) and not bare.strip(mark[0]):
                fences.append((language, "".join(body)))
                mark, body = "", []
            else:
                body.append(line)
            continue
        opening = _OPENING.fullmatch(bare)
        if opening is None:
            outside.append(line)
        else:
            mark, language = opening[1], opening[2].lower()
    return fences, "".join(outside)


def _find_object(text: str, fences: list[tuple[str, str]]) -> dict[str, Any] | None:
    """The one JSON object that a text holds: all of it, in a fence, or among words."""
    parsed_text = _parse_object(text)
    if parsed_text is not None:
        return parsed_text
    objects = [
        parsed
        for language, body in fences
        if language in _DATA or not language
        if (parsed := _parse_object(body)) is not None
    ]
    if len(objects) > 1:
        raise NotUsableError("it holds several JSON objects: answer with one")
    if fences:
        return objects[0] if objects else None
    start = text.find("{")
    if start < 0:
        return None
    try:
        value, _ = json.JSONDecoder(strict=False).raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _parse_object(text: str) -> dict[str, Any] | None:
    try:
        # Models write line breaks into strings as they are.
        value = json.loads(text.strip(), strict=False)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _code_reply(text: str, fences: list[tuple[str, str]], outside: str) -> dict[str, Any]:
    bodies = [body for language, body in fences if language not in _DATA]
    if not bodies:
        is_open = "```" in text
        raise NotUsableError(
            "its code block is not closed" if is_open else "it holds no code block with the file"
        )
    if len(bodies) > 1:
        raise NotUsableError(f"it holds {len(bodies)} code blocks: put the whole file into one")
    return {"note": shorten(outside, _NOTE), "code": bodies[0]}


def _edited_code(text: str, base: str | None) -> dict[str, Any]:
    if base is None:
        raise NotUsableError("there is no file to edit: answer with the whole file in one block")
    try:
        edits, outside = read_edits(text)
        return {"note": shorten(outside, _NOTE), "code": apply_edits(base, edits)}
    except EditError as error:
        raise NotUsableError(str(error)) from error
