"""Technique gates against measured metrics: which hold, and what that is worth."""

from collections.abc import Mapping
from dataclasses import dataclass

from kb.corpus.entries import Gate, Technique
from kb.vocabulary import find_metric


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """How a technique's gates stand against a profile."""

    for_it: tuple[str, ...]
    """Reasons from `when` gates that hold."""
    against_it: tuple[str, ...]
    """Reasons from `avoid_when` gates that hold."""
    failed: int
    """`when` gates on measured metrics that do not hold."""
    gates: int = 0
    """All `when` gates, measured or not."""

    @property
    def held(self) -> float:
        """The share of all `when` gates that hold."""
        return len(self.for_it) / max(self.gates, 1)

    @property
    def support(self) -> float:
        """In [-1, 1): share of the measured `when` gates that hold, less 1 for a reason against.

        As if one more gate had been measured and did not hold: three of three say more than one of
        one, or a profile's commonest metric would speak for every technique alike.
        """
        measured = len(self.for_it) + self.failed
        share = len(self.for_it) / (measured + 1)
        if self.against_it:
            return share - 1.0
        return share if self.for_it else (-0.5 if self.failed else 0.0)


def _reason(gate: Gate, value: float) -> str:
    metric = find_metric(gate.metric)
    label = metric.label if metric else gate.metric
    unit = " %" if metric and metric.unit == "%" else ""
    return f"{label} is {value:g}{unit} ({gate.op} {gate.value:g}): {gate.because}"


def judge_gates(technique: Technique, profile: Mapping[str, float]) -> GateVerdict:
    """Judge a technique's gates against a profile under full metric names."""

    def holding(gates: tuple[Gate, ...]) -> tuple[str, ...]:
        return tuple(
            _reason(gate, profile[gate.metric])
            for gate in gates
            if gate.metric in profile and gate.holds(profile[gate.metric])
        )

    for_it = holding(technique.when)
    measured = sum(gate.metric in profile for gate in technique.when)
    against_it = holding(technique.avoid_when)
    return GateVerdict(for_it, against_it, measured - len(for_it), len(technique.when))
