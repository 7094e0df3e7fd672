"""Rules about the way to memory: L2, L1/TEX or the load-store pipe at a ceiling, and atomics."""

from agent.diagnose.result import Bottleneck, Evidence
from agent.diagnose.rules import Case, Draft, Rule, clamp
from agent.diagnose.rules_memory import bank_conflicts, conflict_share, uncoalesced
from agent.diagnose.rules_spills import spills
from agent.diagnose.units import SATURATED, active_share, ceiling_of_active

# Spills that take one instruction in fifteen, or a third of the traffic; conflicts that take a
# quarter of the cycles: without them the unit is no longer full.
_GRAVE, _GRAVE_CONFLICTS = 0.4, 0.25
# The queue of the load-store unit holds up one warp in five.
_QUEUED = 20.0
# Without a count of atomics, only a stall that is nearly all there is points to them.
_MOSTLY_QUEUED = 50.0
# Of the global requests that were counted; fewer atomics are the end of a reduction.
_MANY_ATOMICS = 0.1
# One address takes about one a cycle: fewer end within tens of microseconds, all on one address.
_ATOMIC_REQUESTS = 100_000
# No unit is near a limit: what waits does so for one address after the other.
_DRAM_IDLE, _ISSUE_IDLE = 60.0, 40.0


def _spills_much(case: Case) -> bool:
    draft = spills(case)
    return draft is not None and draft.severity >= _GRAVE


def _avoidable(case: Case) -> bool:
    """Whether another rule says which of the accesses need not be."""
    return uncoalesced(case) is not None or _spills_much(case)


def _conflicts_much(case: Case) -> bool:
    share = conflict_share(case)
    return bank_conflicts(case) is not None and share is not None and share >= _GRAVE_CONFLICTS


def _l2(case: Case) -> Draft | None:
    busy = case.get("l2_throughput")
    if busy is None or busy < SATURATED or case.position.at_memory_roof or _avoidable(case):
        return None
    if _atomics(case) is not None:
        return None
    evidence = (
        case.cite("l2_throughput", "near the peak of the L2 cache"),
        *case.also("l2_hit_rate", "served by L2 itself"),
        *case.also("l1_hit_rate", "caught before L2"),
        *case.also("dram_throughput", "DRAM has headroom: the data is in L2"),
    )
    cause = (
        "The L2 cache is at its ceiling: only reading fewer bytes from it is faster, by reuse in "
        "shared memory or registers, or by narrower types."
    )
    return Draft(cause, Bottleneck.MEMORY, clamp(busy / 100), evidence)


def _l1(case: Case) -> Draft | None:
    busy = case.get("l1_throughput")
    if busy is None or busy < SATURATED or case.position.at_memory_roof or _avoidable(case):
        return None
    if _conflicts_much(case):
        return None
    if _load_store_pipe(case) is not None:
        return None  # the number of instructions is what fills it
    evidence = (
        case.cite("l1_throughput", "near the peak of L1, texture and shared memory together"),
        *case.also("lsu_pipe", "instructions that go there"),
        *case.also("l1_hit_rate", "of the requested sectors"),
        *case.also("stall_mio_throttle", "warps queue for shared memory"),
        *case.also("stall_lg_throttle", "warps queue to issue loads and stores"),
    )
    cause = (
        "L1/TEX and shared memory are at their ceiling: make fewer and wider accesses, by "
        "reuse in registers and 128-bit loads and stores."
    )
    if case.get("shared_bank_conflicts") is None:
        cause += " Bank conflicts may contribute; they were not measured."
    severity = clamp(busy / 100 * active_share(case.facts))
    return Draft(cause, Bottleneck.MEMORY, severity, evidence)


def _load_store_pipe(case: Case) -> Draft | None:
    busy = case.get("lsu_pipe")
    if busy is None or busy < SATURATED or case.position.at_memory_roof:
        return None
    if _spills_much(case):
        return None
    evidence = (
        case.cite("lsu_pipe", "load and store instructions fill their pipe"),
        *case.also("sectors_per_load_request", "a warp of 128-bit loads takes 16"),
        *case.also("stall_lg_throttle", "warps queue to issue loads and stores"),
        *case.also("stall_mio_throttle", "warps queue for shared memory"),
        *case.also("dram_throughput", "while DRAM has headroom"),
    )
    cause = (
        "The load-store pipe is full: the number of load and store instructions sets the time; "
        "wider accesses need fewer."
    )
    severity = clamp(busy / 100 * active_share(case.facts))
    return Draft(cause, Bottleneck.MEMORY, severity, evidence)


