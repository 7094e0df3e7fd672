"""Hardware units: how busy each is, of all cycles and of those in which an SM has work."""

from typing import NamedTuple

from agent.diagnose.facts import Facts
from agent.diagnose.result import Bottleneck

# Nsight Compute's own reading of its "Speed of Light" section: above 80 % of its peak a unit is the
# bottleneck, and with all units below 60 % latency is (Profiling Guide, "GPU Speed of Light").
SATURATED = 80.0
BUSY = 60.0
# SMs without work for a fifth of the time: as far from full as a unit at `SATURATED`.
_IDLE_SHARE = 80.0
# A launch takes two to four microseconds in which no SM is active; that is no imbalance.
_LAUNCH_NS = 4000.0
# What ncu shows for an empty kernel on data-center cards: launch, ramp and drain.
_EMPTY_KERNEL_NS = 2000.0
# Parts and the whole are measured in different passes, and of different cycles.
_SAME = 5.0


class Unit(NamedTuple):
    """A part of the card with a peak of its own."""

    alias: str
    """Of its utilization in per cent of the peak."""
    words: str
    side: Bottleneck
    of_active: bool = False
    """Per cent of the cycles in which an SM has work; of all cycles otherwise."""
    in_sm: bool = True
    in_pipes: bool = False
    """Its part of all cycles is in the throughput of the SM."""
    sums: int = 0
    """Above 0 it sums up units with less of it, and a busy one of these explains it."""


_FULL = (
    Unit("dram_throughput", "DRAM", Bottleneck.MEMORY, in_sm=False),
    Unit("gpu_dram_throughput", "DRAM", Bottleneck.MEMORY, in_sm=False),
    Unit("l2_throughput", "the L2 cache", Bottleneck.MEMORY, in_sm=False),
    Unit("l1_throughput", "the L1/TEX cache", Bottleneck.MEMORY, of_active=True, sums=1),
    Unit("lsu_pipe", "the load-store pipe", Bottleneck.MEMORY, of_active=True, in_pipes=True),
    Unit("tensor_utilization", "the tensor pipe", Bottleneck.COMPUTE, in_pipes=True),
    Unit("fma_pipe", "the FMA pipe", Bottleneck.COMPUTE, of_active=True, in_pipes=True),
    Unit("alu_pipe", "the ALU pipe", Bottleneck.COMPUTE, of_active=True, in_pipes=True),
    Unit("xu_pipe", "the special-function pipe", Bottleneck.COMPUTE, of_active=True, in_pipes=True),
    Unit("fp64_pipe", "the FP64 pipe", Bottleneck.COMPUTE, of_active=True, in_pipes=True),
    Unit("memory_throughput", "the memory system", Bottleneck.MEMORY, in_sm=False, sums=2),
    Unit("sm_throughput", "the SM", Bottleneck.COMPUTE, sums=2),
)
# Its part of all cycles is in the throughput of the SM, so alone it says more only when full.
_ISSUE = Unit(
    "issue_slots_busy", "the issue slots", Bottleneck.COMPUTE,
    of_active=True, in_pipes=True, sums=1,
)  # fmt: skip


class Load(NamedTuple):
    """How busy a unit is."""

    unit: Unit
    value: float
    """Per cent of its peak."""


def active_share(facts: Facts) -> float:
    """Part of the time in which an SM has work, 0 to 1, as far as known: 1 otherwise."""
    share = facts.get("sm_active_share")
    if share is not None:
        return min(share / 100, 1.0)
    blocks = facts.get("grid_size")
    if blocks is not None and facts.spec is not None:
        return min(blocks / facts.spec.sms, 1.0)
    return 1.0


def idle_sms(facts: Facts) -> bool:
    """Whether SMs were seen without work for long: longer than a launch takes."""
    share, duration = facts.get("sm_active_share"), facts.get("duration")
    if share is None or share >= _IDLE_SHARE:
        return False
    return duration is None or (1 - share / 100) * duration > _LAUNCH_NS


def launch_part(facts: Facts) -> float:
    """Part of the kernel's duration that a kernel without work takes as well, 0 to 1."""
    duration = facts.get("duration")
    return min(_EMPTY_KERNEL_NS / duration, 1.0) if duration else 0.0


def busiest(facts: Facts, side: Bottleneck | None = None) -> Load | None:
    """The unit that is busiest over all cycles, of one side or of both."""
    return _max_load([load for load in _loads(facts, _FULL) if side in (None, load.unit.side)])


def ceiling(facts: Facts) -> Load | None:
    """The unit at its ceiling over the whole time, if there is one."""
    return _saturated_load(_loads(facts, (*_FULL, _ISSUE)))


def ceiling_of_active(facts: Facts) -> Load | None:
    """The unit at its ceiling while SMs have work: latency is hidden then."""
    return _saturated_load(_loads(facts, (*_FULL, _ISSUE), of_active=True))


def _loads(facts: Facts, units: tuple[Unit, ...], *, of_active: bool = False) -> list[Load]:
    share, sm = active_share(facts), facts.get("sm_throughput")
    loads = []
    for unit in units:
        value = facts.get(unit.alias)
        if value is None:
            continue
        if of_active and unit.in_sm and not unit.of_active and share:
            value = min(value / share, 100.0)
        elif unit.of_active and not of_active:
            value *= share
        if sm is not None and unit.in_pipes and not of_active:
            value = min(value, sm + _SAME)  # the SM is as busy as the busiest of its pipes
        loads.append(Load(unit, value))
    return [load for load in loads if not _is_explained(load, loads)]


def _is_explained(load: Load, loads: list[Load]) -> bool:
    """Whether a part of a whole is about as busy, and names the cause more closely."""
    whole = load.unit
    return any(
        part.sums < whole.sums
        and (part.side == whole.side if whole.side is Bottleneck.MEMORY else part.in_sm)
        and value >= max(BUSY, load.value - _SAME)
        for part, value in loads
    )


def _max_load(loads: list[Load]) -> Load | None:
    return max(loads, key=lambda load: load.value, default=None)


def _saturated_load(loads: list[Load]) -> Load | None:
    top = _max_load(loads)
    return top if top is not None and top.value >= SATURATED else None
