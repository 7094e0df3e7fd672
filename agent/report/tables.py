"""The tables of a report, from a run's record alone: contenders, rounds, metrics, costs."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agent.optimize.candidate import Judged
from agent.optimize.proposers import Spending
from agent.optimize.record import Record
from agent.optimize.summary import ROWS, Row, Summary, compare
from agent.report.words import change, milliseconds
from judge.profile.render import quantity
from kb.vocabulary import Metric, all_metrics, metric_sections


@dataclass(frozen=True, slots=True)
class Contender:
    """One row of the four-way table."""

    name: str
    median_ms: float
    floor_fraction: float | None
    gain: str
    """Speedup of the best over it; `none` within the noise; empty for the best itself."""
    verdict: str
    """Empty for PyTorch's own forms, which are not judged."""
    disclosures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """The best kernel after one round."""

    round: int
    judged: int
    right: int
    best: Judged
    gain: str
    """Gain over the previous leader; `none` if the leader stayed."""
    over_start: str
    finished: bool
    """False for a round that was interrupted."""


@dataclass(frozen=True, slots=True)
class MetricRow:
    """One metric of the start and of the best."""

    section: str
    label: str
    before: str
    after: str
    change: str
    """Relative change, or empty."""


def contenders(record: Record, summary: Summary) -> list[Contender]:
    """Eager, compiled, start and best, with verdicts."""
    keys = {name: key for key, name in ROWS}
    rows = []
    confirmed = record.confirmed.get(summary.best.id)
    final = confirmed.judged if confirmed is not None else summary.best
    for row in summary.rows:
        judged = {"start": summary.start, "best": final}.get(row.name)
        verdict = str(judged.outcome.verdict or "not judged") if judged is not None else ""
        remarks = judged.outcome.disclosures if judged is not None else ()
        baseline = record.baselines.get(keys.get(row.name, ""))
        if baseline is not None and baseline.note:
            remarks = (*remarks, baseline.note)
        rows.append(
            Contender(row.name, row.median_ms, row.floor_fraction, change(row), verdict, remarks)
        )
    return rows


def running_best(record: Record) -> list[Step]:
    """The best after each round. The last round may be unfinished."""
    steps = []
    start, leader_before = record.start, record.start.id
    for number, round_ in sorted(record.rounds.items()):
        judged = [record.find(item.id) for item in round_.in_order()]
        if not judged and round_.closed is None:
            continue
        gain = "–"
        leader = record.find(round_.closed.leader if round_.closed is not None else leader_before)
        if round_.closed is not None:
            gain = f"{round_.closed.gain:+.1%}" if leader.id != leader_before else "none"
        steps.append(
            Step(
                round=number,
                judged=len(judged),
                right=sum(item.outcome.right for item in judged),
                best=leader,
                gain=gain,
                over_start=over_start(leader, start),
                finished=round_.closed is not None,
            )
        )
        leader_before = leader.id
    return steps


def over_start(judged: Judged, start: Judged) -> str:
    """Speedup over the start, paired if both were timed in one session."""
    judged_ms, start_ms = judged.outcome.median_ms, start.outcome.median_ms
    if judged.id == start.id or judged_ms is None or start_ms is None:
        return "–"
    return change(compare(Row(name="start", median_ms=start_ms), "start", judged))


def metrics(start: Judged, best: Judged) -> list[MetricRow]:
    """Metrics that the start or the best has, by section."""
    before, after = start.outcome.profile or {}, best.outcome.profile or {}
    titles = metric_sections()
    same = best.id == start.id
    rows = []
    known_metrics = {metric.name: metric for metric in all_metrics()}
    others = sorted((before.keys() | after.keys()) - known_metrics.keys())
    for name in (*known_metrics, *others):
        if name not in before and name not in after:
            continue
        metric = known_metrics.get(name) or Metric(name, "", name, "")
        first, last = before.get(name), after.get(name)
        rows.append(
            MetricRow(
                section=titles.get(metric.section, "Other"),
                label=metric.label,
                before=_format_value(first, metric.unit),
                after="" if same else _format_value(last, metric.unit),
                change="" if same else _relative_change(first, last),
            )
        )
    return rows


def _format_value(value: float | None, unit: str) -> str:
    if value is None:
        return "N/A"
    if not math.isfinite(value):
        return str(value)
    number, scaled = quantity(value, unit)
    return f"{number} {scaled}".strip()


def _relative_change(first: float | None, last: float | None) -> str:
    if not first or last is None or not (math.isfinite(first) and math.isfinite(last)):
        return ""
    return f"{last / first - 1:+.0%}"


def accounting(record: Record) -> list[tuple[str, str]]:
    """Cost of the run."""
    rows = [
        ("Wall time", f"{record.wall:.0f} s"),
        ("GPU time", f"{record.gpu_seconds:.1f} s"),
        ("of which judging and profiling", f"{record.judge_seconds:.1f} s"),
    ]
    if record.standing is not None:
        text = f"{record.baseline_seconds:.1f} s, not counted as GPU time"
        rows.append(("Compiling and tuning baselines", text))
    rows += [(f"Proposer {name}", _costs(spent)) for name, spent in sorted(record.spent.items())]
    return [*rows, ("All proposers", _costs(record.total))]


def _costs(spent: Spending) -> str:
    parts = [f"{spent.gpu_seconds:.1f} s of GPU time"]
    if spent.tokens_in or spent.tokens_out:
        parts.append(f"{spent.tokens_in} tokens in, {spent.tokens_out} out")
        parts.append(f"cost {spent.money:.4g}" if spent.money else "no price given")
    else:
        parts.append("no tokens")
    return "; ".join(parts)


def environment(record: Record, machine: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Card, versions and machine."""
    rows: list[tuple[str, str]] = []
    standing = record.standing
    if standing is not None:
        card = standing.gpu or "none: a dry run"
        architecture = f" ({standing.architecture})" if standing.architecture else ""
        rows.append(("GPU", card + architecture))
        if standing.devices:
            rows.append(("Devices", ", ".join(standing.devices)))
        rows += list(_ceiling_rows(record))
        rows += [(f"Version of {name}", value) for name, value in standing.versions.items()]
    seen = {label.removeprefix("Version of ").lower() for label, _ in rows}
    rows += [(str(k), str(v)) for k, v in machine.items() if str(k).lower() not in seen]
    return rows


def _ceiling_rows(record: Record) -> Iterator[tuple[str, str]]:
    standing = record.standing
    assert standing is not None
    floor, ceilings = standing.floor, standing.ceilings
    if floor is not None:
        yield (
            "Floor",
            f"{milliseconds(floor.ms)} ms, bound by {floor.bound}: "
            f"{(floor.read_bytes + floor.write_bytes) / 1e6:.4g} MB, {floor.flops / 1e9:.4g} GFLOP",
        )
        for note in floor.notes:
            yield "Note on the floor", note
    if ceilings is not None:
        yield "Copy bandwidth, measured", f"{ceilings.copy_bps / 1e9:.0f} GB/s"
        for dtype, rate in ceilings.matmul_flops.items():
            yield f"Matrix product in {dtype}, measured", f"{rate / 1e12:.0f} TFLOP/s"
