"""Rules about bytes: the roof, traffic that is repeated or wasted, and how it is asked for."""

from agent.diagnose.facts import fact, percent
from agent.diagnose.result import Bottleneck, Evidence
from agent.diagnose.roofline import WASTE, dram_full, excess, floor_evidence
from agent.diagnose.rules import Case, Draft, Rule, clamp
from agent.diagnose.rules_spills import spill_share, spills, spills_explain_traffic

# Matrix tiles that other blocks want again should mostly be found in L2.
_LOW_L2_HITS = 60.0
_DRAM_BUSY = 60.0
# A stride of 2 gives 50 %. 16 sectors is a warp of 128-bit loads, 32 is one sector for every lane.
_WASTED_SECTORS = 60.0
_MANY_SECTORS = 17.0
# Of all global sectors, what loads or stores must make up for their pattern to matter: a reduction
# stores a few scattered results.
_MATTERING_SHARE = 0.05
# No memory level is busy: wasted sectors are not what holds it up.
_MEMORY_IDLE = 25.0
# A coalesced warp asks for 4 sectors with 32-bit loads, for 2 with 16-bit loads.
_FEW_SECTORS = 4.5
_NARROW_BITS = 32
_WIDE_BITS = 128
_TENSOR_IN_USE = 5.0
# Hit rates are of sectors and bytes of DRAM bursts; a stream's agree with them to a few per cent.
_MIX_TOLERANCE = 5.0
# As many reads that hit L2 are no neighbours by chance: blocks share them, and L2 catches a part.
_SHARED_READS = 0.25
# Streams have no second use of a line; hits are reads of what was read before.
_L1_REREAD = 40.0
# All blocks of a matrix-vector product share the vector: half of its reads hit L2.
_L2_REREAD = 60.0
# Cycles that conflicts add to shared accesses, and stalls on them, that are worth a look.
_CONFLICT_SHARE = 0.10
_CONFLICTS_PER_INST = 0.05
_SHARED_STALL = 10.0
# At the roof, with this much idle in the SMs: work fused into the kernel is free.
_ROOM = 60.0


# Findings that a kernel moves bytes that it need not: at the roof, something is left after all.
WASTEFUL = frozenset({"uncoalesced-access", "tile-rereads", "register-spills"})


def _memory_roof(case: Case) -> Draft | None:
    position = case.position
    if not position.at_memory_roof:
        return None
    evidence: list[Evidence] = []
    if dram_full(case.facts):
        evidence += case.also("dram_throughput", "a plain copy reaches little more")
    if position.memory_fraction is not None and position.memory_roof is not None:
        is_measured = position.memory_roof.source == "measured"
        roof = "the bandwidth measured on this GPU" if is_measured else "the data sheet's bandwidth"
        label = f"Attained of the {position.memory_roof.name} roof"
        value = percent(position.memory_fraction)
        evidence.append(fact("roofline.memory_fraction", label, value, "%", f"of {roof}"))
    ratio = excess(position)
    if ratio is not None and ratio >= WASTE:
        return None  # fast, but with bytes to save: `repeated-traffic` says so
    if uncoalesced(case) is not None or _spilled_bytes(case):
        return None  # the roof is reached with bytes that need not move: those rules say which
    if position.floor_fraction is not None:
        meaning = "of the least time in which the bytes can move; 100 % leaves nothing"
        evidence.append(floor_evidence(position, meaning))
    if not evidence:
        return None
    cause = (
        "The kernel is at the memory roof: little is left to gain, except by moving fewer bytes "
        "(fusion with a neighbour, a narrower type)."
    )
    # Where operands may be shared, that comes first: it saves bytes, and is quickly tried.
    severity = 1.0 if _tile_rereads(case) is None and _possible_rereads(case) is None else 0.3
    return Draft(cause, Bottleneck.MEMORY, severity, tuple(evidence))


def _room_for_fusion(case: Case) -> Draft | None:
    compute = case.get("sm_throughput")
    if not case.position.at_memory_roof or compute is None or compute >= _ROOM:
        return None
    if spills_explain_traffic(case):
        return None  # more work needs more registers, which there are none of
    evidence = (
        case.cite("sm_throughput", "compute has room while DRAM has none"),
        *case.also("issue_slots_busy", "schedulers have free slots"),
    )
    cause = "Arithmetic waits for bytes: work of a neighbouring operator would run here for free."
    return Draft(cause, Bottleneck.MEMORY, clamp(0.3 * (1 - compute / 100)), evidence)


