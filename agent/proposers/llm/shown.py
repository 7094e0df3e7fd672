"""The parts of a context: what a planner weighs, and what a programmer needs for one plan.

A context is one text. A planner decides from facts, figures and techniques; code is for who writes
it. A programmer gets what the plan cites, and the example nearest to the task.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from agent.optimize.candidate import Context
from kb.context.packing import SEPARATOR

# Headings of entries end with their slug; those of ingested code have none.
_SLUG = r"\((?P<slug>[a-z0-9-]{1,80})\)"
_TECHNIQUE = re.compile(rf"# (?P<title>.{{1,300}}) {_SLUG}")
_EXAMPLE = re.compile(rf"## Example: (?P<title>.{{1,300}}?)(?: {_SLUG})?")
_FENCE: Final = "```"
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
    def told(self) -> str:
        """An example without its code."""
        return self.text.partition(f"\n{_FENCE}")[0].rstrip()


@dataclass(frozen=True, slots=True)
class Shown:
    """A context in parts."""

    facts: str
    """What stands before them, and what is no part of another kind."""
    parts: tuple[Part, ...]

    @property
    def slugs(self) -> tuple[str, ...]:
        """What can be cited of it."""
        return tuple(part.slug for part in self.parts if part.slug)

    @property
    def nearest(self) -> Part | None:
        """The first example, which is that for the task."""
        return next((part for part in self.parts if part.example), None)

    @classmethod
    def of(cls, context: Context, known: Collection[str]) -> "Shown":
        """Take a context apart, without the lines that are `known` from elsewhere."""
        facts: list[str] = []
        parts: list[Part] = []
        for block in _blocks(context.text):
            first = block.partition("\n")[0]
            example = _EXAMPLE.fullmatch(first)
            head = example or _TECHNIQUE.fullmatch(first)
            if head is not None:
                parts.append(Part(head["slug"] or "", head["title"], block, example is not None))
            elif not block.startswith(_FOOT):
                lines = [line for line in block.splitlines() if line not in known]
                facts.append("\n".join(lines).strip())
        return cls("\n\n".join(each for each in facts if each), tuple(parts))

    def weighed(self, reasons: Mapping[str, str], *, measured: bool) -> str:
        """What a planner reads: figures, examples without their code, techniques with a reason.

        The chief technique is told in full; the others as well where something was `measured` of
        the kernel, since they were chosen by that.
        """
        told = [self.facts] if self.facts else []
        told += [part.told for part in self.parts if part.example]
        techniques = [part for part in self.parts if not part.example]
        for place, part in enumerate(techniques):
            why = f"Here: {reasons[part.slug].rstrip('.')}." if part.slug in reasons else ""
            if measured or place == 0:
                told.append(f"{part.text}\n\n{why}".rstrip())
            else:
                told.append(f"# {part.title} ({part.slug})\n{why}".rstrip())
        return "\n\n".join(told)

    def used(self, cited: Collection[str]) -> str:
        """What a programmer reads: what was cited, and the first example."""
        nearest = self.nearest
        told = [part.text for part in self.parts if part.slug in cited or part is nearest]
        if not self.parts and self.facts:
            told = [self.facts]
        return "\n\n".join(told)


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
