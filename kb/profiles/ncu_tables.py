"""Reads what Nsight Compute prints: its raw and details pages as CSV, and its console output."""

import csv
import math
import re
from collections.abc import Iterable, Iterator, Mapping

from kb.errors import InvalidInputError
from kb.profiles.device import CAPABILITY
from kb.profiles.keys import is_read
from kb.profiles.launches import Launch
from kb.profiles.units import find_unit

# The columns of both pages that are no metrics and that are used here.
_ID, _KERNEL, _BLOCK, _GRID = "ID", "Kernel Name", "Block Size", "Grid Size"
# Those of the details page; a summary over launches has an average instead of a value.
_METRIC, _UNIT, _VALUES = "Metric Name", "Metric Unit", ("Metric Value", "Average")
_RULE = "Rule Description"
_NUMBER = re.compile(r"[-+]?(?:\d[\d,]*+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?")
# The console's line above each launch: name, (grid)x(block), context.
_LAUNCH = re.compile(
    r"^ {0,8}(\S.{0,2000}?) ?\((\d+), (\d+), (\d+)\)x\((\d+), (\d+), (\d+)\), Context "
)
_CAPABILITY_MARK = re.compile(r", CC (\d{1,2}\.\d)\b")
_OLD_LAUNCH = re.compile(r"^ {0,8}(\S.{0,2000}?), \d{4}-\w{3}-\d{2} [\d:]+, Context ")
_ROW = re.compile(r"^ {3,12}(\S(?:[^ ]| (?! )){0,200})\s{2,}(?:(\S{1,40})\s+)?(\S{1,40})\s*$")
_LONGEST_ROW = 400
# A rule's text on the console: `    OPT   Est. Speedup: 70%`, and the lines that are indented more.
_RULE_BEGINS = re.compile(r" {2,8}(?:OPT|INF|WRN) {1,8}\S")
_RULE_GOES_ON = re.compile(r" {9,16}\S")
# The longest rules of ncu have some fifteen lines.
_MAX_RULE_LINES = 40


# Of a launch's number and of the sizes of a grid.
_MAX_DIGITS = 18


def parse_table(text: str) -> list[Launch] | None:
    """Launches of any page that ncu prints as CSV (`--csv`, raw or details), or on the console.

    What the profiled program printed before it, and ncu's own lines (`==PROF==`), are skipped.
    None where the text holds no such page.

    Raises
    ------
    InvalidInputError
        If the page cannot be read.
    """
    if _header_line(text.splitlines()) is not None:
        return parse_csv(text)
    return _parse_console(text) if "Section: " in text and "Metric Name" in text else None


def parse_csv(text: str) -> list[Launch]:
    """Launches of a raw page (one row each) or a details page (a row for each metric).

    Values that are no finite number (`n/a`, `nan`, `(!) ...`, empty) are left out; all others are
    brought to base units: byte, ns, Hz, %.

    Raises
    ------
    InvalidInputError
        If there is no header of either page, or it cannot be read as CSV.
    """
    lines = text.splitlines()
    start = _header_line(lines)
    if start is None:
        raise InvalidInputError("ncu printed no table: the report may contain no launches")
    try:
        rows = list(csv.reader(lines[start:]))
    except csv.Error as error:
        raise InvalidInputError(f"ncu's table is not CSV: {error}") from error
    header = rows[0]
    if _KERNEL not in header:
        raise InvalidInputError(f"ncu's table has no column '{_KERNEL}'")
    if _METRIC in header:
        return _parse_details(header, rows[1:])
    if _ID not in header:
        raise InvalidInputError(f"ncu's table has no column '{_ID}'")
    full_rows = (row for row in rows[1:] if len(row) == len(header))
    return _parse_raw(dict(zip(header, row, strict=True)) for row in full_rows)


def _header_line(lines: list[str]) -> int | None:
    begins = ('"ID",', "ID,", '"Kernel Name",')
    return next((number for number, line in enumerate(lines) if line.startswith(begins)), None)


def _launch(index: int, cells: Mapping[str, str]) -> Launch:
    grid, block = (_dimensions(cells.get(column, "")) for column in (_GRID, _BLOCK))
    return Launch(index, cells[_KERNEL].strip(), grid, block)


