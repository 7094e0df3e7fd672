"""The parts of a context: what a planner reads, and what a programmer needs for one plan.

A context is one text. A planner decides from facts, figures and reasons. A programmer gets what the
plan cites: techniques in full, and examples with their code.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from agent.optimize.candidate import Context
from kb.context.packing import SEPARATOR
from kb.vocabulary import technique_titles

# Headings of entries end with their slug; those of ingested code have none.
_TECHNIQUE: Final = re.compile(r"# (?P<title>.{1,300}) \((?P<slug>[a-z0-9-]{1,80})\)")
_EXAMPLE: Final = re.compile(r"## Example: (?P<title>.{1,300}?)(?: \((?P<slug>[a-z0-9-]{1,80})\))?")
_FENCE: Final = "```"
_MEASURED: Final = "Measured on "
_FOOT: Final = ("(Showing ", "Not shown: ", "Sources:")


@dataclass(frozen=True, slots=True)
class Part:
    """One technique or one example of a context."""

    slug: str
    """Empty for ingested code."""
    title: str
    text: str
    example: bool

    @property
    def without_code(self) -> str:
        """An example without its code and its measured line, which the figures repeat."""
        about, _, code = self.text.partition(f"\n{_FENCE}")
        first, *rest = about.splitlines()
        notes = [line for line in rest[1:] if line and not line.startswith(_MEASURED)]
        return "\n".join([first, *notes, f"Code: {len(code.splitlines()) - 2} lines."])


@dataclass(frozen=True, slots=True)
class ContextParts:
    """A context in parts."""

    facts: str
    """What stands before them, and what is no part of another kind."""
    parts: tuple[Part, ...]

    @property
    def slugs(self) -> tuple[str, ...]:
        """What can be cited of it."""
        return tuple(part.slug for part in self.parts if part.slug)

    @classmethod
    def of(cls, context: Context, known: Collection[str]) -> "ContextParts":
        """Take a context apart, without the lines that are `known` from elsewhere."""
        facts: list[str] = []
        parts: list[Part] = []
        for block in _blocks(context.text):
            first = block.partition("\n")[0]
            example = _EXAMPLE.fullmatch(first)
            head = example or _TECHNIQUE.fullmatch(first)
            slug = _slugs().get(first.removeprefix("# ")) if head is None else None
            if slug is not None:  # a heading in short
                parts.append(Part(slug, first.removeprefix("# "), block, example=False))
            elif head is not None:
                parts.append(Part(head["slug"] or "", head["title"], block, example is not None))
            elif not block.startswith(_FOOT):
                lines = [line for line in block.splitlines() if line not in known]
                facts.append("\n".join(lines).strip())
        return cls("\n\n".join(fact for fact in facts if fact), tuple(parts))

    def for_planner(self, reasons: Mapping[str, str], *, measured: bool) -> str:
        """What a planner reads: figures, examples without their code, and why each technique.

        Techniques are shown in full if something of the kernel was `measured`: they were chosen
        by that, and a change is based on them.
        """
        texts = [self.facts] if self.facts else []
        texts += [part.without_code for part in self.parts if part.example]
        techniques = [part for part in self.parts if not part.example]
        if measured:
            texts += [part.text for part in techniques]
        else:
            texts.append("\n".join(_line(part, reasons.get(part.slug, "")) for part in techniques))
        return "\n\n".join(text for text in texts if text)

    def for_plan(self, cited: Collection[str]) -> str:
        """What a programmer reads: what the plan cites."""
        texts = [part.text for part in self.parts if part.slug in cited]
        if not self.parts and self.facts:
            texts = [self.facts]
        return "\n\n".join(texts)


@cache
def _slugs() -> dict[str, str]:
    return {title: slug for slug, title in technique_titles().items()}


def _line(part: Part, reason: str) -> str:
    title = f"# {part.title} ({part.slug})"
    return f"{title}: {reason.rstrip('.')}." if reason else title


def _blocks(text: str) -> Iterator[str]:
    """Blocks between separators; one inside a code fence separates nothing."""
    waiting: list[str] = []
    for piece in text.split(SEPARATOR):
        waiting.append(piece)
        block = SEPARATOR.join(waiting)
        if sum(line.startswith(_FENCE) for line in block.splitlines()) % 2 == 0:
            waiting.clear()
            if block.strip():
                yield block.strip("\n")
    if waiting:
        yield SEPARATOR.join(waiting).strip("\n")
