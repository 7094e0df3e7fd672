"""Values as words and figures, as the templates show them."""

from collections.abc import Iterable

from kb.architectures import parse_architecture
from kb.context.cutting import prose_prefixes

_REACH = {"": "and later", "a": "only", "f": "and later ones of its family"}


def first_sentence(text: str) -> str:
    """The beginning of a text up to its first full stop."""
    return next(prose_prefixes(text), text)


def capitalized(text: str) -> str:
    """The text as the beginning of a sentence; unlike `str.capitalize`, the rest stays as it is."""
    return text[:1].upper() + text[1:]


def figures(value: float) -> str:
    """A number with the four figures that a measurement is worth."""
    return f"{value:.4g}"


def targets(names: Iterable[str]) -> str:
    """Compile targets with what else their code runs on."""
    return "; ".join(f"{name} {_REACH[parse_architecture(name).suffix]}" for name in names)