def _repeated_traffic(case: Case) -> Draft | None:
    ratio = excess(case.position)
    if ratio is None or ratio < WASTE or spills_explain_traffic(case):
        return None
    if case.position.traffic_ratio is not None:
        meaning = "DRAM bytes over the bytes that any kernel must move: the rest is moved again"
        name, label = "roofline.traffic_ratio", "Bytes moved over needed"
        excess_evidence = fact(name, label, round(ratio, 2), "x", meaning)
    else:
        meaning = "of the time is what the bytes need, while DRAM is busy throughout"
        excess_evidence = floor_evidence(case.position, meaning)
    evidence = (
        excess_evidence,
        *case.also("dram_throughput", "what the repeated bytes cost"),
        *case.also("l2_hit_rate", "how much L2 served"),
    )
    cause = f"DRAM moves {ratio:.1f} times the bytes that the problem needs: data is read again."
    busy = case.get("dram_throughput")
    weight = 1.0 if busy is None else min(1.0, busy / 80)
    return Draft(cause, Bottleneck.MEMORY, clamp((1 - 1 / ratio) * weight), evidence)


def _misses_l2(case: Case) -> bool:
    """Whether DRAM is busy with what L2 misses, as far as known, and spills do not cause it."""
    hits, busy = case.get("l2_hit_rate"), case.get("dram_throughput")
    if hits is None or hits >= _LOW_L2_HITS or (busy is not None and busy < _DRAM_BUSY):
        return False
    return not spills_explain_traffic(case)


def _tile_rereads(case: Case) -> Draft | None:
    # A stream misses L2 by nature; only tiles that other blocks want again could hit.
    if not (case.facts.has_matrix_product or _uses_tensor_pipe(case)) or not _misses_l2(case):
        return None
    hits, busy = case.get("l2_hit_rate"), case.get("dram_throughput")
    if hits is None or busy is None:
        return None
    evidence = (
        case.cite("l2_hit_rate", "operand tiles leave L2 before another block needs them"),
        case.cite("dram_throughput", "the misses take most of DRAM's bandwidth"),
        *case.also("waves_per_sm", "several waves: the order of blocks decides which tiles live"),
    )
    cause = "Operand tiles are read again from DRAM because blocks reuse them too late for L2."
    return Draft(cause, Bottleneck.MEMORY, clamp(busy / 100 * (1 - hits / 100) + 0.2), evidence)


def _work_is_unknown(case: Case) -> bool:
    """Whether a matrix product can be neither seen nor excluded."""
    facts = case.facts
    clues = (case.get("tensor_utilization"), facts.floor, facts.source, facts.static)
    return all(clue is None for clue in clues)


def _is_stream(case: Case, hits: float) -> bool:
    """Whether reads that all miss L2 and writes that all hit it explain the hit rate.

    Where bytes were not measured, as many writes as reads are supposed: a copy.
    """
    read_bytes, written_bytes = case.get("dram_bytes_read"), case.get("dram_bytes_write")
    if read_bytes is None or written_bytes is None or not read_bytes + written_bytes:
        read_bytes = written_bytes = 1.0
    write_share = written_bytes / (read_bytes + written_bytes)
    if hits < 100 * write_share - _MIX_TOLERANCE:
        return False
    # Reads that hit, per byte that DRAM moves, where written bytes hit as well.
    read_hits = max((hits / 100 - write_share) / (1 - hits / 100), 0.0)
    return read_hits / (read_hits + 1 - write_share) < _SHARED_READS if write_share < 1 else True


def _possible_rereads(case: Case) -> Draft | None:
    """The same misses where nothing tells what is computed: it depends on that."""
    hits = case.get("l2_hit_rate")
    if hits is None or not _misses_l2(case) or not _work_is_unknown(case):
        return None
    if case.facts.has_matrix_product or _is_stream(case, hits):
        return None
    meaning = "data that blocks share, if any, leaves L2 before its next use"
    evidence = [case.cite("l2_hit_rate", meaning)]
    if not case.position.at_memory_roof:
        evidence += case.also("dram_throughput", "the misses take most of DRAM's bandwidth")
    cause = (
        "L2 misses data that it could serve: where blocks share operands (a matrix product, a "
        "convolution, attention), tiles are read again from DRAM. A stream has nothing to share."
    )
    return Draft(cause, Bottleneck.MEMORY, clamp(0.5 * (1 - hits / 100)), tuple(evidence))


def _spilled_bytes(case: Case) -> bool:
    """Whether spills are found and, as far as known, are more than a trifle of the traffic."""
    share = spill_share(case)
    return spills(case) is not None and (share is None or share >= _MATTERING_SHARE)


