"""One kernel's metrics from whatever a profiler's user has.

JSON of metric → number (full names, aliases, or what Nsight Compute shows), of kernel → such an
object, of `kb profile --json`, or rows; Nsight Compute's raw or details page as CSV; its console
output. Where there are several kernels one is chosen, and that is said.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kb.errors import InvalidInputError
from kb.profiles.device import Device
from kb.profiles.keys import is_read, with_derived
from kb.profiles.launches import DURATION, Launch, by_kernel, mean_metrics
from kb.profiles.ncu_tables import parse_number, parse_table

# Names of further kernels in a note.
_MAX_LISTED = 3
# As many as `kb profile` takes; a larger count is no count of launches.
_MAX_LAUNCHES = 1000
# A raw page has hundreds of columns; a file that was written by hand, a few.
_MAX_NAMED = 8
_NAMES = ("Kernel Name", "kernel_name", "kernel", "name")
_ROW_KEYS = frozenset({"ID", "id", "Device", "Stream", "Context", *_NAMES})


@dataclass(frozen=True, slots=True)
class ProfileRead:
    """One kernel's metrics, and what had to be said about reading them."""

    metrics: Mapping[str, float]
    """Full metric name → value in base units."""
    kernel: str | None = None
    share: float = 1.0
    """Part of the time of all kernels in the profile, 0 to 1."""
    notes: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    """Keys, columns and rows that name no known metric."""
    device: Device = field(default_factory=Device)
    """The card, as far as the profile says."""


def read_profile(text: str, where: str, kernel_name: str | None = None) -> ProfileRead:
    """Read a profile in any of the forms above.

    Parameters
    ----------
    text
        What the file holds.
    where
        What errors call it.
    kernel_name
        Which kernel: its name, or a part of it. By default the one that takes longest; where not
        all have a duration, the first.

    Raises
    ------
    InvalidInputError
        It is none of these, it holds no metric, or no kernel of it goes by `kernel_name`.
    """
    launches = parse_table(text)
    if launches is not None:
        return choose(launches, where, kernel_name)
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"{where} is not JSON or `ncu --csv` output: {error}") from error
    if not data:
        raise InvalidInputError(f"{where} has no metrics: expected Nsight Compute metric -> number")
    return choose(_launches(data, where), where, kernel_name)


def ignored_words(keys: Sequence[str]) -> list[str]:
    """What to say of keys that name no known metric: their names, or a few of very many."""
    if not keys:
        return []
    some = ", ".join(f"'{key}'" for key in keys[:_MAX_NAMED])
    if len(keys) > _MAX_NAMED:
        return [f"{len(keys)} names are not metrics used here and were ignored: {some}, …"]
    what = "is not a known metric and was" if len(keys) == 1 else "are not known metrics and were"
    return [f"{some} {what} ignored"]


def choose(launches: Sequence[Launch], where: str, kernel_name: str | None = None) -> ProfileRead:
    """One kernel of several launches, its metrics as means over them.

    Raises
    ------
    InvalidInputError
        No kernel goes by `kernel_name`.
    """
    groups = by_kernel(launches)
    times = {name: _time(group) for name, group in groups.items()}
    complete = all(time is not None for time in times.values())
    candidates = list(groups)
    if kernel_name is not None:
        candidates = kernels_called(kernel_name, candidates, where)
    name = max(candidates, key=lambda kernel: times[kernel] or 0.0) if complete else candidates[0]
    total = sum(time or 0.0 for time in times.values())
    share = (times[name] or 0.0) / total if complete and total else 1.0
    group = groups[name]
    unknown = dict.fromkeys(key for launch in group for key in launch.unknown)
    return ProfileRead(
        metrics=with_derived(mean_metrics(group), group[0].device.warps_per_scheduler),
        kernel=name or None,
        share=share,
        notes=(
            *_notes(name, candidates, groups, share if complete else None, chosen=kernel_name),
            *group[0].remarks[:_MAX_LISTED],
        ),
        ignored=tuple(unknown),
        device=group[0].device,
    )


def _time(group: Sequence[Launch]) -> float | None:
    """Time of all launches of a kernel, in ns; None where one has none."""
    durations = [launch.values.get(DURATION) for launch in group]
    times = [time for time in durations if time is not None]
    return sum(times) if len(times) == len(durations) else None


