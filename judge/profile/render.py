"""A profile as text of 80 columns: every kernel by sections, then its machine code."""

from collections.abc import Iterator
from pathlib import PurePath

from judge.profile.result import KernelProfile, Profile, StaticFacts
from judge.profile.sass import opcode_classes
from kb.printable import WIDTH, wrapped
from kb.vocabulary import Metric, all_metrics, metric_sections

# Label and value columns; the longest label has 49 characters.
_LABEL = 52
_VALUE = 10
_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "K"))
_SCALED = ("byte", "byte/s", "Hz", "ops", "inst", "requests", "sectors", "wavefronts", "conflicts")
_MISSING = "N/A"


def render(profile: Profile) -> str:
    """The whole profile for a terminal or a file."""
    return "\n".join(_lines(profile)) + "\n"


def _lines(profile: Profile) -> Iterator[str]:
    yield _cut(f"{PurePath(profile.kernel).name} on {PurePath(profile.problem).name}")
    if profile.gpu:
        calls = f"{profile.calls} call{'s' * (profile.calls != 1)}"
        yield _cut(f"{profile.gpu}, Nsight Compute {profile.ncu_version}, {calls}, caches cold")
    for note in profile.notes:
        yield from _wrap(f"note: {note}")
    for number, kernel in enumerate(profile.kernels, 1):
        yield ""
        yield from _kernel(number, kernel)
    rendered = [kernel.static for kernel in profile.kernels]
    for facts in profile.static:
        if facts not in rendered:
            yield ""
            yield _cut(facts.name)
            yield from _static(facts)
    for report in profile.sanitizer:
        yield ""
        yield from _wrap(f"compute-sanitizer, {report.tool}: {report.detail}")
        for finding in report.findings:
            yield from _wrap(finding, indent="  ")
    if inactive := [layer for layer in profile.layers if not layer.active]:
        yield ""
        for layer in inactive:
            yield from _wrap(f"sandbox without {layer.name}: {layer.detail}")


def _kernel(number: int, kernel: KernelProfile) -> Iterator[str]:
    yield _cut(f"{number}. {kernel.name}")
    noun = "launch" if kernel.launches == 1 else "launches"
    yield (
        f"   {kernel.share:.1%} of the time: {kernel.launches} {noun}, "
        f"{duration(kernel.time_ns / max(1, kernel.launches))} each"
    )
    missing = []
    for section, title in metric_sections().items():
        lines = []
        for metric in (m for m in all_metrics() if m.section == section):
            value = kernel.metrics.get(metric.name)
            if value is None and metric.varies:
                missing.append(metric)
            else:
                lines.append(_row(metric, value))
        if lines:
            yield f"  {title}"
            yield from lines
    if missing:
        labels = ", ".join(m.label for m in missing)
        yield from _wrap(f"Not available on this GPU or in this ncu: {labels}", indent="  ")
    if kernel.static:
        yield from _static(kernel.static)


def _row(metric: Metric, value: float | None) -> str:
    number, unit = (_MISSING, "") if value is None else quantity(value, metric.unit)
    return f"    {metric.label:<{_LABEL}} {number:>{_VALUE}} {unit}".rstrip()


def quantity(value: float, unit: str) -> tuple[str, str]:
    """A value and its unit as shown: at most four digits before a prefix, two behind the point."""
    if unit == "ns":
        number, _, unit = duration(value).partition(" ")
        return number, unit
    if unit in _SCALED:
        for factor, prefix in _PREFIXES:
            if abs(value) >= factor:
                return f"{value / factor:.2f}", f"{prefix}{unit}"
    whole = value == int(value) and unit != "%"
    return (f"{value:.0f}" if whole else f"{value:.2f}"), unit


def duration(ns: float) -> str:
    """Nanoseconds in the unit that leaves one to three digits before the point."""
    for factor, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if ns >= factor:
            return f"{ns / factor:.3f} {unit}"
    return f"{ns:.0f} ns"


def _static(facts: StaticFacts) -> Iterator[str]:
    yield f"  Machine code ({facts.origin}, {facts.architecture})"
    spills = facts.spill_store_bytes + facts.spill_load_bytes
    parts = [
        f"{facts.registers} registers",
        f"spills: {facts.spill_store_bytes} bytes stored, {facts.spill_load_bytes} loaded"
        if spills
        else "no spills",
        f"{facts.stack_bytes} bytes of stack",
        f"{facts.shared_bytes} bytes of shared memory",
    ]
    if facts.threads_per_block:
        parts.append(f"{facts.threads_per_block} threads a block")
    parts.append(f"{facts.instructions} instructions")
    yield from _wrap(", ".join(parts), indent="    ")
    for kind in opcode_classes():
        if count := facts.mix.get(kind.name):
            row = f"    {kind.label:<{_LABEL}} {count:>{_VALUE}} {_by_width(facts, kind.name)}"
            yield row.rstrip()
    for opcode, count in facts.opcodes.items():
        yield _cut(f"      {opcode} x {count}")


def _by_width(facts: StaticFacts, kind: str) -> str:
    widths = facts.widths.get(kind, {})
    if len(widths) > 1:
        return f"{min(widths)}-{max(widths)} bit"
    return "".join(f"{width} bit" for width in widths)


def _wrap(text: str, indent: str = "") -> list[str]:
    return wrapped(text, indent, f"{indent}  ")


def _cut(line: str) -> str:
    return line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"
