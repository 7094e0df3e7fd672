"""Prompts from template files; foreign text is quoted between marks, as data."""

import hashlib
from functools import cache
from importlib.resources import files

from jinja2 import DictLoader, Environment, StrictUndefined

# Characters of one quoted text. Longer problem or kernel files are rare, and bury the question.
MAX_QUOTED = 48_000
_SUFFIX = ".md.j2"


def mark_of(text: str) -> str:
    """A mark of 12 digits that the text cannot hold but by chance: its own digest.

    It is the same for the same text, so that prompts are the same for the same state.
    """
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:12]


def quote(text: str, label: str = "", most: int = MAX_QUOTED) -> str:
    """Text between marks that it cannot forge, cut to `most` characters with a note of the cut."""
    text = text.strip("\n")
    if len(text) > most:
        head = text[: text.rfind("\n", 0, most) + 1 or most]
        text = f"{head.rstrip()}\n[cut: {len(text) - len(head)} more characters]"
    mark = mark_of(text)
    label = f" {label}" if label else ""
    return f"-----{mark} begin{label}-----\n{text}\n-----{mark} end-----"


def flat(text: str, most: int = 400) -> str:
    """Text of others as one line, which cannot look like a heading or a mark."""
    return shorten(text.replace("-----", "- -"), most)


def shorten(text: str, most: int) -> str:
    """Text as one line, cut between words to `most` characters, the cut shown."""
    line = " ".join(text.split())
    if len(line) <= most:
        return line
    return line[: line.rfind(" ", 0, most - 1) if " " in line[: most - 1] else most - 2] + " …"


def render(template: str, **values: object) -> str:
    """A prompt: the template `prompts/NAME.md.j2` with its values set in as they are."""
    return _environment().get_template(template).render(**values).strip() + "\n"


@cache
def _environment() -> Environment:
    folder = files("agent.proposers.llm") / "prompts"
    texts = {
        entry.name.removesuffix(_SUFFIX): entry.read_text(encoding="utf-8")
        for entry in folder.iterdir()
        if entry.name.endswith(_SUFFIX)
    }
    # Plain text for a model, not HTML.
    environment = Environment(
        loader=DictLoader(texts),
        undefined=StrictUndefined,
        autoescape=False,  # noqa: S701
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"quoted": quote, "flat": flat}
    return environment
