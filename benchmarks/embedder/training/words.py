"""The words of a text, as an embedding model reads them that was trained on words alone.

Code is a third punctuation to a tokenizer, and a name in camel case one long unknown word. Without
brackets, commas and underscores, and with such names taken apart, a model that reads 256 tokens
reads half as much code again.
"""

import re

_JOINT = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
# Operators stay: what a kernel computes is in them. So does the point of a number.
_MARKS = re.compile(r"[_()\[\]{},;:\"'`\\=#$?]+|\.(?!\d)|(?<!\d)\.")


def words_of(text: str) -> str:
    """`text` with names in camel and snake case as words, without marks that only join or
    enclose, one space between words.

    >>> words_of("tl.load(xPtr + row_offset, mask=cols < 0.5)")
    'tl load x Ptr + row offset mask cols < 0.5'
    """
    return " ".join(_MARKS.sub(" ", _JOINT.sub(" ", text)).split())
