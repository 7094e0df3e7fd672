"""What ncu's raw page says of each kernel: its launches kept apart, and their means."""

from collections.abc import Sequence

from judge.profile.result import KernelProfile, LaunchProfile
from kb.profiles.launches import DURATION, Launch, by_kernel, mean_metrics
from kb.vocabulary import all_metrics


def profile_kernels(launches: Sequence[Launch]) -> tuple[KernelProfile, ...]:
    """Launches grouped by kernel name, the kernel with the most time first.

    Parameters
    ----------
    launches
        As `kb.profiles.ncu_tables` gives them. Metrics that are not known are left out.

    Returns
    -------
    tuple of KernelProfile
        Totals (bytes, instructions, cycles, durations) are means over the launches, so that bytes
        over duration is the rate over all of them. Everything else (rates, shares, ratios, limits)
        is the mean weighted by each launch's duration; over the launches that have the metric.
    """
    groups = by_kernel(launches)
    times = {name: sum(launch.values.get(DURATION, 0.0) for launch in group)
             for name, group in groups.items()}  # fmt: skip
    total = sum(times.values())
    order = sorted(groups, key=lambda name: -times[name])
    return tuple(
        _kernel(name, groups[name], times[name], times[name] / total if total else 0.0)
        for name in order
    )


def _kernel(name: str, group: Sequence[Launch], time_ns: float, share: float) -> KernelProfile:
    requested = [metric.name for metric in all_metrics()]
    averages = mean_metrics(group)
    values = {metric: averages[metric] for metric in requested if metric in averages}
    return KernelProfile(
        name=name,
        launches=len(group),
        time_ns=time_ns,
        share=share,
        metrics=values,
        missing=tuple(metric for metric in requested if metric not in values),
        each=tuple(
            LaunchProfile(
                index=launch.index,
                time_ns=launch.values.get(DURATION),
                grid=launch.grid,
                block=launch.block,
                metrics={name: launch.values[name] for name in requested if name in launch.values},
            )
            for launch in group
        ),
    )