def kernels_called(pattern: str, names: list[str], where: str) -> list[str]:
    """The kernels that go by a name, or whose names hold it.

    Raises
    ------
    InvalidInputError
        There is none; lists those that there are.
    """
    exact = [name for name in names if name == pattern]
    matches = exact or [name for name in names if pattern.lower() in name.lower()]
    if not matches:
        listed = ", ".join(name or "(no name)" for name in names[: 2 * _MAX_LISTED])
        raise InvalidInputError(f"{where} has no kernel called '{pattern}': it has {listed}")
    return matches


def _notes(
    name: str,
    candidates: Sequence[str],
    groups: Mapping[str, Sequence[Launch]],
    share: float | None,
    *,
    chosen: str | None,
) -> tuple[str, ...]:
    others = [group for group in groups if group != name]
    notes = []
    if others and (chosen is None or len(candidates) > 1):
        listed = ", ".join(others[:_MAX_LISTED]) + (", ..." if len(others) > _MAX_LISTED else "")
        why = (
            f"takes {share:.0%} of the time"
            if share is not None
            else "comes first, and not all kernels have a duration"
        )
        notes.append(
            f"{name} {why}; the other kernels are not judged (--kernel-name selects one): {listed}"
        )
    if (count := len(groups[name])) > 1:
        notes.append(f"the values of {name} are means over {count} launches")
    return tuple(notes)


def _launches(data: Any, where: str) -> list[Launch]:
    if isinstance(data, list) and data and all(isinstance(item, dict) for item in data):
        return [_row(row, f"{where}: row {at}", at) for at, row in enumerate(data)]
    if not isinstance(data, dict):
        raise InvalidInputError(f"{where} must hold one JSON object")
    kernels = data.get("kernels")
    if isinstance(kernels, list) and all(isinstance(kernel, dict) for kernel in kernels):
        rows = [_row(row, f"{where}: kernel {at}", at) for at, row in enumerate(kernels)]
        # `kb profile --json` gives means over so many launches.
        counts = [row.get("launches", 1) for row in kernels]
        return [
            row
            for row, count in zip(rows, counts, strict=True)
            for _ in range(count if isinstance(count, int) and 0 < count <= _MAX_LAUNCHES else 1)
        ]
    groups = kernels if isinstance(kernels, dict) else data
    if groups and all(
        isinstance(value, dict) and not _is_value(value) for value in groups.values()
    ):
        return [
            launch_of(metrics, f"{where}: '{name}'", at, str(name))
            for at, (name, metrics) in enumerate(groups.items())
        ]
    return [launch_of(data, where, 0, "")]


def _row(row: dict[str, Any], where: str, index: int) -> Launch:
    """A row of a table, or a kernel of `kb profile --json`, whose metrics stand apart."""
    name = next((str(row[key]) for key in _NAMES if isinstance(row.get(key), str)), "")
    metrics = row.get("metrics")
    if not isinstance(metrics, dict):
        metrics = {key: value for key, value in row.items() if key not in _ROW_KEYS}
    return launch_of(metrics, where, index, name)


def launch_of(metrics: Mapping[str, Any], where: str, index: int, kernel: str) -> Launch:
    """Keys and values as a user has them, as a launch. What is no number is missing.

    Raises
    ------
    InvalidInputError
        A value is below zero.
    """
    launch = Launch(index, kernel)
    for key, raw in metrics.items():
        if launch.device.add(str(key), raw):
            continue
        value, unit = _value(raw)  # none of null, "n/a", "N/A (no such counter)"
        if value is not None and value < 0 and is_read(str(key)):
            raise InvalidInputError(f"{where}: {key} is {raw}: a metric cannot be negative")
        launch.add(str(key), value, unit)
    return launch


def _is_value(raw: Mapping[str, Any]) -> bool:
    """Whether an object is one value with its unit, and no kernel's metrics."""
    return bool(raw) and set(raw) <= {"value", "unit"}


def _value(raw: Any) -> tuple[float | None, str]:
    """A value and its unit: 30, "30.1", "1,024", "30 %" or {"value": 30, "unit": "%"}."""
    if isinstance(raw, dict) and _is_value(raw):
        return _value(raw.get("value"))[0], str(raw.get("unit") or "")
    if isinstance(raw, str):
        number, _, unit = raw.strip().partition(" ")
        number, unit = (number[:-1], "%") if number.endswith("%") else (number, unit)
        return parse_number(number), unit
    if isinstance(raw, bool) or not isinstance(raw, int | float):
        return None, ""
    return (float(raw) if math.isfinite(raw) else None), ""
