"""Check technique gates against measured metrics: which hold, which do not, and their value.

Search, context and diagnosis judge gates here, and only here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict

from kb.corpus.entries import Technique
from kb.profiles.values import quantity
from kb.vocabulary import find_metric


class GateStanding(BaseModel):
    """How one measured value compares with one gate of a technique."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    technique: str
    """Slug of the technique whose gate it is."""
    metric: str
    """Nsight Compute's name."""
    label: str
    unit: str
    value: float
    """What was measured."""
    op: Literal["<", "<=", ">", ">="]
    bound: float
    speaks: Literal["for", "against"]
    """`for`: the value meets a condition to use the technique; `against`: it fails one, or meets a
    condition to avoid it."""
    gate: Literal["use", "avoid"]
    because: str
    """What the gate means where it holds."""

    @property
    def words(self) -> str:
        """`your 92 %: avoid it when L2 hit rate > 85 %. The operands already stay in L2, …`."""
        bound = f"{self.label} {self.op} {quantity(self.bound, self.unit)}"
        mine = f"your {quantity(self.value, self.unit)}"
        if self.gate == "avoid":
            return f"{mine}: avoid it at {bound}. {self.because}"
        if self.speaks == "for":
            return f"{mine}: meets {bound}. {self.because}"
        return f"{mine}: misses {bound}."

    @property
    def brief(self) -> str:
        """`your 30 % meets L2 hit rate < 60 %`, without the reason."""
        bound = f"{self.label} {self.op} {quantity(self.bound, self.unit)}"
        mine = f"your {quantity(self.value, self.unit)}"
        if self.gate == "avoid":
            return f"{mine}: avoid at {bound}"
        return f"{mine}: {'meets' if self.speaks == 'for' else 'does not meet'} {bound}"

    @property
    def reason(self) -> str:
        """`L2 hit rate is 30 % (< 60 %): Tiles are read again`, as it is cited."""
        value, bound = (quantity(number, self.unit) for number in (self.value, self.bound))
        return f"{self.label} is {value} ({self.op} {bound}): {self.because}"


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """How a technique's gates compare with a profile."""

    standings: tuple[GateStanding, ...] = ()
    """Of each gate that a measured value decides: conditions to use it that hold or fail, and
    conditions to avoid it that hold. One that does not hold says nothing."""
    gates: int = 0
    """All `when` gates, measured or not."""

    @property
    def for_it(self) -> tuple[str, ...]:
        """Reasons from `when` gates that hold."""
        return tuple(standing.reason for standing in self.standings if standing.speaks == "for")

    @property
    def against_it(self) -> tuple[str, ...]:
        """Reasons from `avoid_when` gates that hold."""
        return tuple(standing.reason for standing in self.standings if standing.gate == "avoid")

    @property
    def failed(self) -> int:
        """`when` gates on measured metrics that do not hold."""
        return sum(
            standing.gate == "use" and standing.speaks == "against" for standing in self.standings
        )

    @property
    def met_share(self) -> float:
        """The share of all `when` gates that hold."""
        return len(self.for_it) / max(self.gates, 1)

    @property
    def contradicted(self) -> bool:
        """Whether the values contradict the technique as a whole.

        One condition to avoid it is enough. Conditions to use it are symptoms, of which a kernel
        need not show all: they contradict it if some measured ones fail and none holds.
        """
        return bool(self.against_it) or (self.failed > 0 and not self.for_it)

    @property
    def support(self) -> float:
        """In [-1, 1): share of the measured `when` gates that hold, minus 1 for a reason against.

        The share counts one extra gate as failed, so that three of three count more than one of
        one. Otherwise a profile's commonest metric would support every technique equally.
        """
        measured = len(self.for_it) + self.failed
        share = len(self.for_it) / (measured + 1)
        if self.against_it:
            return share - 1.0
        return share if self.for_it else (-0.5 if self.failed else 0.0)


def judge_gates(technique: Technique, profile: Mapping[str, float]) -> GateVerdict:
    """Judge a technique's gates against a profile that uses full metric names."""
    standings: list[GateStanding] = []
    kinds: tuple[Literal["use", "avoid"], ...] = ("use", "avoid")
    for kind, gates in zip(kinds, (technique.when, technique.avoid_when), strict=True):
        for gate in gates:
            value = profile.get(gate.metric)
            if value is None or (kind == "avoid" and not gate.holds(value)):
                continue
            metric = find_metric(gate.metric)
            assert metric is not None  # the entry was validated
            standing = GateStanding(
                technique=technique.slug,
                metric=gate.metric,
                label=metric.label,
                unit=metric.unit,
                value=value,
                op=gate.op,
                bound=gate.value,
                speaks="for" if kind == "use" and gate.holds(value) else "against",
                gate=kind,
                because=gate.because,
            )
            standings.append(standing)
    return GateVerdict(tuple(standings), len(technique.when))
