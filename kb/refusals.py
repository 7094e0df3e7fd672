"""The message for refused input: one line, without pydantic's own terms."""

from pydantic import ValidationError

# Characters of a refused value that are repeated.
_SHOWN = 40
# Kind of error → what is said; `{given}` is the value, the rest are the limits that it broke.
_WORDS = {
    "missing": "is missing",
    "extra_forbidden": "there is no such field",
    "greater_than_equal": "{given} is less than {ge}",
    "greater_than": "{given} is not more than {gt}",
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


def refusal(error: ValidationError) -> str:
    """The first thing that is wrong, with its place: `max_tokens: 5 is less than 64`."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    if (words := _WORDS.get(first["type"])) is not None:
        given, shown = first["input"], repr(first["input"])
        shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"
        size = len(given) if isinstance(given, str) else 0
        message = words.format(given=shown, size=size, **first.get("ctx", {}))
    return f"{where}: {message}" if where else message
