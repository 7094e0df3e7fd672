"""Text that somebody else wrote, made fit for a terminal: it is shown, and does nothing."""

import textwrap

WIDTH = 80
_KEPT = frozenset("\n\t")
# Control characters move the cursor, colour, or answer for the user; format characters that turn
# the direction of writing show code in another order than it has.
_SHOWN_AS_ESCAPES = frozenset(
    chr(code)
    for code in [
        *range(0x20), *range(0x7F, 0xA0), 0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F),
        *range(0x2066, 0x206A), *range(0xD800, 0xE000),
    ]
) - _KEPT  # fmt: skip
_TABLE = {
    ord(char): (f"\\x{ord(char):02x}" if ord(char) < 0x100 else f"\\u{ord(char):04x}")
    for char in _SHOWN_AS_ESCAPES
}


def printable(text: str) -> str:
    """A text with its control characters as escapes; line feeds and tabs stay."""
    return text.translate(_TABLE)


def one_line(text: str) -> str:
    """A text on one line, white space as single spaces, control characters as escapes."""
    return printable(" ".join(text.split()))


def wrapped(text: str, first: str = "", rest: str = "", width: int = WIDTH) -> list[str]:
    """Lines of at most `width` columns, broken between words; `first` and `rest` begin them."""
    return textwrap.wrap(
        " ".join(text.split()),
        width,
        initial_indent=first,
        subsequent_indent=rest,
        break_on_hyphens=False,
    )
