"""Metrics that follow from others that Nsight Compute prints; a measured one is never changed."""

import re
from collections.abc import Iterator, Mapping

from kb.vocabulary import all_metrics, find_metric

# Global accesses by kind, as a metric's alias and its name have them.
_ACCESSES = (("load", "ld"), ("store", "st"))
_SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_{}.sum"
# Shared-memory counters by operation: the whole is their sum.
_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{}.sum"
_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
# Instructions that a scheduler issues per cycle, one at most; the last is of the details page.
_ISSUED = (
    "smsp__issue_active.avg.per_cycle_active",
    "smsp__inst_issued.avg.per_cycle_active",
    "issued warp per scheduler",
)
# Cycles between two instructions of a warp: resident warps over instructions issued per cycle. The
# last is what the details page calls it.
_LATENCY = (
    "smsp__average_warp_latency_per_inst_issued.ratio",
    "smsp__average_warps_active_per_issue_active.ratio",
    "warp cycles per issued instruction",
)
# Warps stalled for a reason, per cycle in which one issues; over the warps that are resident then
# (the latency of an issued instruction), it is their share. `ncu --set full` collects these.
_STALLED = re.compile(r"smsp__average_warps_issue_stalled_(\w+)_per_issue_active\.ratio")
# Both come as a share of all cycles or of those in which the SM is active.
_TENSOR_BUSY = re.compile(
    r"sm__pipe_(?:tensor\w{0,40}|tc)_cycles_active\.avg\.pct_of_peak_sustained_(elapsed|active)"
)
_TENSOR_INST = re.compile(
    r"sm__inst_executed_pipe_(?:tensor|tc)\w{0,40}\.avg\.pct_of_peak_sustained_(elapsed|active)"
)
_PATTERNS = (_STALLED, _TENSOR_BUSY, _TENSOR_INST)
_NAMES = frozenset(
    [form.format(kind) for form in (_SECTORS, _CONFLICTS, _WAVEFRONTS) for _, kind in _ACCESSES]
    + [*_ISSUED, *_LATENCY]
)
# Of 32, three of four: with fewer active in an instruction, a quarter of the SIMD width is lost.
FEW_LANES = 24.0
# Counters of several passes do not agree exactly; a larger share is of something else.
_MAX_PERCENT = 110.0


def source_called(key: str) -> str | None:
    """The name of a metric that others follow from, as `with_derived` reads it; None for others."""
    name = key.strip().lower()
    is_known = name in _NAMES or any(pattern.fullmatch(name) for pattern in _PATTERNS)
    return name if is_known else None


def add_derived(
    filled: dict[str, float], profile: Mapping[str, float], warps_per_scheduler: float | None
) -> None:
    """Add to known metrics what all of a profile says besides.

    Parameters
    ----------
    filled
        Metrics under their full names, in base units; changed in place.
    profile
        The same, and the metrics of `source_called`.
    warps_per_scheduler
        Warps that a scheduler can hold; None where the card is not known.
    """
    counts = {source_called(name) or name: value for name, value in profile.items()}
    for alias, value in (
        *_substitutes(filled),
        *_access_patterns(filled, counts),
        *_active_share(filled),
        *_issue_slots(counts),
    ):
        filled.setdefault(_name(alias), value)
    for alias, value in (
        *_tensor_use(filled, counts),
        *_stalls(filled, counts, warps_per_scheduler),
    ):
        filled.setdefault(_name(alias), value)


def without_undefined(metrics: Mapping[str, float]) -> dict[str, float]:
    """The metrics without a branch efficiency that is none.

    Nsight Compute shows 0 where a kernel executes no conditional branch (0 / 0). That all branches
    diverge shows in the count of divergent branches or, without it, in lanes that idle.
    """
    defined, uniform = dict(metrics), _name("branch_uniformity")
    divergent, lanes = _get(metrics, "divergent_branches"), _get(metrics, "threads_per_inst")
    diverges = divergent or (divergent is None and lanes is not None and lanes < FEW_LANES)
    if defined.get(uniform) == 0.0 and not diverges:
        del defined[uniform]
    return defined


