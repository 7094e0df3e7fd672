"""The rule about local memory: registers that spill, and how much of the traffic that is."""

from agent.diagnose.facts import fact, percent
from agent.diagnose.result import Bottleneck, Evidence
from agent.diagnose.rules import Case, Draft, Rule, clamp

# Spill code that runs: one in a hundred instructions.
_SPILL_SHARE = 0.01
# Where it is not known what they are a share of; a launch has millions where spills matter.
_SPILL_INSTRUCTIONS = 10_000
# The architecture gives a thread no more: at it, the compiler has spilled or was about to.
_REGISTER_LIMIT = 255
_SECTOR_BYTES = 32
# Local memory lies interleaved: the 32-bit values of a warp are 128 bytes in a row.
_SECTORS_OF_A_WARP = 4
# Above a fifth of what a level moves, no other cause of its traffic can be told from them.
_LARGE_SHARE = 0.2


def spill_share(case: Case) -> float | None:
    """Local-memory bytes over all bytes of DRAM or L2, the larger: about, and 1 at most.

    Counted at L1, less what the hit rates say is caught before. None where sectors or the bytes of
    both levels were not measured.
    """
    sectors = _total(case, "local_load_sectors", "local_store_sectors")
    if sectors is None:
        return None
    reaching = sectors * _SECTOR_BYTES * _miss_share(case, "l1_hit_rate")
    shares = []
    if l2 := case.get("l2_bytes"):
        shares.append(reaching / l2)
    if dram := _dram_bytes(case):
        shares.append(reaching * _miss_share(case, "l2_hit_rate") / dram)
    return min(max(shares), 1.0) if shares else None


def spills_explain_traffic(case: Case) -> bool:
    """Whether a large part of the traffic is local memory's."""
    share = spill_share(case)
    return share is not None and share >= _LARGE_SHARE


def _miss_share(case: Case, alias: str) -> float:
    return 1 - (case.get(alias) or 0.0) / 100


def _dram_bytes(case: Case) -> float | None:
    position = case.position
    if position.bytes is not None:
        return position.bytes
    duration = case.get("duration")
    if position.attained_bps is None or not duration:
        return None
    return position.attained_bps * duration / 1e9


def _total(case: Case, *aliases: str) -> float | None:
    values = [value for alias in aliases if (value := case.get(alias)) is not None]
    return sum(values) if values else None


def spills(case: Case) -> Draft | None:
    """Spill code that runs, by its instructions, its sectors or the machine code."""
    evidence: list[Evidence] = []
    severity = 0.0
    executed, share = case.get("inst_executed"), spill_share(case)
    instructions = ("local_load_inst", "local_store_inst")
    sectors = ("local_load_sectors", "local_store_sectors")
    local, aliases = _total(case, *instructions), instructions
    if local is None and (count := _total(case, *sectors)) is not None:
        local, aliases = count / _SECTORS_OF_A_WARP, sectors
    local = local or 0.0
    if local > 0 and executed and local / executed >= _SPILL_SHARE:
        meaning = f"{local / executed:.0%} of all instructions go to local memory"
        severity = min(0.9, 0.2 + 3 * local / executed)
    elif local >= _SPILL_INSTRUCTIONS and not executed:
        meaning = "what spills or indexed local arrays need"
        registers = case.get("registers_per_thread")
        severity = 0.7 if registers is not None and registers >= _REGISTER_LIMIT else 0.4
    if severity:
        evidence += [item for alias in aliases for item in case.also(alias, meaning)]
    if spills_explain_traffic(case) and share is not None:
        name, label = "roofline.spill_share", "Local memory's part of the traffic"
        meaning = "roughly, of the bytes that DRAM or L2 moves; gone once nothing spills"
        evidence.append(fact(name, label, percent(share), "%", meaning))
        severity = max(severity, share)
    severity, code = _static_spills(case, severity, seen=local > 0)
    evidence += code
    if not evidence:
        return None
    evidence += case.also("registers_per_thread", "registers that a thread has")
    cause = "Registers spill to local memory, whose traffic runs through L1 and L2."
    return Draft(cause, Bottleneck.MEMORY, clamp(severity), tuple(evidence))


def _static_spills(case: Case, severity: float, *, seen: bool) -> tuple[float, list[Evidence]]:
    static = case.facts.static
    spilled = static.spill_store_bytes + static.spill_load_bytes if static is not None else 0
    counts = [case.get("local_load_inst"), case.get("local_store_inst")]
    # Where counters ran and saw none, the spill code lies off the path.
    if not spilled or (not seen and all(value is not None for value in counts)):
        return severity, []
    meaning = "per thread in the code: more values are live than registers are allowed"
    spill = fact("static.spill_bytes", "Spilled to local memory", float(spilled), "byte", meaning)
    return max(severity, 0.35), [spill]


RULES = (
    Rule(
        "register-spills", "spills", ("register-pressure", "occupancy-tuning", "autotuning"),
        spills, ("local_load_inst",),
    ),
)  # fmt: skip
