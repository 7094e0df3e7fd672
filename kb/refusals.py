"""The first problem of refused input, in one line with its place."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

# Characters of a refused value that are repeated.
_MAX_QUOTED = 40
# Kind of error → what is said; `{given}` is the value, the rest are the limits that it broke.
_MESSAGES = {
    "missing": "is missing",
    "extra_forbidden": "there is no such field",
    "greater_than_equal": "{given} is less than {ge}",
    "greater_than": "{given} is not greater than {gt}",
    "less_than_equal": "{given} is more than {le}",
    "string_too_long": "has {size} characters: at most {max_length}",
    "literal_error": "{given} is not one of {expected}",
    "float_parsing": "{given} is not a number",
    "float_type": "{given} is not a number",
    "finite_number": "{given} is not a finite number",
    "int_parsing": "{given} is not a whole number",
    "int_type": "{given} is not a whole number",
    "int_from_float": "{given} is not a whole number",
}


def first_problem(error: ValidationError) -> str:
    """The problem in pydantic's words."""
    return _with_place(*_place_and_message(_first(error)))


def key_problem(error: ValidationError) -> str:
    """The problem of a file whose keys a person wrote: `missing key 'sms' (and 1 more)`."""
    first = _first(error)
    where, message = _place_and_message(first)
    words = {"extra_forbidden": f"unknown key '{where}'", "missing": f"missing key '{where}'"}
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return words.get(first["type"], _with_place(where, message)) + more


def refusal(error: ValidationError, names: Mapping[str, str] | None = None) -> str:
    """The problem without pydantic's own terms: `max_tokens: 5 is less than 64`.

    `names` maps fields to what the user knows them by.
    """
    first: Any = error.errors(include_url=False)[0]
    where, message = _place_and_message(first, names)
    if (words := _MESSAGES.get(first["type"])) is not None:
        value, text = first["input"], repr(first["input"])
        text = text if len(text) <= _MAX_QUOTED else f"{text[:_MAX_QUOTED]}…"
        size = len(value) if isinstance(value, str) else 0
        message = words.format(given=text, size=size, **first.get("ctx", {}))
    return _with_place(where, message)


def _first(error: ValidationError) -> Any:
    return error.errors(include_url=False, include_input=False)[0]


def _place_and_message(first: Any, names: Mapping[str, str] | None = None) -> tuple[str, str]:
    """The place is empty where the value as a whole is wrong; `[key]` is pydantic's own term."""
    parts = [str(part) for part in first["loc"] if part != "[key]"]
    where = ".".join((names or {}).get(part, part) for part in parts)
    return where, first["msg"].removeprefix("Value error, ")


def _with_place(where: str, message: str) -> str:
    return f"{where}: {message}" if where else message
