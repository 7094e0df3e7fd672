"""Rules about emptiness on the SM: limited occupancy, idle lanes, imbalance."""

import math

from agent.diagnose.facts import fact
from agent.diagnose.result import Bottleneck, Evidence
from agent.diagnose.rules import Case, Draft, Rule, clamp
from kb.profiles.derived import FEW_LANES

_LOW_THEORETICAL = 50.0
_TINY_BLOCK = 64.0
_LANES = 32.0
_UNIFORM = 85.0
# What runs over what could be resident; below, blocks end at different times or start late.
_ACHIEVED_SHARE = 0.7
# Of every data-center GPU since sm_70 (CUDA C++ Programming Guide, "Compute Capabilities").
_WARP, _WARP_SLOTS, _REGISTERS_PER_SM = 32, 64, 65536
_LIMITS = {
    "registers": "launch__occupancy_limit_registers",
    "shared memory": "launch__occupancy_limit_shared_mem",
    "block slots": "launch__occupancy_limit_blocks",
    "warp slots": "launch__occupancy_limit_warps",
}
OCCUPANCY_LIMITS = tuple(_LIMITS.values())


def limiters(case: Case) -> tuple[str, ...]:
    """What admits the fewest blocks to an SM, all that tie; empty unless limits were measured."""
    limits = {resource: case.get(alias) for resource, alias in _LIMITS.items()}
    counts = {resource: value for resource, value in limits.items() if value is not None}
    # Without these two, the least of the others may not be the least.
    if not {"registers", "shared memory"} <= set(counts):
        return ()
    return tuple(resource for resource, value in counts.items() if value == min(counts.values()))


def _limiting_resources(case: Case) -> tuple[str, ...]:
    """The resources of a block that limit occupancy.

    Empty where slots do: a kernel without shared memory is shown with as many blocks from shared
    memory as there are slots for blocks.
    """
    limits = limiters(case)
    return () if {"block slots", "warp slots"} & set(limits) else limits


def _limit_reached(case: Case, theoretical: float) -> bool:
    """Whether the limit of occupancy is what holds it down, as far as known: the grid may."""
    achieved = case.get("achieved_occupancy")
    return achieved is None or achieved >= _ACHIEVED_SHARE * theoretical


