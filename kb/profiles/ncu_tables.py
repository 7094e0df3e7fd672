"""Reads what Nsight Compute prints: its raw and details pages as CSV, and its console output."""

import csv
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kb.errors import KbError
from kb.profiles.keys import is_read
from kb.profiles.launches import Launch
from kb.profiles.names import metrics_called, named_with_unit
from kb.profiles.units import find_unit

# The columns of both pages that are no metrics and that are used here.
_ID, _KERNEL, _BLOCK, _GRID, _DEVICE = "ID", "Kernel Name", "Block Size", "Grid Size", "Device"
# Those of the details page; a summary over launches has an average instead of a value.
_METRIC, _UNIT, _VALUES = "Metric Name", "Metric Unit", ("Metric Value", "Average")
_NUMBER = re.compile(r"[-+]?(?:\d[\d,]*+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?")
# The console's line above each launch: name, (grid)x(block), context.
_LAUNCH = re.compile(
    r"^ {0,8}(\S.{0,2000}?) ?\((\d+), (\d+), (\d+)\)x\((\d+), (\d+), (\d+)\), Context "
)
_OLD_LAUNCH = re.compile(r"^ {0,8}(\S.{0,2000}?), \d{4}-\w{3}-\d{2} [\d:]+, Context ")
_ROW = re.compile(r"^ {3,12}(\S(?:[^ ]| (?! )){0,200})\s{2,}(?:(\S{1,40})\s+)?(\S{1,40})\s*$")
_LONGEST_ROW = 400


class ReportError(KbError):
    """What ncu printed is not a page that is known here."""

    status = 422


def parse_table(text: str) -> list[Launch]:
    """Launches of any page that ncu prints as CSV (`--csv`, raw or details), or on the console.

    What the profiled program printed before it, and ncu's own lines (`==PROF==`), are skipped.

    Raises
    ------
    ReportError
        If there is no such page.
    """
    if _header_line(text.splitlines()) is None and "Metric Name" in text and "Section:" in text:
        return _parse_console(text)
    return parse_csv(text)


def looks_like_table(text: str) -> bool:
    """Whether a text holds a page of ncu's."""
    if _header_line(text.splitlines()) is not None:
        return True
    return "Section: " in text and "Metric Name" in text


def parse_csv(text: str) -> list[Launch]:
    """Launches of a raw page (one row each) or a details page (a row for each metric).

    Values that are no finite number (`n/a`, `nan`, `(!) ...`, empty) are left out; all others are
    brought to base units: byte, ns, Hz, %.

    Raises
    ------
    ReportError
        If there is no header of either page, or it cannot be read as CSV.
    """
    lines = text.splitlines()
    start = _header_line(lines)
    if start is None:
        raise ReportError("ncu printed no table: the report may hold no launch")
    try:
        rows = list(csv.reader(lines[start:]))
    except csv.Error as error:
        raise ReportError(f"ncu's table is no CSV: {error}") from error
    header = rows[0]
    if _KERNEL not in header:
        raise ReportError(f"ncu's table has no column '{_KERNEL}'")
    whole = [dict(zip(header, row, strict=True)) for row in rows[1:] if len(row) == len(header)]
    if _METRIC in header:
        return _of_details(header, rows[1:])
    if _ID not in header:
        raise ReportError(f"ncu's table has no column '{_ID}'")
    return _of_raw(whole)


def _header_line(lines: list[str]) -> int | None:
    return next(
        (
            number
            for number, line in enumerate(lines)
            if line.startswith(('"ID",', "ID,")) or (line.startswith('"Kernel Name",'))
        ),
        None,
    )


def _of_raw(rows: Iterable[Mapping[str, str]]) -> list[Launch]:
    units: Mapping[str, str] = {}
    launches = []
    for cells in rows:
        if not cells[_ID].strip().isdigit():
            units = cells
            continue
        values, unknown = {}, []
        for name, cell in cells.items():
            if "__" not in name:
                continue
            if (value := parse_number(cell)) is not None:
                unit = find_unit(units.get(name, ""))
                values[name] = value * (unit.factor if unit is not None else 1.0)
            if not is_read(name):
                unknown.append(name)
        launches.append(
            Launch(
                index=int(cells[_ID]),
                kernel=cells[_KERNEL].strip(),
                device=cells.get(_DEVICE, ""),
                grid=_dimensions(cells.get(_GRID, "")),
                block=_dimensions(cells.get(_BLOCK, "")),
                values=values,
                unknown=tuple(unknown),
            )
        )
    return launches


