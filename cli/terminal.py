"""What a terminal is given: no text of a source reaches it as more than text.

Names and contents of files may hold escape sequences, which move the cursor, rewrite lines or type
for the user. On a terminal everything that is written passes `printable`; what the program itself
draws goes around it, by `drawn`. A pipe or file gets what there is, unchanged, but for messages.
"""

import sys
from collections.abc import Iterable
from typing import Any, TextIO

from kb.printable import printable


class PrintableStream:
    """A text stream that shows control characters as escapes."""

    def __init__(self, stream: TextIO) -> None:
        self.raw = stream

    def write(self, text: str) -> int:
        """Write a text."""
        return self.raw.write(printable(text))

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)


def protect() -> None:
    """From now on print no control characters: on a terminal, and in messages anywhere."""
    if sys.stdout.isatty() and not isinstance(sys.stdout, PrintableStream):
        sys.stdout = PrintableStream(sys.stdout)
    if not isinstance(sys.stderr, PrintableStream):
        sys.stderr = PrintableStream(sys.stderr)


def raw_stream(stream: Any) -> TextIO:
    """The stream itself, for what the program draws."""
    raw: TextIO = stream.raw if isinstance(stream, PrintableStream) else stream
    return raw
