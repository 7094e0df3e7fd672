"""Rules about SMs without work: small grids, last waves, blocks that outlast the others."""

import math

from agent.diagnose.result import Bottleneck
from agent.diagnose.rules import Case, Draft, Rule, clamp
from agent.diagnose.units import idle_sms, launch_part

# A last wave that is mostly empty costs as much as a full one; after a few waves it shows little.
_WAVE_EFFICIENCY = 0.8
_FEW_WAVES = 5.0
# Blocks of equal work still start and end apart, and some SMs hold one block more than others.
_TOLERANCE = 0.15


def _filled(case: Case) -> float | None:
    """Part of the SMs that get a block at all, where it is less than all."""
    spec, blocks = case.facts.spec, case.get("grid_size")
    if spec is None or blocks is None or blocks >= spec.sms:
        return None
    share, filled = case.get("sm_active_share"), blocks / spec.sms
    # Busier SMs than that: the profile is of a smaller card.
    return None if share is not None and share / 100 > filled + _TOLERANCE else filled


def _small_grid(case: Case) -> Draft | None:
    waves, filled_share, spec = case.get("waves_per_sm"), _filled(case), case.facts.spec
    if filled_share is None and (waves is None or waves >= 1.0):
        return None
    evidence = (
        *case.also("waves_per_sm", "below 1: all blocks run at once and still leave slots empty"),
        *case.also("grid_size", f"for {spec.sms} SMs" if spec is not None else "blocks in all"),
        *case.also("block_size", "in each block"),
        *case.also("sm_active_share", "of the time an SM has work"),
        *case.also("dram_throughput", "all that so few blocks request from DRAM"),
        *case.also("sm_throughput", "of the compute rate"),
    )
    part = min(filled_share or 1.0, waves if waves is not None else 1.0)
    rates = [case.get(alias) for alias in ("dram_throughput", "sm_throughput")]
    busy = max((rate / 100 for rate in rates if rate is not None), default=0.5)
    cause = "The grid is too small for the GPU: SMs and warp slots have nothing to run."
    # Empty slots cost at most what the busy ones leave of the roof.
    severity = max(1 - part, 0.3) * 0.5 + 0.5 * (1 - busy)
    severity = clamp(severity * (1 - launch_part(case.facts)))
    return Draft(cause, Bottleneck.UNDERUTILIZED, severity, evidence)


def _grid_share(case: Case) -> float:
    """Part of the time in which an SM has work if all blocks take equally long, 0 to 1."""
    waves = case.get("waves_per_sm")
    if waves is not None and 1.0 < waves < _FEW_WAVES:
        return waves / math.ceil(waves)
    return _filled(case) or 1.0


def _unequal(case: Case) -> bool:
    """Whether SMs idle for longer than equal blocks would let them."""
    share = case.get("sm_active_share")
    if share is None or not idle_sms(case.facts):
        return False
    return share / 100 < _grid_share(case) - _TOLERANCE


def _partial_wave(case: Case) -> Draft | None:
    waves = case.get("waves_per_sm")
    if waves is None or not 1.0 < waves < _FEW_WAVES or _unequal(case):
        return None
    idle, efficiency = idle_sms(case.facts), waves / math.ceil(waves)
    if efficiency >= _WAVE_EFFICIENCY and not idle:
        return None
    meaning = f"the last wave fills {waves - math.floor(waves):.0%} of the GPU; it takes as long"
    evidence = (
        *(case.also("sm_active_share", "of the time an SM has work") if idle else ()),
        case.cite("waves_per_sm", meaning),
        *case.also("grid_size", "blocks in all"),
    )
    cause = f"The last wave of blocks is mostly empty: {efficiency:.0%} of the slots do work."
    share = (case.get("sm_active_share") or 0.0) / 100 if idle else efficiency
    return Draft(cause, Bottleneck.UNDERUTILIZED, clamp(1 - share), evidence)


def _idle_sms(case: Case) -> Draft | None:
    if not _unequal(case):
        return None
    share, waves = case.get("sm_active_share") or 0.0, case.get("waves_per_sm")
    evidence = (
        case.cite("sm_active_share", "of the time an SM has work; the rest is lost"),
        *case.also("waves_per_sm", "so many that a partial last wave does not explain it"),
        *case.also("grid_size", "blocks in all"),
    )
    reason = (
        "a few blocks run long after the others have ended (a long row, a straggler)"
        if waves is not None and waves >= 1.0
        else "blocks take unequal times, or the last wave is nearly empty"
    )
    cause = f"SMs have no work for {1 - share / 100:.0%} of the time: {reason}."
    return Draft(cause, Bottleneck.UNDERUTILIZED, clamp(1 - share / 100), evidence)


RULES = (
    Rule(
        "small-grid", "grid",
        ("split-k", "vectorized-access", "stream-k", "cluster-launch"),
        _small_grid, ("waves_per_sm",), refuted_by="ceiling",
    ),
    Rule(
        "partial-wave", "grid",
        ("wave-quantization", "stream-k", "autotuning", "split-k"),
        _partial_wave, ("waves_per_sm",), refuted_by="ceiling",
    ),
    Rule(
        "idle-sms", "balance",
        ("load-balancing", "persistent-kernel", "stream-k", "autotuning"),
        _idle_sms, ("sm_active_share",), refuted_by="ceiling",
    ),
)  # fmt: skip
