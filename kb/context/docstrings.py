"""The docstring of a host function whose options were folded: it names only what is left."""

import ast
import re
from collections.abc import Iterator

from kb.context.folding import Bindings

# Sentences end at full stops; clauses at commas and semicolons outside parentheses.
_SENTENCE = re.compile(r"(?<=\.)\s+")
_MAX_CHARS = 2000


def summary(docstring: str, folded: Bindings) -> str:
    """Return a docstring's first paragraph in one line, without the options in `folded`.

    An option that is a string or a number is replaced by its value; a clause on a hook that is not
    given, or on an option that is off, is left out.
    """
    text = " ".join(docstring[:_MAX_CHARS].split("\n\n", maxsplit=1)[0].split())
    for name, value in folded.items():
        text = re.sub(rf"`{re.escape(name)}\(([^`]*)\)`", r"`\1`", text)
        # What stands in parentheses behind an option lists its values.
        mention = re.compile(rf"`{re.escape(name)}`(?: \([^()]*\))?")
        if isinstance(value, ast.Constant) and isinstance(value.value, str | int | float):
            text = mention.sub(f"`{value.value}`".replace("\\", r"\\"), text)
        elif mention.search(text):
            text = _without_clauses(text, mention)
    return text


def _without_clauses(text: str, mention: re.Pattern[str]) -> str:
    sentences = []
    for sentence in _SENTENCE.split(text):
        clauses = list(_clauses(sentence.removesuffix(".")))
        clauses_kept = [clause for clause in clauses if not mention.search(clause)]
        # The first clause has the verb.
        if clauses_kept and clauses_kept[0] is clauses[0]:
            sentences.append("".join(clauses_kept).rstrip(",; ") + ".")
    return " ".join(sentences)


def _clauses(sentence: str) -> Iterator[str]:
    """Yield the parts of a sentence between commas and semicolons, each with the one before it."""
    depth, start = 0, 0
    for place, character in enumerate(sentence):
        depth += (character in "([{") - (character in ")]}")
        if character in ",;" and depth == 0:
            yield sentence[start:place]
            start = place
    yield sentence[start:]
