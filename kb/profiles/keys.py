"""A profile's keys: full metric names, aliases, or what Nsight Compute shows."""

import re
from collections.abc import Mapping

from kb.profiles.names import metrics_called
from kb.vocabulary import all_metrics, find_metric

# Warps stalled for a reason, per cycle in which one issues; over the warps that are resident then
# (the latency of an issued instruction), it is their share. `ncu --set full` collects these.
_STALLED_PER_ISSUE = re.compile(r"smsp__average_warps_issue_stalled_(\w+)_per_issue_active\.ratio")
_LATENCY = (
    "smsp__average_warp_latency_per_inst_issued.ratio",
    "smsp__average_warps_active_per_issue_active.ratio",
)


def resolve_profile(profile: Mapping[str, float]) -> tuple[dict[str, float], list[str]]:
    """A profile under full metric names, and the keys that name no known metric.

    Without a unit, `Memory Throughput` is the one in %, as on the first section of the details
    page. A metric that another may stand in for is filled in from that.
    """
    known: dict[str, float] = {}
    ignored: list[str] = []
    for key, value in profile.items():
        names = metrics_called(key)
        if names:
            known.setdefault(names[0].metric.name, names[0].value(value))
        elif is_read(key):
            known[key] = value
        else:
            ignored.append(key)
    return with_derived(known), ignored


def is_read(key: str) -> bool:
    """Whether a key names a metric that is known here, or one that such a metric follows from."""
    return bool(metrics_called(key)) or key in _LATENCY or bool(_STALLED_PER_ISSUE.fullmatch(key))


def with_derived(profile: Mapping[str, float]) -> dict[str, float]:
    """The known metrics of a profile, with what its others say as well.

    DRAM's share may be collected under another name; and the share of time in which warps stall
    for a reason is the quotient of two of Nsight Compute's default metrics.
    """
    filled = {name: value for name, value in profile.items() if metrics_called(name)}
    for metric in all_metrics():
        if metric.instead is not None and metric.name not in filled and metric.instead in filled:
            filled[metric.name] = filled[metric.instead]
    latency = next((profile[name] for name in _LATENCY if profile.get(name)), None)
    if latency is not None:
        for name, value in profile.items():
            if (stalled := _STALLED_PER_ISSUE.fullmatch(name)) is None:
                continue
            share = find_metric(f"smsp__warp_issue_stalled_{stalled[1]}_per_warp_active.pct")
            if share is not None:
                filled.setdefault(share.name, 100 * value / latency)
    return filled
