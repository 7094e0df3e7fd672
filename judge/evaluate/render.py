"""An evaluation as text of at most 80 columns: the verdict first, then its evidence."""

from collections import Counter
from collections.abc import Iterable

from judge.evaluate.result import UNCHECKED, Evaluation, Ratio, Timing
from kb.printable import wrapped

_NAME = 14  # "max-autotune" and a little


def render(evaluation: Evaluation) -> str:
    """Verdict and reasons, times, correctness, disclosures, sandbox."""
    notes = [*evaluation.disclosures, *([] if evaluation.calibrated else [UNCHECKED])]
    blocks = [
        _head(evaluation),
        _times(evaluation),
        _floor(evaluation),
        _correctness(evaluation),
        ["Note:", *_bullets(notes)] if notes else [],
        _foot(evaluation),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _head(evaluation: Evaluation) -> list[str]:
    title = f"{evaluation.kernel} on {evaluation.problem}"
    lines = wrapped(f"{evaluation.verdict.value.upper()}: {title}")
    return lines + _bullets(evaluation.reasons)


def _times(evaluation: Evaluation) -> list[str]:
    if not evaluation.timings:
        return []
    ratios = {ratio.over: ratio for ratio in evaluation.ratios}
    lines = [
        f"{'contender':<{_NAME}} {'median':>9} {'p10 to p90':>17} {'floor':>6}  "
        "speedup of candidate"
    ]
    lines += [_row(timing, ratios.get(timing.contender)) for timing in evaluation.timings]
    first = evaluation.timings[0]
    method = {"graph": "graph replay", "events": "CUDA events", "clock": "the clock"}[first.method]
    lines.append(f"Cold, interleaved, by {method}; {first.launches} launches each; ms.")
    for timing in evaluation.timings:
        lines += _bullets(f"{timing.contender}: {flag}" for flag in timing.flagged)
    for wall in evaluation.walls:
        if not wall.passed:
            lines += _bullets([f"{wall.contender}: {wall.detail}"])
    return lines


def _row(timing: Timing, ratio: Ratio | None) -> str:
    name = timing.contender
    name = name if len(name) <= _NAME else name[: _NAME - 1] + "…"
    spread = f"{timing.p10_ms:.4g} to {timing.p90_ms:.4g}"
    share = "-" if timing.floor_fraction is None else f"{timing.floor_fraction:.2f}"
    mark = "!" if timing.floor_fraction is not None and timing.floor_fraction > 1 else " "
    times = f"{timing.median_ms:>9.4g} {spread:>17} {share:>6}{mark}"
    return f"{name:<{_NAME}} {times} {_ratio(ratio)}".rstrip()


def _ratio(ratio: Ratio | None) -> str:
    if ratio is None:
        return ""
    interval = f"({ratio.low:.3f} to {ratio.high:.3f})"
    return f"{ratio.ratio:.3f} {interval}" if ratio.significant else f"none {interval}"


def _floor(evaluation: Evaluation) -> list[str]:
    floor, ceilings = evaluation.floor, evaluation.ceilings
    if floor is None:
        return []
    text = f"Floor {floor.ms:.4g} ms ({floor.bound}): reads {_bytes(floor.read_bytes)}, writes "
    text += f"{_bytes(floor.write_bytes)}, {floor.flops:.3g} FLOP."
    if ceilings is not None:
        text += (
            f" Measured here: read {ceilings.read_bps / 1e12:.2f}, write "
            f"{ceilings.write_bps / 1e12:.2f}, copy {ceilings.copy_bps / 1e12:.2f} TB/s"
        )
        rates = [f"{dtype} {rate / 1e12:.0f}" for dtype, rate in ceilings.matmul_flops.items()]
        text += f"; matmul {', '.join(rates)} TFLOP/s." if rates else "."
    return wrapped(text) + _bullets(floor.notes)


def _correctness(evaluation: Evaluation) -> list[str]:
    cases = evaluation.cases
    if not cases:
        return []
    counted = [case for case in cases if case.counted]
    passed = sum(case.passed for case in counted)
    shapes = Counter(case.shape for case in counted)
    counts = ", ".join(f"{count} at {shape} shape" for shape, count in sorted(shapes.items()))
    line = f"{passed} of {len(counted)} cases right"
    if evaluation.oracle:  # none where the kernel could not even be loaded
        line += f" against {evaluation.oracle}"
    lines = wrapped(f"{line} ({counts})." if counts else f"{line}.")
    worst = max(
        (case for case in counted if case.norm_ratio is not None),
        key=lambda case: case.norm_ratio or 0.0,
        default=None,
    )
    if worst is not None and worst.tolerance is not None:
        lines += wrapped(
            f"Largest errors: norm {worst.norm_ratio:.2g} (allowed {worst.tolerance:.2g}), element "
            f"{worst.max_rel:.2g} (allowed {worst.tolerance_max_rel:.2g}), absolute "
            f"{worst.max_abs:.2g}; {worst.shape} shape, {worst.kind} values."
        )
    if any(case.bit_exact_required for case in cases):
        lines.append("No rounding is needed here, so equality was required.")
    if evaluation.power:
        proven = sum(check.proven for check in evaluation.power)
        lines.append(f"{proven} of {len(evaluation.power)} deliberate mistakes would be refused.")
    return lines


def _foot(evaluation: Evaluation) -> list[str]:
    where = evaluation.gpu or ("Triton's interpreter" if evaluation.interpreted else "CPU")
    versions = ", ".join(f"{name} {version}" for name, version in evaluation.versions.items())
    setting = f"{evaluation.dtype or 'dtypes as given'}, {evaluation.precision}"
    lines = wrapped(f"{where}; {setting}; {versions}; {evaluation.seconds:.0f} s.")
    on = [layer.name.value for layer in evaluation.sandbox if layer.active]
    off = [layer.name.value for layer in evaluation.sandbox if not layer.active]
    if evaluation.sandbox:
        text = f"Sandbox: {', '.join(on) or 'none'}"
        lines += wrapped(text + (f"; not active: {', '.join(off)}" if off else ""))
    return lines


def _bullets(texts: Iterable[str]) -> list[str]:
    return [line for text in texts for line in wrapped(text, "- ", "  ")]


def _bytes(count: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} B"
