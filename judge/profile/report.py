"""What ncu's raw page says of each kernel: its launches kept apart, and their means."""

from collections.abc import Iterable, Sequence

from judge.profile.result import KernelProfile, LaunchProfile
from kb.profiles.launches import DURATION, Launch, by_kernel, mean_of
from kb.vocabulary import Metric, all_metrics


def profile_kernels(
    launches: Sequence[Launch], wanted: Iterable[Metric] | None = None
) -> tuple[KernelProfile, ...]:
    """Launches grouped by kernel name, the kernel with the most time first.

    Parameters
    ----------
    launches
        As `kb.profiles.ncu_tables` gives them.
    wanted
        The metrics that were asked for, by default all; others are left out of the result.

    Returns
    -------
    tuple of KernelProfile
        Totals (bytes, instructions, cycles, durations) are means over the launches, so that bytes
        over duration is the rate over all of them. Everything else (rates, shares, ratios, limits)
        is the mean weighted by each launch's duration; over the launches that have the metric.
    """
    metrics = list(all_metrics() if wanted is None else wanted)
    groups = by_kernel(launches)
    times = {name: sum(each.values.get(DURATION, 0.0) for each in group)
             for name, group in groups.items()}  # fmt: skip
    total = sum(times.values())
    order = sorted(groups, key=lambda name: -times[name])
    return tuple(
        _kernel(name, groups[name], times[name], times[name] / total if total else 0.0, metrics)
        for name in order
    )


def _kernel(
    name: str, group: Sequence[Launch], time_ns: float, share: float, metrics: Sequence[Metric]
) -> KernelProfile:
    values: dict[str, float] = {}
    for metric in metrics:
        having = [each for each in group if metric.name in each.values]
        if having:
            values[metric.name] = mean_of(metric.name, having)
    return KernelProfile(
        name=name,
        launches=len(group),
        time_ns=time_ns,
        share=share,
        metrics=values,
        missing=tuple(metric.name for metric in metrics if metric.name not in values),
        each=tuple(
            LaunchProfile(
                index=launch.index,
                time_ns=launch.values.get(DURATION),
                grid=launch.grid,
                block=launch.block,
                metrics={
                    metric.name: launch.values[metric.name]
                    for metric in metrics
                    if metric.name in launch.values
                },
            )
            for launch in group
        ),
    )
