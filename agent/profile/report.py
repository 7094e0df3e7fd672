"""Reads what `ncu --import … --csv --page raw` prints: one row a launch, kept apart by kernel."""

import csv
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from agent.profile.result import KernelProfile, LaunchProfile
from kb.errors import KbError
from kb.vocabulary import Metric, all_metrics

DURATION = "gpu__time_duration.sum"
# The columns of the raw page that are no metrics and that are used here.
_ID, _KERNEL, _BLOCK, _GRID, _DEVICE = "ID", "Kernel Name", "Block Size", "Grid Size", "Device"
_NUMBER = re.compile(r"[-+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
# Should ncu print prefixed units in spite of `--print-units base`: prefix -> factor.
_PREFIXES = {
    "": 1.0,
    "n": 1e-9,
    "u": 1e-6,
    "m": 1e-3,
    "k": 1e3,
    "K": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
}
_UNIT = re.compile(r"([numkKMGT]?)(byte|hz|Hz|second|sec|s|cycle|inst)s?")
_SECONDS = ("second", "sec", "s")


class ReportError(KbError):
    """What ncu printed is not its raw page as CSV."""

    status = 422


@dataclass(frozen=True, slots=True)
class Launch:
    """One row of the raw page."""

    index: int
    kernel: str
    device: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    values: Mapping[str, float] = field(default_factory=dict)


def parse_raw(text: str) -> list[Launch]:
    """Parse the raw page: a header row, a row of units, then one row a launch.

    ncu's own lines before the header (they start with `==`) are skipped. Values that are no finite
    number (`n/a`, `nan`, `(!) ...`, empty) are left out. Values are brought to base units by the
    row of units: byte, ns, Hz, %.

    Raises
    ------
    ReportError
        If there is no such header.
    """
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID",')), None)
    if start is None:
        raise ReportError("ncu printed no table: the report may hold no launch")
    rows = list(csv.reader(lines[start:]))
    header = rows[0]
    missing = [name for name in (_ID, _KERNEL) if name not in header]
    if missing:
        raise ReportError(f"ncu's table has no column '{missing[0]}'")
    units: dict[str, str] = {}
    launches = []
    for row in rows[1:]:
        if len(row) != len(header):
            continue
        cells = dict(zip(header, row, strict=True))
        if not cells[_ID].strip().isdigit():
            units = cells
            continue
        launches.append(_launch(cells, units))
    return launches


def _launch(cells: Mapping[str, str], units: Mapping[str, str]) -> Launch:
    values = {}
    for name, cell in cells.items():
        if "__" in name and (value := parse_number(cell)) is not None:
            values[name] = value * _to_base(units.get(name, ""))
    return Launch(
        index=int(cells[_ID]),
        kernel=cells[_KERNEL].strip(),
        device=cells.get(_DEVICE, ""),
        grid=_dimensions(cells.get(_GRID, "")),
        block=_dimensions(cells.get(_BLOCK, "")),
        values=values,
    )


def parse_number(cell: str) -> float | None:
    """`1,234.50` → 1234.5; what is no finite number, such as `n/a` → None."""
    if not _NUMBER.fullmatch(cell.strip()):
        return None
    value = float(cell.replace(",", ""))
    return value if math.isfinite(value) else None


def _dimensions(cell: str) -> tuple[int, ...]:
    """`(256, 1, 1)` → (256, 1, 1)."""
    return tuple(int(number) for number in re.findall(r"\d+", cell.replace(",", " ")))


def _to_base(unit: str) -> float:
    """Factor from a unit of ncu's to its base unit (ns, byte, byte/s, Hz); 1 for others."""
    numerator, _, denominator = unit.strip().partition("/")
    factor = 1.0
    if top := _UNIT.fullmatch(numerator):
        factor = _PREFIXES[top[1]] * (1e9 if top[2] in _SECONDS else 1.0)
    bottom = _UNIT.fullmatch(denominator)
    if bottom and bottom[2] in _SECONDS:
        factor /= _PREFIXES[bottom[1]]
    return factor


def profile_kernels(
    launches: Sequence[Launch], wanted: Iterable[Metric] | None = None
) -> tuple[KernelProfile, ...]:
    """Launches grouped by kernel name, the kernel with the most time first.

    Parameters
    ----------
    launches
        As `parse_raw` gives them.
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
    groups: dict[str, list[Launch]] = {}
    for launch in launches:
        groups.setdefault(launch.kernel, []).append(launch)
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
            values[metric.name] = _mean(metric.name, having)
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


def is_total(metric: str) -> bool:
    """Whether a metric is an amount of one launch (`.sum`, `.avg`, `.max` alone) and no rate."""
    return not metric.startswith("launch__") and metric.endswith((".sum", ".avg", ".max"))


def _mean(metric: str, launches: Sequence[Launch]) -> float:
    weights = [1.0 if is_total(metric) else each.values.get(DURATION, 0.0) for each in launches]
    if not sum(weights):  # no durations: every launch counts the same
        weights = [1.0] * len(launches)
    products = (w * each.values[metric] for w, each in zip(weights, launches, strict=True))
    return math.fsum(products) / math.fsum(weights)