def _by_registers(case: Case) -> Draft | None:
    """Occupancy that the registers of a thread explain, where no limits were measured."""
    registers, achieved = case.get("registers_per_thread"), case.get("achieved_occupancy")
    if not registers or achieved is None:
        return None
    if case.get("theoretical_occupancy") is not None and limiters(case):
        return None  # `limited-occupancy` knows more
    spec = case.facts.spec
    slots = spec.threads_per_sm // _WARP if spec is not None else _WARP_SLOTS
    register_file = spec.registers_per_sm if spec is not None else _REGISTERS_PER_SM
    # Registers are given to a warp in units of 8 a thread.
    warps = min(slots, register_file // (max(math.ceil(registers / 8), 1) * 8 * _WARP))
    most = 100 * warps / slots
    if most >= _LOW_THEORETICAL or not 0.7 * most <= achieved <= 1.1 * most:
        return None
    evidence = (
        case.cite("registers_per_thread", f"leave room for {warps} of {slots} warps on an SM"),
        case.cite("achieved_occupancy", f"actually resident, of {most:.3g} % at most"),
    )
    cause = "Occupancy is limited by registers: few warps can be resident to hide latency."
    return Draft(cause, Bottleneck.UNDERUTILIZED, clamp(0.6 * (1 - most / 100)), evidence)


def _limited_occupancy(case: Case) -> Draft | None:
    theoretical, limits = case.get("theoretical_occupancy"), _limiting_resources(case)
    if theoretical is None or theoretical >= _LOW_THEORETICAL or not limits:
        return None
    if not _limit_reached(case, theoretical):
        return None
    tensor = case.get("tensor_utilization")
    if tensor is not None and tensor >= 60.0:
        return None  # large tiles reach the tensor peak with one block per SM, by design
    resources = " and ".join(limits)
    evidence = [case.cite("theoretical_occupancy", f"{resources} keep the other warp slots empty")]
    for limiter in limits:
        meaning = f"blocks per SM that {limiter} allow: the lowest of all limits"
        evidence.append(case.cite(_LIMITS[limiter], meaning))
        detail = "registers_per_thread" if limiter == "registers" else "shared_mem_per_block"
        evidence += case.also(detail, "what one takes")
    evidence += case.also("achieved_occupancy", "actually resident")
    cause = f"Occupancy is limited by {resources}: few warps can be resident to hide latency."
    severity = 0.6 * (1 - theoretical / 100)
    return Draft(cause, Bottleneck.UNDERUTILIZED, clamp(severity), tuple(evidence))


def _tiny_blocks(case: Case) -> Draft | None:
    threads, theoretical = case.get("block_size"), case.get("theoretical_occupancy")
    if threads is None or threads > _TINY_BLOCK:
        return None
    spec = case.facts.spec
    if theoretical is None:
        if spec is None:
            return None
        theoretical = 100 * min(1.0, spec.blocks_per_sm * threads / spec.threads_per_sm)
    if theoretical >= 100.0 or _limiting_resources(case) or not _limit_reached(case, theoretical):
        return None
    evidence = (
        case.cite("block_size", "threads: block slots run out before warp slots do"),
        *case.also("theoretical_occupancy", "the most that such blocks can fill"),
        *case.also(_LIMITS["block slots"], "blocks per SM at most"),
    )
    cause = f"Blocks of {threads:.0f} threads are too small: the slots for blocks run out first."
    severity = 0.7 * (1 - theoretical / 100)
    return Draft(cause, Bottleneck.UNDERUTILIZED, clamp(severity), evidence)


def _idle_lanes(case: Case) -> Draft | None:
    """Loops with a bound below the block, guards, tiles smaller than it, inactive lanes."""
    evidence: list[Evidence] = []
    lost = 0.0
    for idle in case.facts.source.idle if case.facts.source is not None else ():
        threads = case.facts.threads_per_block or idle.threads
        if threads is None or idle.busy >= threads:
            continue
        meaning = f"of {threads} threads have an item in '{idle.where}'"
        metric = "source.busy_threads"
        evidence.append(fact(metric, "Threads with work", float(idle.busy), "threads", meaning))
        lost = max(lost, 1 - idle.busy / threads)
    lanes, uniform = case.get("threads_per_inst"), case.get("branch_uniformity")
    if lanes is not None and lanes < FEW_LANES and (uniform is None or uniform >= _UNIFORM):
        reason = ", not for divergence" if uniform is not None else ": others diverge or idle"
        meaning = f"of 32 lanes are active in an instruction{reason}"
        evidence.append(case.cite("threads_per_inst", meaning))
        evidence += case.also("branch_uniformity", "branches go one way")
        lost = max(lost, 1 - lanes / _LANES)
    if not evidence:
        return None
    evidence += case.also("block_size", "threads launched per block")
    weight = 0.4 if case.position.at_memory_roof else 1.0
    cause = "Threads of the block have no work: loops or tiles are shorter than the block is wide."
    return Draft(cause, Bottleneck.UNDERUTILIZED, clamp(lost * weight), tuple(evidence))


def _imbalance(case: Case) -> Draft | None:
    achieved, theoretical = case.get("achieved_occupancy"), case.get("theoretical_occupancy")
    waves = case.get("waves_per_sm")
    if achieved is None or not theoretical or waves is None or waves < 1.0:
        return None
    share = achieved / theoretical
    if share >= _ACHIEVED_SHARE:
        return None
    evidence = (
        case.cite("achieved_occupancy", "resident on average"),
        case.cite("theoretical_occupancy", "could be resident"),
        *case.also("sm_active_share", "of the time an SM has anything to run"),
    )
    cause = "Fewer warps run than fit: blocks end at different times, or are too short to overlap."
    return Draft(cause, Bottleneck.UNDERUTILIZED, clamp(0.6 * (1 - share)), evidence)


RULES = (
    Rule(
        "limited-occupancy", "occupancy",
        ("occupancy-tuning", "register-pressure", "autotuning"),
        _limited_occupancy, ("theoretical_occupancy", *_LIMITS.values()),
        explains=("load-latency",), refuted_by="active ceiling",
    ),
    Rule(
        "registers-of-a-thread", "occupancy",
        ("register-pressure", "autotuning", "occupancy-tuning"),
        _by_registers, ("registers_per_thread", "achieved_occupancy"),
        explains=("load-latency",), refuted_by="active ceiling",
    ),
    Rule(
        "tiny-blocks", "occupancy",
        ("thread-coarsening", "occupancy-tuning", "autotuning", "vectorized-access"),
        _tiny_blocks, ("block_size",),
        explains=("load-latency",), refuted_by="active ceiling",
    ),
    Rule(
        "idle-threads", "lanes",
        ("thread-utilization", "thread-coarsening", "warp-shuffle-reduction", "occupancy-tuning",
         "autotuning"),
        _idle_lanes, ("threads_per_inst",),
    ),
    Rule(
        "imbalance", "balance", ("load-balancing", "persistent-kernel", "autotuning", "stream-k"),
        _imbalance, ("achieved_occupancy", "theoretical_occupancy"), refuted_by="active ceiling",
    ),
)  # fmt: skip
