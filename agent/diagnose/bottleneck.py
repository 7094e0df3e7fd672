"""The dominant bottleneck: which of memory, compute, latency and emptiness sets the time."""

from dataclasses import dataclass

from agent.diagnose.facts import Facts, fact, percent
from agent.diagnose.result import Bottleneck, Evidence, Roofline
from agent.diagnose.roofline import at_floor, dram_full, floor_evidence
from agent.diagnose.units import BUSY, Load, Unit, busiest, ceiling, idle_sms

# Fewer blocks than fit on the card at once: some SMs or slots stay empty all the time.
FULL_WAVE = 1.0
# A quarter of the warp slots in use, or two of three lanes: too little runs, whatever stalls it.
_FEW_WARPS = 25.0
_FEW_LANES = 22.0
# With this many stalled on one cause, waiting is what the kernel does.
_STALLED = 30.0
_LEAD = 20.0
# A scheduler that issues less often than this waits most of the time.
_SELDOM_ISSUES = 40.0
# Below saturation a unit that was not measured may be the busiest: these stand for all of a side.
_MEMORY = ("dram_throughput", "gpu_dram_throughput", "memory_throughput")
_COMPUTE = ("sm_throughput", "tensor_utilization")


@dataclass(frozen=True, slots=True)
class Decision:
    """The dominant bottleneck and the values that decided it."""

    bottleneck: Bottleneck | None
    why: tuple[Evidence, ...] = ()
    unit: Unit | None = None
    """What is at its ceiling, where something is."""
    settled: bool = False
    """The first value of `why` explains the time by itself: a full unit, or SMs without work."""


def decide(facts: Facts, position: Roofline) -> Decision:
    """Decide the bottleneck; None where the values do not tell.

    The order matters: a saturated unit explains the time whatever else is odd; SMs without work
    explain low rates of all units, and an underfilled card does before stalls, since fewer warps
    stall the same way.
    """
    if position.at_memory_roof:
        return _at_roof(facts, position)
    saturated = ceiling(facts)
    if saturated is not None:
        evidence = facts.evidence(saturated.unit.alias, "a unit at its ceiling sets the time")
        return Decision(saturated.unit.side, (evidence,), saturated.unit, settled=True)
    memory, compute = busiest(facts, Bottleneck.MEMORY), busiest(facts, Bottleneck.COMPUTE)
    idle_units = _idle_units(facts, memory, compute)
    waves = facts.get("waves_per_sm")
    underfilled = waves is not None and waves < FULL_WAVE
    waves_low: tuple[Evidence, ...] = ()
    if underfilled:
        waves_low = (facts.evidence("waves_per_sm", "the grid does not fill the GPU even once"),)
    if idle_sms(facts):
        evidence = facts.evidence("sm_active_share", "of the time an SM has work: the rest is lost")
        return Decision(Bottleneck.UNDERUTILIZED, (evidence, *waves_low, *idle_units), settled=True)
    if not (_any_measured(facts, _MEMORY) and _any_measured(facts, _COMPUTE)):
        return Decision(None, idle_units)  # the unit that was not measured may be the busy one
    rates = [load.value if load is not None else 0.0 for load in (memory, compute)]
    # An underfilled card does not get one unit to 60 % and clearly above the other.
    leads = max(rates) >= BUSY and abs(rates[0] - rates[1]) >= _LEAD
    if underfilled and not leads:
        return Decision(Bottleneck.UNDERUTILIZED, (*waves_low, *idle_units))
    return _busier(facts, memory, compute) if max(rates) >= BUSY else _both_idle(facts, idle_units)


def _any_measured(facts: Facts, aliases: tuple[str, ...]) -> bool:
    return any(facts.get(alias) is not None for alias in aliases)


def _at_roof(facts: Facts, position: Roofline) -> Decision:
    meaning = "about what a plain copy reaches"
    if at_floor(facts):
        meaning = "the time is close to the least in which the bytes can move"
        evidence = floor_evidence(position, meaning)
    elif dram_full(facts):
        evidence = facts.evidence("dram_throughput", meaning)
    else:
        assert position.memory_fraction is not None
        share, label = percent(position.memory_fraction), "DRAM bandwidth of the roof"
        evidence = fact("roofline.memory_fraction", label, share, "%", meaning)
    return Decision(Bottleneck.MEMORY, (evidence,))


def _busier(facts: Facts, memory: Load | None, compute: Load | None) -> Decision:
    if memory is not None and (compute is None or memory.value >= compute.value):
        meaning = "the memory system is the busiest unit"
        return Decision(Bottleneck.MEMORY, (facts.evidence(memory.unit.alias, meaning),))
    assert compute is not None
    meaning = "the compute pipes are the busiest unit"
    return Decision(Bottleneck.COMPUTE, (facts.evidence(compute.unit.alias, meaning),))


def _idle_units(facts: Facts, memory: Load | None, compute: Load | None) -> tuple[Evidence, ...]:
    return tuple(
        facts.evidence(load.unit.alias, "far from the limit")
        for load in (memory, compute)
        if load is not None and load.value < BUSY
    )


def _both_idle(facts: Facts, idle_units: tuple[Evidence, ...]) -> Decision:
    """Both units below 60 %: waiting, or too little to run."""
    lanes, warps = facts.get("threads_per_inst"), facts.get("achieved_occupancy")
    stall, issue = facts.get("stall_long_scoreboard"), facts.get("issue_slots_busy")
    bottleneck = Bottleneck.LATENCY
    if lanes is not None and lanes < _FEW_LANES:
        bottleneck = Bottleneck.UNDERUTILIZED
        evidence = facts.evidence("threads_per_inst", "of 32 lanes; the others are idle")
    elif stall is not None and stall >= _STALLED:
        evidence = facts.evidence("stall_long_scoreboard", "warps wait for loads")
    elif warps is not None and warps < _FEW_WARPS:
        bottleneck = Bottleneck.UNDERUTILIZED
        evidence = facts.evidence("achieved_occupancy", "few warps are resident at any time")
    elif issue is not None and issue < _SELDOM_ISSUES:
        evidence = facts.evidence("issue_slots_busy", "schedulers seldom have a ready warp")
    else:
        # All units quiet means waiting by itself; which wait, the stalls would tell.
        return Decision(bottleneck, idle_units)
    return Decision(bottleneck, (evidence, *idle_units))
