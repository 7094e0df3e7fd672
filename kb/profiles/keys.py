"""A profile's keys: full metric names, aliases, or what Nsight Compute shows."""

from collections.abc import Mapping

from kb.profiles.derived import add_derived, source_called, without_undefined
from kb.profiles.names import metrics_called


def resolve_profile(profile: Mapping[str, float]) -> tuple[dict[str, float], list[str]]:
    """A profile under full metric names, and the keys that name no known metric.

    Without a unit, `Memory Throughput` is the one in %, as on the first section of the details
    page. What other metrics say as well is filled in.
    """
    resolved: dict[str, float] = {}
    ignored: list[str] = []
    for key, value in profile.items():
        names = metrics_called(key)
        if names:
            resolved.setdefault(names[0].metric.name, names[0].value(value))
        elif is_read(key):
            resolved[key] = value
        else:
            ignored.append(key)
    return with_derived(resolved), ignored


def is_read(key: str) -> bool:
    """Whether a key names a metric that is known here, or one that such a metric follows from."""
    return bool(metrics_called(key)) or source_called(key) is not None


def with_derived(
    profile: Mapping[str, float], warps_per_scheduler: float | None = None
) -> dict[str, float]:
    """The known metrics of a profile under their full names, with what its others say as well.

    See `kb.profiles.derived.add_derived`.
    """
    names_of = {name: names[0] for name in profile if (names := metrics_called(name))}
    # A metric's own name comes before its aliases.
    order = sorted(names_of, key=lambda name: names_of[name].metric.name != name)
    filled: dict[str, float] = {}
    for name in order:
        filled.setdefault(names_of[name].metric.name, names_of[name].value(profile[name]))
    add_derived(filled, profile, warps_per_scheduler)
    return without_undefined(filled)