def _matters(case: Case, what: str) -> bool:
    """Whether loads, or stores, are more than a trifle of the global sectors, as far as known."""
    sectors = {}
    for kind in ("load", "store"):
        requests = case.get(f"global_{kind}_requests")
        per_request = case.get(f"sectors_per_{kind}_request")
        if requests is None or (requests and per_request is None):
            return True
        sectors[kind] = requests * (per_request or 0.0)
    total = sum(sectors.values())
    return not total or sectors[what] / total >= _MATTERING_SHARE


def uncoalesced(case: Case) -> Draft | None:
    """Global accesses that touch more sectors than their bytes need."""
    evidence: list[Evidence] = []
    waste = 0.0
    relevant = [what for what in ("load", "store") if _matters(case, what)]
    for what in relevant:
        alias = f"global_{what}_efficiency"
        efficiency = case.get(alias)
        if efficiency is not None and efficiency < _WASTED_SECTORS:
            meaning = f"of each 32-byte sector is used by {what}s; the rest is wasted"
            evidence.append(case.cite(alias, meaning))
            waste = max(waste, 1 - efficiency / 100)
    for what in relevant:
        alias = f"sectors_per_{what}_request"
        sectors = case.get(alias)
        if sectors is not None and sectors > _MANY_SECTORS:
            meaning = "16 serve a warp of 128-bit accesses, 32 are one for every lane"
            evidence.append(case.cite(alias, meaning))
            waste = max(waste, 1 - 4 / sectors)
    busy = case.get("memory_throughput")
    if not evidence or (busy is not None and busy < _MEMORY_IDLE):
        return None
    evidence += case.also("memory_throughput", "what these accesses keep busy")
    cause = "Global accesses are not coalesced: the lanes of a warp touch sectors far apart."
    return Draft(cause, Bottleneck.MEMORY, clamp(waste), tuple(evidence))


def _narrow_loads(case: Case) -> Draft | None:
    if _uses_tensor_pipe(case):
        return None  # wide asynchronous copies feed a tensor pipe
    evidence = list(_narrow_static(case))
    sectors, efficiency = case.get("sectors_per_load_request"), case.get("global_load_efficiency")
    coalesced = efficiency is None or efficiency >= 80.0
    if sectors is not None and sectors <= _FEW_SECTORS and coalesced:
        meaning = "a warp of 128-bit loads takes 16; 4 are 32-bit loads, 2 are 16-bit loads"
        evidence.append(case.cite("sectors_per_load_request", meaning))
    if not evidence:
        return None
    evidence += case.also("stall_lg_throttle", "warps queue to issue loads")
    busy = case.get("dram_throughput")
    evidence += case.also("dram_throughput", "bandwidth that more bytes in flight could use")
    severity = 0.4 if busy is None else 0.7 * (1 - busy / 100)
    cause = (
        "Loads are narrow (32 bits per thread or less): few bytes are in flight per instruction."
    )
    return Draft(cause, Bottleneck.MEMORY, clamp(severity), tuple(evidence))


def _narrow_static(case: Case) -> tuple[Evidence, ...]:
    static = case.facts.static
    widths = static.widths.get("global_load", {}) if static is not None else {}
    narrow = sum(count for bits, count in widths.items() if bits <= _NARROW_BITS)
    if not narrow or narrow < sum(widths.values()) / 2 or max(widths) >= _WIDE_BITS:
        return ()
    widest = float(max(widths))
    meaning = f"{narrow} of {sum(widths.values())} load instructions move 32 bits or less"
    return (fact("static.global_load_bits", "Widest global load", widest, "bit", meaning),)