def _parse_raw(rows: Iterable[Mapping[str, str]]) -> list[Launch]:
    units: Mapping[str, str] = {}
    launches = []
    for cells in rows:
        if not cells[_ID].strip().isdecimal():
            units = cells
            continue
        launch = _launch(_as_int(cells[_ID]), cells)
        launches.append(launch)
        for name, cell in cells.items():
            if launch.device.add(name, cell.strip()) or "__" not in name:
                continue
            if (value := parse_number(cell)) is not None:
                unit = find_unit(units.get(name, ""))
                launch.values[name] = value * (unit.factor if unit is not None else 1.0)
            if not is_read(name):
                launch.unknown.append(name)
    return launches


def _add_row(launch: Launch, name: str, unit: str, cell: str) -> None:
    value = parse_number(cell)
    if name and value is not None:
        launch.add(name, value, unit)


def _parse_details(header: list[str], rows: Iterable[list[str]]) -> list[Launch]:
    """Of a details page; a row may lack its last columns (rules), or hold a rule and no metric."""
    value = next((name for name in _VALUES if name in header), None)
    if value is None:
        raise InvalidInputError(f"ncu's table has no column '{_VALUES[0]}'")
    launches: dict[tuple[str, str], Launch] = {}
    for row in rows:
        cells = {name: cell.strip() for name, cell in zip(header, row, strict=False)}
        number = cells.get(_ID, "")
        if not {value, _METRIC, _KERNEL} <= cells.keys() or (number and not number.isdecimal()):
            continue
        launch = launches.get((number, cells[_KERNEL]))
        if launch is None:
            launch = _launch(_as_int(number) if number else len(launches), cells)
            launch.device.add(CAPABILITY, cells.get(CAPABILITY, ""))
            launches[number, launch.kernel] = launch
        _add_row(launch, cells[_METRIC], cells.get(_UNIT, ""), cells[value])
        if rule := cells.get(_RULE):
            launch.add_rule(rule)
    for launch in launches.values():
        launch.complete()
    return list(launches.values())


def _lines_and_rules(text: str) -> Iterator[tuple[str, bool]]:
    """Lines of the console, and whether one is a rule, whose lines are joined."""
    rule: list[str] = []
    for line in text.splitlines():
        if len(line) > _LONGEST_ROW * 6:
            continue
        if rule and _RULE_GOES_ON.match(line):
            if len(rule) < _MAX_RULE_LINES:
                rule.append(line)
            continue
        if rule:
            yield " ".join(rule), True
        rule = [line] if _RULE_BEGINS.match(line) else []
        if not rule:
            yield line, False
    if rule:
        yield " ".join(rule), True


def _parse_console(text: str) -> list[Launch]:
    parsed: list[Launch] = []
    for line, is_rule in _lines_and_rules(text):
        if is_rule:
            if parsed:
                parsed[-1].add_rule(line)
        elif (match := _LAUNCH.match(line)) is not None:
            grid, block = (
                tuple(_as_int(match[at]) for at in three) for three in ((2, 3, 4), (5, 6, 7))
            )
            parsed.append(Launch(len(parsed), match[1], grid, block))
            if (capability := _CAPABILITY_MARK.search(line)) is not None:
                parsed[-1].device.add(CAPABILITY, capability[1])
        elif (match := _OLD_LAUNCH.match(line)) is not None:
            parsed.append(Launch(len(parsed), match[1]))
        elif len(line) <= _LONGEST_ROW and (match := _ROW.match(line)) is not None:
            if not parsed:
                parsed.append(Launch(0, ""))
            _add_row(parsed[-1], match[1], match[2] or "", match[3])
    for launch in parsed:
        launch.complete()
    launches = [launch for launch in parsed if launch.values]
    if not launches:
        raise InvalidInputError("ncu's output has no known metric")
    return launches


def parse_number(cell: str) -> float | None:
    """`1,234.50` → 1234.5; what is no finite number, such as `n/a` → None."""
    if not _NUMBER.fullmatch(cell.strip()):
        return None
    value = float(cell.replace(",", ""))
    return value if math.isfinite(value) else None


def _dimensions(cell: str) -> tuple[int, ...]:
    """`(256, 1, 1)` → (256, 1, 1)."""
    return tuple(_as_int(number) for number in re.findall(r"\d+", cell.replace(",", " ")))


def _as_int(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise InvalidInputError(f"ncu's table holds a number of {len(digits)} digits")
    return int(digits)
