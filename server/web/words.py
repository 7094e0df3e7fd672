"""Values as words and figures, as the templates show them."""

import re

from markupsafe import Markup, escape

from kb.context.cutting import prose_prefixes

# From here on four figures are a whole number, and `.4g` would turn to powers of ten.
_WHOLE_FROM = 1_000


def first_sentence(text: str) -> str:
    """The beginning of a text up to its first full stop."""
    return next(prose_prefixes(text), text)


def capitalized(text: str) -> str:
    """The text as the beginning of a sentence; unlike `str.capitalize`, the rest stays as it is."""
    return text[:1].upper() + text[1:]


def breakable(name: str) -> Markup:
    """The name of a metric or an address, which a line may end in after its marks."""
    return Markup(re.sub(r"(__|[._/])(?=[\w{])", r"\1<wbr>", str(escape(name))))  # noqa: S704


def figures(value: float) -> str:
    """A number with the four figures that a measurement is worth, or whole where it is large."""
    return f"{value:,.0f}" if abs(value) >= _WHOLE_FROM else f"{value:.4g}"
