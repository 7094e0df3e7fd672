"""What a rule is: a check that drafts a finding, or is silent where its evidence is missing."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from agent.diagnose.bottleneck import Decision
from agent.diagnose.facts import Facts
from agent.diagnose.result import Bottleneck, Evidence, Roofline


@dataclass(frozen=True, slots=True)
class Case:
    """What rules look at."""

    facts: Facts
    position: Roofline
    decision: Decision

    def get(self, alias: str) -> float | None:
        """See `Facts.get`."""
        return self.facts.get(alias)

    def cite(self, alias: str, meaning: str) -> Evidence:
        """See `Facts.evidence`."""
        return self.facts.evidence(alias, meaning)

    def also(self, alias: str, meaning: str) -> tuple[Evidence, ...]:
        """Evidence that supports a finding where it was measured, and is left out otherwise."""
        return () if self.get(alias) is None else (self.cite(alias, meaning),)


class Draft(NamedTuple):
    """A finding before techniques are sought for it."""

    cause: str
    category: Bottleneck
    severity: float
    """In [0, 1]: the part of the time that may be lost to it, as far as the values tell."""
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """One cause that can be recognised."""

    name: str
    subject: str
    """Rules of one subject speak of the same thing: at most one of them is a finding."""
    techniques: tuple[str, ...]
    """Slugs of the taxonomy that answer it, the best first; those without an entry are skipped."""
    check: Callable[[Case], Draft | None]
    needs: tuple[str, ...] = ()
    """Aliases of the metrics that it needs at least; named when too little was measured."""
    open: bool = True
    """Whether the gates may bring in techniques that are not on its list."""
    explains: tuple[str, ...] = ()
    """Rules that find what follows from it, as waiting does from too few warps to switch to."""
    refuted_by: Literal["ceiling", "active ceiling"] | None = None
    """It speaks of waiting or emptiness. A unit at its ceiling over the whole time refutes it; an
    `active ceiling` does so while SMs have work: latency is hidden there, whatever the occupancy.
    """


def clamp(value: float) -> float:
    """A severity within [0, 1], in hundredths: more would pretend precision."""
    return round(min(max(value, 0.0), 1.0), 2)
