"""The dominant bottleneck: which of memory, compute, latency and emptiness sets the time."""

from dataclasses import dataclass

from agent.diagnose.facts import Facts, fact, percent
from agent.diagnose.result import Bottleneck, Evidence, Roofline
from agent.diagnose.roofline import at_floor, dram_full, floor_evidence

# Nsight Compute's own reading of its "Speed of Light" section: above 80 % of its peak a unit is the
# bottleneck, and with all units below 60 % latency is (Profiling Guide, "GPU Speed of Light").
SATURATED = 80.0
BUSY = 60.0
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
_MEMORY = ("dram_throughput", "gpu_dram_throughput", "memory_throughput")
_COMPUTE = ("sm_throughput", "tensor_utilization")


@dataclass(frozen=True, slots=True)
class Decision:
    """The dominant bottleneck and the values that decided it."""

    bottleneck: Bottleneck | None
    why: tuple[Evidence, ...] = ()


def _busiest(facts: Facts, aliases: tuple[str, ...]) -> tuple[str, float] | None:
    """Alias and percentage of the busiest part."""
    known = [(alias, value) for alias in aliases if (value := facts.get(alias)) is not None]
    return max(known, key=lambda pair: pair[1], default=None)


def decide(facts: Facts, position: Roofline) -> Decision:
    """Decide the bottleneck; None where the values do not tell.

    The order matters: a saturated unit explains the time whatever else is odd; an underfilled card
    explains low rates before stalls do, since fewer warps stall the same way.
    """
    if position.at_memory_roof:
        return _at_roof(facts, position)
    memory, compute = _busiest(facts, _MEMORY), _busiest(facts, _COMPUTE)
    highest = max(share[1] for share in (memory, compute, ("", 0.0)) if share is not None)
    if highest >= SATURATED:
        return _busier(facts, memory, compute)
    quiet = _quiet(facts, memory, compute)
    if memory is None or compute is None:
        return Decision(None, quiet)  # the unit that was not measured may be the busy one
    # An underfilled card does not get one unit to 60 % and clearly above the other.
    leads = highest >= BUSY and abs(memory[1] - compute[1]) >= _LEAD
    waves = facts.get("waves_per_sm")
    if waves is not None and waves < FULL_WAVE and not leads:
        said = facts.evidence("waves_per_sm", "below 1: the grid does not fill the card even once")
        return Decision(Bottleneck.UNDERUTILIZED, (said, *quiet))
    return _busier(facts, memory, compute) if highest >= BUSY else _idle(facts, quiet)


def _at_roof(facts: Facts, position: Roofline) -> Decision:
    meaning = "about what a plain copy reaches"
    if at_floor(facts):
        meaning = "the time is about the least in which the bytes can move"
        said = floor_evidence(position, meaning)
    elif dram_full(facts):
        said = facts.evidence("dram_throughput", meaning)
    else:
        assert position.memory_fraction is not None
        share, label = percent(position.memory_fraction), "DRAM bandwidth of the roof"
        said = fact("roofline.memory_fraction", label, share, "%", meaning)
    return Decision(Bottleneck.MEMORY, (said,))


def _busier(
    facts: Facts, memory: tuple[str, float] | None, compute: tuple[str, float] | None
) -> Decision:
    if memory is not None and (compute is None or memory[1] >= compute[1]):
        meaning = "the memory system is the busiest unit"
        return Decision(Bottleneck.MEMORY, (facts.evidence(memory[0], meaning),))
    assert compute is not None
    meaning = "the compute pipes are the busiest unit"
    return Decision(Bottleneck.COMPUTE, (facts.evidence(compute[0], meaning),))


def _quiet(
    facts: Facts, memory: tuple[str, float] | None, compute: tuple[str, float] | None
) -> tuple[Evidence, ...]:
    return tuple(
        facts.evidence(share[0], "far from the limit")
        for share in (memory, compute)
        if share is not None and share[1] < BUSY
    )


def _idle(facts: Facts, quiet: tuple[Evidence, ...]) -> Decision:
    """Both units below 60 %: waiting, or too little to run."""
    lanes, warps = facts.get("threads_per_inst"), facts.get("achieved_occupancy")
    stall, issue = facts.get("stall_long_scoreboard"), facts.get("issue_slots_busy")
    bottleneck = Bottleneck.LATENCY
    if lanes is not None and lanes < _FEW_LANES:
        bottleneck = Bottleneck.UNDERUTILIZED
        said = facts.evidence("threads_per_inst", "of 32 lanes: the others do nothing")
    elif stall is not None and stall >= _STALLED:
        said = facts.evidence("stall_long_scoreboard", "warps wait for loads")
    elif warps is not None and warps < _FEW_WARPS:
        bottleneck = Bottleneck.UNDERUTILIZED
        said = facts.evidence("achieved_occupancy", "few warps are resident at any time")
    elif issue is not None and issue < _SELDOM_ISSUES:
        said = facts.evidence("issue_slots_busy", "schedulers seldom have a warp that can go on")
    else:
        # All units quiet means waiting by itself; which wait, the stalls would tell.
        return Decision(bottleneck, quiet)
    return Decision(bottleneck, (said, *quiet))
