"""One case: its parts before the candidate is called, and its outcome."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from judge.evaluate.result import Case, Counterexample
from judge.evaluate.rules import Checked, Reference
from judge.evaluate.tolerance import Bounds
from judge.worker import messages as m


@dataclass(slots=True)
class Prepared:
    """The inputs of one case, and the expected outputs."""

    kind: m.ValueKind
    why_not: str | None = None
    """Why the case does not count."""
    eager_error: str | None = None
    """How far eager is off, where the case counts all the same."""
    error_type: str | None = None
    """The type of the error that the problem's code raised, if that is why."""
    inputs: list[m.InputSpec] = field(default_factory=list)
    pristine: list[Any] = field(default_factory=list)
    """The input tensors in the judge's own memory; None where an input is no tensor."""
    outputs: Sequence[m.TensorSpec] = ()
    """What eager returned."""
    overlaps: bool = False
    """Eager itself returns outputs whose elements share memory."""
    reference: Reference | None = None
    eager: Checked | None = None
    limits: list[Bounds | None] = field(default_factory=list)
    """Bounds for the candidate."""
    exact: frozenset[int] = frozenset()
    """Outputs where nothing has to be rounded and eager equals the oracle."""


@dataclass(slots=True)
class Outcome:
    """One case, and evidence for the verdict."""

    case: Case
    cheats: list[str] = field(default_factory=list)
    """Evidence of cheating that this case gave."""
    inexact: dict[int, tuple[str, tuple[Counterexample, ...]]] = field(default_factory=dict)
    """Outputs that differ although nothing has to be rounded: counts if that is required."""
    exact: frozenset[int] | None = None
    """Outputs where eager equals the oracle in this case; None if it does not count."""
    out_of_bounds: bool = False
    """Its values are right, and it read or wrote beside a tensor."""
    host_ops: str | None = None
    """It is right only where the host sees the inputs' values: what of it computes, if known."""

    def note(self, **changes: Any) -> None:
        """Change fields of the case."""
        self.case = self.case.model_copy(update=changes)
