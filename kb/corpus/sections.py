"""Check the sections of a technique entry: their order, and the size of *In short*."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from kb.corpus.entries import IN_SHORT, TECHNIQUE_SECTIONS
from kb.corpus.frontmatter import FrontMatter
from kb.errors import EntryError

# An agent reads *In short* of three techniques within a context of 2,000 tokens.
SHORT_WORDS = 120
SHORT_CODE_LINES = 25
SHORT_LANGUAGES = ("python", "cuda")
_FENCE = "```"
_CODE_SPAN = re.compile(r"`[^`]+`")


class Section(NamedTuple):
    """One level-2 section of a technique entry."""

    title: str
    line: int
    """1-based line of its heading in the file."""
    lines: tuple[str, ...]
    """The lines below the heading."""


def sections(front: FrontMatter) -> tuple[Section, ...]:
    """Return the level-2 sections of a body, in order; a heading inside a code fence is none."""
    body = front.body.splitlines()
    fenced = False
    starts: list[int] = []
    for offset, line in enumerate(body):
        if _is_fence(line):
            fenced = not fenced
        elif line.startswith("## ") and not fenced:
            starts.append(offset)
    ends = [*starts[1:], len(body)]
    return tuple(
        Section(body[start][3:].strip(), front.body_line + start, tuple(body[start + 1 : end]))
        for start, end in zip(starts, ends, strict=False)
    )


def count_words(prose: str) -> int:
    """Count the words of prose; a hyphenated word or a `code span` is one."""
    spans_as_words = _CODE_SPAN.sub("x", prose)
    return sum(any(char.isalnum() for char in word) for word in spans_as_words.split())


def check_sections(name: str, front: FrontMatter) -> None:
    """Refuse a body whose sections are not `TECHNIQUE_SECTIONS`, or whose *In short* is not short.

    Raises
    ------
    EntryError
        A section is missing, extra or out of order, or *In short* has no prose, too much of it, or
        not exactly one code block of at most `SHORT_CODE_LINES` lines; names file and line.
    """
    actual = sections(front)
    for section, expected in zip(actual, TECHNIQUE_SECTIONS, strict=False):
        if section.title != expected:
            problem = f"section '{section.title}' is where '{expected}' belongs"
            raise EntryError(f"{name}:{section.line}: {problem}")
    if len(actual) < len(TECHNIQUE_SECTIONS):
        problem = f"missing section '{TECHNIQUE_SECTIONS[len(actual)]}'"
        raise EntryError(f"{name}:{front.body_line}: {problem}")
    if len(actual) > len(TECHNIQUE_SECTIONS):
        extra = actual[len(TECHNIQUE_SECTIONS)]
        raise EntryError(f"{name}:{extra.line}: extra section '{extra.title}'")
    for line, problem in _short_problems(actual[0]):
        raise EntryError(f"{name}:{line}: '{IN_SHORT}' {problem}")


def _short_problems(section: Section) -> Iterator[tuple[int, str]]:
    """Yield what is wrong with *In short*, each with the line that it stands on."""
    fences = [at for at, line in enumerate(section.lines) if _is_fence(line)]
    if len(fences) != 2:
        yield section.line, f"needs exactly one code block, it has {len(fences) // 2}"
        return
    opening, closing = fences
    words = count_words("\n".join(section.lines[:opening]))
    if not 0 < words <= SHORT_WORDS:
        yield section.line, f"has {words} words before its code: write 1 to {SHORT_WORDS}"
    at = section.line + 1 + opening
    language = section.lines[opening].strip().removeprefix(_FENCE)
    if language not in SHORT_LANGUAGES:
        allowed = " or ".join(SHORT_LANGUAGES)
        yield at, f"has a code block in '{language}': write it in {allowed}"
    code = closing - opening - 1
    if not 0 < code <= SHORT_CODE_LINES:
        yield at, f"has {code} lines of code: write 1 to {SHORT_CODE_LINES}"
    if any(line.strip() for line in section.lines[closing + 1 :]):
        yield section.line + 1 + closing, "continues after its code: move the text before it"


def _is_fence(line: str) -> bool:
    return line.lstrip().startswith(_FENCE)