def _memory_ceiling(case: Case) -> Draft | None:
    unit = case.decision.unit
    if unit is None or unit.alias != "memory_throughput" or _avoidable(case):
        return None
    if _conflicts_much(case):
        return None
    evidence = (
        case.cite("memory_throughput", "the busiest of its levels; which one was not measured"),
        *case.also("dram_throughput", "of DRAM's bandwidth"),
        *case.also("l2_throughput", "of what L2 can do"),
    )
    cause = "A level of the memory system is at its ceiling: fewer or wider accesses are faster."
    value = case.get("memory_throughput") or 0.0
    return Draft(cause, Bottleneck.MEMORY, clamp(value / 100), evidence)


def _atomics(case: Case) -> Draft | None:
    """Global atomics and reductions that wait for each other at the same addresses."""
    dram, issue = case.get("dram_throughput"), case.get("issue_slots_busy")
    if dram is None or dram >= _DRAM_IDLE or issue is None or issue >= _ISSUE_IDLE:
        return None
    stall = case.get("stall_lg_throttle")
    counts = [case.get(f"global_{kind}_requests") for kind in ("red", "atom")]
    atomics = sum(value for value in counts if value is not None)
    if all(value is None for value in counts):
        contended = _only_queue_stalls(case, stall)
    else:
        plain = (case.get(f"global_{kind}_requests") or 0.0 for kind in ("load", "store"))
        many = atomics > 0 and atomics >= _MANY_ATOMICS * (atomics + sum(plain))
        contended = many and atomics >= _ATOMIC_REQUESTS and (stall is None or stall >= _QUEUED)
    if not contended:
        return None
    evidence = (
        *(item for kind in ("red", "atom") for item in _atomic_requests(case, kind)),
        *case.also("stall_lg_throttle", "warps queue to issue global accesses"),
        *case.also("l2_throughput", "of L2's peak: it executes atomics one after another"),
        case.cite("issue_slots_busy", "schedulers seldom have a ready warp"),
        case.cite("dram_throughput", "DRAM waits as well"),
    )
    cause = (
        "Global atomics or reductions wait for each other at the same addresses: sum in "
        "registers, warps or shared memory first."
        if atomics
        else "Warps queue to issue global accesses while no unit is busy; atomics or reductions on "
        "few addresses cause this."
    )
    severity = 0.6 if stall is None else max(stall / 100, 0.5 if atomics else 0.0)
    return Draft(cause, Bottleneck.LATENCY, clamp(severity), evidence)


def _only_queue_stalls(case: Case, stall: float | None) -> bool:
    """Whether the queue is the stall, and neither a full unit nor scattered accesses fill it."""
    if stall is None or stall < _MOSTLY_QUEUED:
        return False
    return ceiling_of_active(case.facts) is None and not _avoidable(case)


def _atomic_requests(case: Case, kind: str) -> tuple[Evidence, ...]:
    alias = f"global_{kind}_requests"
    return case.also(alias, "warp instructions that L2 executes") if case.get(alias) else ()


RULES = (
    Rule(
        "l2-ceiling", "l2",
        ("shared-memory-tiling", "register-caching", "low-precision-storage", "tma-multicast",
         "thread-coarsening"),
        _l2, ("l2_throughput",),
    ),
    Rule(
        "l1-ceiling", "l1",
        ("register-caching", "vectorized-access", "bank-conflict-avoidance",
         "warp-shuffle-reduction"),
        _l1, ("l1_throughput",),
    ),
    Rule(
        "load-store-pipe", "l1",
        ("vectorized-access", "register-caching", "tma-host-descriptor", "warp-shuffle-reduction"),
        _load_store_pipe, ("lsu_pipe",),
    ),
    Rule(
        "memory-ceiling", "l2",
        ("vectorized-access", "shared-memory-tiling", "register-caching"),
        _memory_ceiling, ("memory_throughput",), open=False,
    ),
    Rule(
        "contended-atomics", "atomics", ("atomics-privatization",),
        _atomics, ("global_red_requests", "stall_lg_throttle"), open=False,
    ),
)  # fmt: skip