def _name(alias: str) -> str:
    metric = find_metric(alias)
    if metric is None:
        raise KeyError(alias)
    return metric.name


def _get(metrics: Mapping[str, float], alias: str) -> float | None:
    return metrics.get(_name(alias))


def _substitutes(filled: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    for metric in all_metrics():
        if metric.instead is not None and metric.instead in filled:
            yield metric.name, filled[metric.instead]


def _access_patterns(
    filled: Mapping[str, float], counts: Mapping[str, float]
) -> Iterator[tuple[str, float]]:
    for what, kind in _ACCESSES:
        sectors = counts.get(_SECTORS.format(kind))
        requests = _get(filled, f"global_{what}_requests")
        if sectors is not None and requests:
            yield f"sectors_per_{what}_request", sectors / requests
    conflicts, wavefronts = (
        {kind: counts[name] for _, kind in _ACCESSES if (name := form.format(kind)) in counts}
        for form in (_CONFLICTS, _WAVEFRONTS)
    )
    if conflicts:
        yield "shared_bank_conflicts", sum(conflicts.values())
    # Conflicts are judged as a part of the wavefronts: without those of an operation that has
    # conflicts, the sum would be too small for that.
    if wavefronts and all(kind in wavefronts for kind, count in conflicts.items() if count):
        yield "shared_wavefronts", sum(wavefronts.values())


def _active_share(filled: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    active, elapsed = _get(filled, "sm_cycles_active"), _get(filled, "sm_cycles_elapsed")
    if active is not None and elapsed:
        yield "sm_active_share", min(100.0, 100 * active / elapsed)


def _issue_slots(counts: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    issued = next((counts[name] for name in _ISSUED if name in counts), None)
    if issued is not None:
        yield "issue_slots_busy", min(100.0, 100 * issued)


def _tensor_use(
    filled: Mapping[str, float], counts: Mapping[str, float]
) -> Iterator[tuple[str, float]]:
    """The busiest tensor pipe: cards and versions of ncu name it by operation and by sub-pipe."""
    # Of the cycles in which an SM is active, to all cycles.
    part = (_get(filled, "sm_active_share") or 100.0) / 100
    factors = {"elapsed": 1.0, "active": part}
    for pattern in (_TENSOR_BUSY, _TENSOR_INST):
        shares = [
            value * factors[match[1]]
            for name, value in counts.items()
            if (match := pattern.fullmatch(name)) is not None
        ]
        if shares:
            yield "tensor_utilization", max(shares)


def _stalls(
    filled: Mapping[str, float], counts: Mapping[str, float], warps_per_scheduler: float | None
) -> Iterator[tuple[str, float]]:
    latency = next((counts[name] for name in _LATENCY if counts.get(name)), None)
    latency = latency or _latency(filled, warps_per_scheduler)
    if latency is None:
        return
    for name, value in counts.items():
        if (stalled := _STALLED.fullmatch(name)) is None:
            continue
        share = find_metric(f"smsp__warp_issue_stalled_{stalled[1]}_per_warp_active.pct")
        percent = 100 * value / latency
        if share is not None and percent <= _MAX_PERCENT:
            yield share.name, min(percent, 100.0)


def _latency(filled: Mapping[str, float], warps_per_scheduler: float | None) -> float | None:
    """Cycles between two instructions of a warp, from how many are resident and how often one
    issues (Little's law)."""
    issue, warps = _get(filled, "issue_slots_busy"), _get(filled, "active_warps_per_scheduler")
    occupancy = _get(filled, "achieved_occupancy")
    if warps is None and occupancy is not None and warps_per_scheduler is not None:
        warps = occupancy / 100 * warps_per_scheduler
    return 100 * warps / issue if warps and issue else None