@dataclass(slots=True)
class _Rows:
    """A launch in the making, row by row."""

    index: int
    kernel: str
    device: str = ""
    grid: tuple[int, ...] = ()
    block: tuple[int, ...] = ()
    values: dict[str, float] = field(default_factory=dict)
    unknown: dict[str, None] = field(default_factory=dict)

    def add(self, name: str, unit: str, cell: str) -> None:
        """One metric; the unit tells which of several it is that go by the name."""
        value = parse_number(cell)
        if value is None or not name:
            return
        named = metrics_called(name)
        if not named and is_read(name):
            self.values[name] = value
        elif not named:
            self.unknown[name] = None
        elif (meant := named_with_unit(named, find_unit(unit))) is not None:
            self.values.setdefault(meant[0].metric.name, meant[0].value(value * meant[1]))

    def launch(self) -> Launch:
        return Launch(
            self.index, self.kernel, self.device, self.grid, self.block, self.values,
            tuple(self.unknown),
        )  # fmt: skip


def _of_details(header: list[str], rows: Iterable[list[str]]) -> list[Launch]:
    """Of a details page; a row may lack its last columns (rules), or hold a rule and no metric."""
    at = {name: header.index(name) for name in header}
    value_at = next((at[name] for name in _VALUES if name in at), None)
    if value_at is None:
        raise ReportError(f"ncu's table has no column '{_VALUES[0]}'")
    made: dict[tuple[str, str], _Rows] = {}
    for row in rows:
        if len(row) <= max(value_at, at[_METRIC], at[_KERNEL]):
            continue

        def cell(name: str, row: list[str] = row) -> str:
            return row[at[name]].strip() if name in at and at[name] < len(row) else ""

        number, kernel = cell(_ID), cell(_KERNEL)
        if number and not number.isdigit():
            continue
        launch = made.get((number, kernel))
        if launch is None:
            launch = made[number, kernel] = _Rows(
                int(number or len(made)), kernel, cell(_DEVICE), _dimensions(cell(_GRID)),
                _dimensions(cell(_BLOCK)),
            )  # fmt: skip
        launch.add(cell(_METRIC), cell(_UNIT), row[value_at])
    return [each.launch() for each in made.values()]


def _parse_console(text: str) -> list[Launch]:
    made: list[_Rows] = []
    for line in text.splitlines():
        if len(line) > _LONGEST_ROW * 6:
            continue
        if (match := _LAUNCH.match(line)) is not None:
            grid, block = (
                tuple(int(match[at]) for at in three) for three in ((2, 3, 4), (5, 6, 7))
            )
            made.append(_Rows(len(made), match[1], grid=grid, block=block))
        elif (match := _OLD_LAUNCH.match(line)) is not None:
            made.append(_Rows(len(made), match[1]))
        elif len(line) <= _LONGEST_ROW and (match := _ROW.match(line)) is not None:
            if not made:
                made.append(_Rows(0, ""))
            made[-1].add(match[1], match[2] or "", match[3])
    launches = [each.launch() for each in made if each.values]
    if not launches:
        raise ReportError("ncu's output holds no metric that is known here")
    return launches


def parse_number(cell: str) -> float | None:
    """`1,234.50` → 1234.5; what is no finite number, such as `n/a` → None."""
    if not _NUMBER.fullmatch(cell.strip()):
        return None
    value = float(cell.replace(",", ""))
    return value if math.isfinite(value) else None


def _dimensions(cell: str) -> tuple[int, ...]:
    """`(256, 1, 1)` → (256, 1, 1)."""
    return tuple(int(number) for number in re.findall(r"\d+", cell.replace(",", " ")))