def _rereads(case: Case) -> Draft | None:
    """Values read again by the block that had them: across barriers, or in further passes."""
    if _uses_tensor_pipe(case):
        return None  # L2 hits of a matrix kernel are tiles shared between blocks
    evidence: list[Evidence] = []
    for reread in case.facts.source.rereads if case.facts.source is not None else ():
        where = "regions between barriers" if reread.where == "__syncthreads" else "separate loops"
        meaning = f"'{reread.array}' is read at the same addresses in {reread.passes} {where}"
        metric = "source.passes_over_input"
        evidence.append(fact(metric, "Passes over an input", float(reread.passes), "", meaning))
    l1, l2 = case.get("l1_hit_rate"), case.get("l2_read_hit_rate")
    measured: list[Evidence] = []
    if l1 is not None and l1 > _L1_REREAD:
        measured.append(case.cite("l1_hit_rate", "a block finds its own earlier reads in L1"))
    if l2 is not None and l2 > _L2_REREAD:
        measured.append(case.cite("l2_read_hit_rate", "later passes find the input in L2"))
    # Hits alone may be neighbours that share lines; strided loads make just such hits.
    efficiency = case.get("global_load_efficiency")
    if not evidence and (not measured or efficiency is None or efficiency < 80.0):
        return None
    cause = "Values are read again from memory although the same block has read them before."
    hit_shares = [value / 150 for value in (l1, l2) if value is not None]
    weight = max(0.25, *hit_shares, 0.0) + (0.15 if evidence and measured else 0.0)
    if not evidence and (l1 is None or l1 <= _L1_REREAD):
        weight = 0.3  # hits in L2 alone may be other blocks that want the same
    return Draft(cause, Bottleneck.MEMORY, clamp(weight), (*evidence, *measured))


def conflict_share(case: Case) -> float | None:
    """Part of the shared-memory cycles, at least, that conflicts add; None without conflicts."""
    conflicts, wavefronts = case.get("shared_bank_conflicts"), case.get("shared_wavefronts")
    # A count says nothing without what it is a part of.
    whole = wavefronts or case.get("inst_executed")
    return min(1.0, conflicts / whole) if conflicts and whole else None


def bank_conflicts(case: Case) -> Draft | None:
    """Shared-memory accesses that take more cycles than they need."""
    share = conflict_share(case)
    if share is None:
        return None
    grave = share >= (_CONFLICT_SHARE if case.get("shared_wavefronts") else _CONFLICTS_PER_INST)
    stalls = [
        value
        for alias in ("stall_short_scoreboard", "stall_mio_throttle")
        if (value := case.get(alias)) is not None
    ]
    if not grave or (stalls and max(stalls) < _SHARED_STALL):
        return None
    evidence = (
        case.cite("shared_bank_conflicts", f"{share:.0%} of the shared-memory cycles or more"),
        *case.also("shared_wavefronts", "cycles of shared memory in all"),
        *case.also("stall_short_scoreboard", "warps wait for shared memory"),
        *case.also("stall_mio_throttle", "warps queue for shared memory"),
    )
    cause = "Lanes of a warp hit the same shared-memory bank, and their accesses run one by one."
    severity = clamp(max([share / 2, *(value / 100 for value in stalls)]))
    return Draft(cause, Bottleneck.MEMORY, severity, evidence)


def _uses_tensor_pipe(case: Case) -> bool:
    return (case.get("tensor_utilization") or 0.0) >= _TENSOR_IN_USE


RULES = (
    Rule(
        "memory-roof", "roof",
        ("kernel-fusion", "low-precision-storage", "cache-eviction-hints", "recomputation"),
        _memory_roof, ("dram_throughput",), open=False,
    ),
    Rule(
        "room-for-fusion", "fusion", ("kernel-fusion", "dequant-fusion"),
        _room_for_fusion, ("dram_throughput", "sm_throughput"), open=False,
    ),
    Rule(
        "repeated-traffic", "traffic",
        ("register-caching", "pid-swizzling", "online-reduction", "shared-memory-tiling",
         "kernel-fusion", "structural-sparsity"),
        _repeated_traffic, ("dram_bytes_read", "dram_bytes_write"),
    ),
    Rule(
        "tile-rereads", "traffic",
        ("pid-swizzling", "shared-memory-tiling", "tma-multicast"),
        _tile_rereads, ("l2_hit_rate", "dram_throughput"),
    ),
    Rule(
        "possible-rereads", "traffic", ("pid-swizzling", "shared-memory-tiling", "tma-multicast"),
        _possible_rereads, ("l2_hit_rate",),
    ),
    Rule(
        "uncoalesced-access", "access",
        ("coalesced-access", "shared-memory-tiling", "data-layout-transform"),
        uncoalesced, ("global_load_efficiency",),
    ),
    Rule(
        "narrow-loads", "access", ("vectorized-access", "tma-host-descriptor", "async-copy"),
        _narrow_loads, ("sectors_per_load_request",), refuted_by="active ceiling",
    ),
    Rule(
        "re-read-values", "rereads",
        ("register-caching", "online-reduction", "kernel-fusion"),
        _rereads, ("l1_hit_rate",),
    ),
    Rule(
        "bank-conflicts", "shared", ("bank-conflict-avoidance", "shared-memory-tiling"),
        bank_conflicts, ("shared_bank_conflicts", "inst_executed"),
    ),
)  # fmt: skip
