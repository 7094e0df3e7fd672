"""Position under the roofs: bandwidth and arithmetic attained, against what the card gives.

The roofline model is that of Williams, Waterman and Patterson, "Roofline: an insightful visual
performance model for multicore architectures", CACM 52(4), 2009: attainable FLOP/s =
min(peak FLOP/s, bandwidth x FLOPs/byte).
"""

from typing import Literal

from agent.diagnose.facts import Facts, fact, percent
from agent.diagnose.result import Evidence, Roof, Roofline
from kb.gpus import GpuSpec, all_specs
from kb.profiles.work import TENSOR_OPS, counted_flops, dram_bytes

# At the roof: within a tenth of a bandwidth that the card was seen to reach.
AT_ROOF = 0.90
# A plain copy reaches about this part of the printed bandwidth (4.27 of 4.8 TB/s on an H200), so a
# kernel is at the roof at AT_ROOF of it where no ceiling was measured.
COPY_OF_PEAK = 0.90
# At the roof, yet this far from the floor: more bytes move than have to.
WASTE = 1.3
# What is so far beyond its floor shows that the floor is none, as of masked work that is counted.
NO_FLOOR = 1.05
# Nearly all reads, or nearly all writes: their own ceilings apply, not that of a copy.
_ONE_SIDED = 0.95
# Points of a percentage by which two ways to measure it may differ: a data sheet rounds, and ncu
# counts in several passes.
_PEAK_TOLERANCE = 5.0
_TENSOR_RATE = {"float32": "tf32", "float64": "fp64_tensor"}


def roofline(facts: Facts) -> Roofline:
    """Compute what the facts allow; the rest stays None."""
    seconds = facts.seconds
    moved = dram_bytes(facts.metrics)
    flops = _flops(facts)
    bandwidth = _bandwidth(facts, moved, seconds)
    rate = flops / seconds if flops and seconds else None
    card = _card(facts)
    memory, compute = _memory_roof(facts, card), _compute_roof(facts, card)
    memory_fraction = _memory_fraction(facts, bandwidth, memory)
    intensity = flops / moved if flops and moved else None
    ridge = compute.value / memory.value if compute and memory else None
    return Roofline(
        seconds=seconds,
        bytes=moved,
        flops=flops,
        intensity=intensity,
        attained_bps=bandwidth,
        attained_flops=rate,
        memory_roof=memory,
        compute_roof=compute,
        ridge=ridge,
        memory_fraction=memory_fraction,
        compute_fraction=min(1.0, rate / compute.value) if rate and compute else None,
        region=_region(intensity, ridge),
        traffic_ratio=_traffic_ratio(facts, moved),
        floor_fraction=_floor_fraction(facts),
        at_memory_roof=_at_roof(facts, memory_fraction, memory),
    )


def excess(position: Roofline) -> float | None:
    """How many times the least bytes were moved, by the counters or by the time at the roof."""
    if position.traffic_ratio is not None:
        return position.traffic_ratio
    if position.at_memory_roof and position.floor_fraction:
        return 1 / position.floor_fraction
    return None


def _flops(facts: Facts) -> float | None:
    """Operations of one launch: the problem's, else those the counters saw."""
    if facts.floor is not None and facts.floor.flops > 0:
        return facts.floor.flops if facts.whole_call else None
    return counted_flops(facts.metrics)


def _bandwidth(facts: Facts, moved: float | None, seconds: float | None) -> float | None:
    profiled = _profiled_bandwidth(facts)
    if profiled is not None:
        return profiled
    if moved is not None and seconds:
        return moved / seconds
    share = facts.get("dram_throughput")
    if share is not None and facts.spec is not None:
        return share / 100 * facts.spec.memory_bps
    return None


def _profiled_bandwidth(facts: Facts) -> float | None:
    """DRAM's bytes per second while ncu measured."""
    measured, duration = facts.get("dram_bandwidth"), facts.get("duration")
    moved = dram_bytes(facts.metrics)
    # Bytes belong to the profiled launch, so its own duration does, not the judged time.
    if measured is None and moved is not None and duration:
        return moved / (duration / 1e9)
    return measured


def _peak_mismatch(facts: Facts, card: GpuSpec) -> float:
    """Points between ncu's percentage of DRAM's peak and the card's; 0 where one is unknown.

    A card that the user describes is taken at the user's word.
    """
    bandwidth, percentage = _profiled_bandwidth(facts), facts.get("dram_throughput")
    if card.name not in all_specs():
        return 0.0
    return abs(100 * bandwidth / card.memory_bps - percentage) if bandwidth and percentage else 0.0


def _card(facts: Facts) -> GpuSpec | None:
    """The card whose figures apply: of a family, the one that ncu's percentage agrees with."""
    spec = facts.spec
    if spec is None or _peak_mismatch(facts, spec) <= _PEAK_TOLERANCE:
        return spec
    family = (card for card in all_specs().values() if card.family == spec.family)
    best = min((spec, *family), key=lambda card: _peak_mismatch(facts, card))
    # As near in its peak, which 5 points of a small percentage would not show.
    near = _PEAK_TOLERANCE / 100 * (facts.get("dram_throughput") or 0.0)
    return best if _peak_mismatch(facts, best) <= near else spec


def _memory_roof(facts: Facts, card: GpuSpec | None) -> Roof | None:
    if facts.ceilings is not None:
        read_bytes, written_bytes = facts.get("dram_bytes_read"), facts.get("dram_bytes_write")
        total = (read_bytes or 0.0) + (written_bytes or 0.0)
        if read_bytes is not None and written_bytes is not None and total:
            if read_bytes / total >= _ONE_SIDED:
                return Roof(name="DRAM read", value=facts.ceilings.read_bps, source="measured")
            if written_bytes / total >= _ONE_SIDED:
                return Roof(name="DRAM write", value=facts.ceilings.write_bps, source="measured")
        return Roof(name="DRAM copy", value=facts.ceilings.copy_bps, source="measured")
    # Another card, or another memory clock: ncu's percentage stands alone.
    if card is None or _peak_mismatch(facts, card) > _PEAK_TOLERANCE:
        return None
    name = "DRAM" if card is facts.spec else f"DRAM of {card.name}"
    return Roof(name=name, value=card.memory_bps, source="data sheet")


def _compute_roof(facts: Facts, card: GpuSpec | None) -> Roof | None:
    """The fastest pipe that the operations could use: tensor cores for matrix products."""
    rate = _rate(facts)
    if rate is None:
        return None
    measured_flops = facts.ceilings.matmul_flops if facts.ceilings is not None else {}
    if facts.has_matrix_product and facts.dtype in measured_flops:
        name = f"{facts.dtype} matrix product"
        return Roof(name=name, value=measured_flops[facts.dtype], source="measured")
    peak = card.dense_flops(rate) if card is not None else None
    return Roof(name=rate, value=peak, source="data sheet") if peak else None


def _rate(facts: Facts) -> str | None:
    utilization = {rate: facts.get(alias) or 0.0 for alias, rate in TENSOR_OPS.items()}
    busiest = max(utilization, key=lambda rate: utilization[rate])
    if utilization[busiest] > 0:
        return busiest
    if facts.has_matrix_product:
        if facts.dtype is None:
            return None
        if facts.dtype == "float32" and not facts.tf32:
            return "fp32"
        return _TENSOR_RATE.get(facts.dtype, facts.dtype)
    return "fp64" if facts.dtype == "float64" else "fp32"


def _memory_fraction(facts: Facts, bandwidth: float | None, roof: Roof | None) -> float | None:
    if bandwidth is not None and roof is not None:
        return min(1.0, bandwidth / roof.value)
    share = facts.get("dram_throughput")
    return None if share is None else min(1.0, share / 100)


def at_floor(facts: Facts) -> bool:
    """Whether the judged time is about the least in which the problem's bytes can move."""
    fraction = _floor_fraction(facts)
    return (
        fraction is not None
        and fraction >= AT_ROOF
        and facts.floor is not None
        and facts.floor.bound == "memory"
    )


def floor_evidence(position: Roofline, meaning: str) -> Evidence:
    """The fraction of the floor as evidence."""
    share = percent(position.floor_fraction or 0.0)
    return fact("evaluation.floor_fraction", "Floor of the time", share, "%", meaning)


def dram_full(facts: Facts) -> bool:
    """Whether DRAM is as busy as a plain copy keeps it, by ncu's own percentage."""
    share = facts.get("dram_throughput")
    return share is not None and share >= 100 * AT_ROOF * COPY_OF_PEAK


def _at_roof(facts: Facts, fraction: float | None, roof: Roof | None) -> bool:
    # ncu profiles at the base clock, where a kernel may fall short of what it reaches when judged;
    # and ncu's own percentage is against the card's clocks, which a data sheet may round.
    if at_floor(facts) or dram_full(facts):
        return True
    if fraction is None or (facts.get("dram_throughput") is not None and facts.ceilings is None):
        return False
    measured = roof is not None and roof.source == "measured"
    return fraction >= (AT_ROOF if measured else AT_ROOF * COPY_OF_PEAK)


def _region(intensity: float | None, ridge: float | None) -> Literal["memory", "compute"] | None:
    if intensity is None or ridge is None:
        return None
    return "memory" if intensity < ridge else "compute"


def _traffic_ratio(facts: Facts, moved: float | None) -> float | None:
    if moved is None or facts.floor is None or not facts.whole_call:
        return None
    least = facts.floor.read_bytes + facts.floor.write_bytes
    # What fits in L2 need not reach DRAM at all, and the ratio says nothing then.
    if not least or (facts.spec is not None and least < facts.spec.l2_bytes):
        return None
    return moved / least


def _floor_fraction(facts: Facts) -> float | None:
    if facts.floor is None or not facts.median_ms or not facts.whole_call:
        return None
    return facts.floor.ms / facts.median_ms
