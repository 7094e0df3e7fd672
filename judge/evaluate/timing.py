"""Time all contenders of a problem with one method, and say what the times are worth.

One method for all (`planning`): replays of a CUDA graph of many launches where every contender can
be captured and the fastest takes less than 20 µs, CUDA events otherwise, the clock on a CPU. Cold,
interleaved in rounds of random order, on contents that never repeat (`interleave`, `sets`); claims
are held against the judge's clock (`wall`), differences against the noise (`statistics`), and times
against the floor (`floor`).
"""

import contextlib
import math
import random
import re
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Final

from judge.evaluate import floor as floors
from judge.evaluate import planning, wall
from judge.evaluate.buffers import Exporter
from judge.evaluate.ceilings import measure as measure_ceilings
from judge.evaluate.clocks import ClockWatch, card_id
from judge.evaluate.evenness import SHIFTED, UNEVEN, batch_means, unevenness
from judge.evaluate.floor import Work
from judge.evaluate.interleave import CheckLaunch, Contender, Interleaver, Plan, Track
from judge.evaluate.options import EAGER
from judge.evaluate.result import Ceilings, Clocks, Ratio, Timing, TimingReport, WallCheck
from judge.evaluate.session import Worker
from judge.evaluate.sets import InputSets
from judge.evaluate.statistics import MIN_ROUNDS, ratio_of_medians, summarise
from judge.progress import Progress, Say, silent
from judge.worker.messages import InputSpec, Precision, ValueKind

__all__ = ["FULL", "QUICK", "CheckLaunch", "Conditions", "Contender", "Effort", "Measurement",
           "Work", "measure", "report", "time_contenders"]  # fmt: skip

# Every fourth round of events runs free, for the wall clock: see `wall`.
_FREE_EVERY: Final = 4
# At least this many launches are checked, however long the oracle takes.
_MIN_CHECKS: Final = 4
# p90 - p10 above this share of the median is said.
_NOISY: Final = 0.2
# Wrong in this many checked launches, and in half of them, is no accident.
_SYSTEMATIC: Final = 4
_FIGURES: Final = re.compile(r"\d[\d.,e+-]*")


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to measure."""

    launches: int = 100
    """Launches of each contender that are enough, with events or the clock."""
    replays: int = 30
    """Replays that are enough, with graphs."""
    seconds_each: float = 3.0
    """Per contender, all told except checks; `statistics.MIN_ROUNDS` rounds are made anyway."""
    seconds_most: float = 20.0
    """Per contender, even if there are only three rounds by then."""
    check_seconds: float = 10.0
    """For comparing timed launches with the oracle."""


FULL: Final = Effort()
# A median of 40 is within a percent of that of 100 where the clock is steady; what a search keeps
# is timed in full at its end.
QUICK: Final = Effort(
    launches=40, replays=12, seconds_each=1.5, seconds_most=10.0, check_seconds=5.0
)


@dataclass(frozen=True, slots=True)
class Measurement:
    """What was measured, before anything is made of it."""

    plan: Plan
    tracks: dict[str, Track]
    """By contender, in the order they were given."""
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class _Findings:
    """What goes into the report beside times."""

    walls: list[WallCheck] = field(default_factory=list)
    cheats: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    flagged: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """What is odd about a contender's times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """On what contenders are timed, and how long."""

    problem: Worker
    """The problem worker, which makes the inputs."""
    inputs: Sequence[InputSpec]
    """Its reply to `describe_inputs` (kind "given") at the full shape, to which it is set."""
    exporter: Exporter
    """Where buffers come from; those made here are freed again. On a CPU the clock is used, and
    times mean little."""
    check_launch: CheckLaunch
    """Judges the outputs of one timed launch."""
    kind: ValueKind = ValueKind.GIVEN
    """Of the values that contenders are timed on."""
    limits: Effort = FULL
    """How long to measure."""
    say: Say = silent
    """Takes one line of progress."""


def time_contenders(
    contenders: Sequence[Contender],
    conditions: Conditions,
    *,
    precision: Precision,
    work: Work | None = None,
    ceilings: Ceilings | None = None,
) -> TimingReport:
    """Time every contender with one method, cold, interleaved, on contents that never repeat.

    Parameters
    ----------
    contenders
        The candidate first; one of them named "eager", whose wall clock calibrates the check.
    precision
        "ieee" or "tf32": which measured matmul rate bounds float32 products.
    work
        For the floor; without it the report has none.
    ceilings
        Those measured earlier in this session; by default they are measured here (CUDA only).

    Raises
    ------
    kb.errors.KbError
        The problem worker failed, or memory is short. A contender that fails is noted instead.
    """
    device = conditions.exporter.device
    cuda = device.type == "cuda"
    if cuda and ceilings is None:
        conditions.say(Progress("measuring the GPU's ceilings"))
        ceilings = measure_ceilings(str(device))
    watch = ClockWatch(card_id(str(device))) if cuda else None
    with watch or contextlib.nullcontext():
        measurement = measure(contenders, conditions)
    clocks = watch.clocks if watch else None
    return report(measurement, work=work, ceilings=ceilings, precision=precision, clocks=clocks)


def measure(contenders: Sequence[Contender], conditions: Conditions) -> Measurement:
    """Measure rounds until there is enough."""
    exporter, say = conditions.exporter, conditions.say
    sets = InputSets(conditions.problem, conditions.inputs, exporter, conditions.kind)
    try:
        with Interleaver(contenders, sets, conditions.check_launch) as interleaver:
            plan, notes = planning.choose(interleaver, say)
            say(Progress(f"timing by {plan.method}, {plan.sets} launches a batch"))
            checked = any(contender.checked for contender in contenders)
            _run_rounds(interleaver, plan, conditions.limits, checked)
            if plan.method == "events":  # a graph runs as a whole, in its turn
                say(Progress("checking for work outside stream order"))
                interleaver.look_for_turns()
            notes += interleaver.notes
            tracks = interleaver.tracks
            if not interleaver.pausing:
                notes.append(
                    "contenders could not be paused outside their turns, so one of them "
                    "could have kept the GPU busy while another was timed"
                )
    finally:
        sets.close()
    return Measurement(plan, tracks, tuple(notes))


def _run_rounds(interleaver: Interleaver, plan: Plan, limits: Effort, checked: bool) -> None:
    if plan.method == "graph":
        goal = limits.replays
    else:
        goal = max(MIN_ROUNDS, -(-limits.launches // plan.sets))
    secret = random.SystemRandom()
    start = time.monotonic()
    held_rounds = number = 0
    check_share = 1.0
    while interleaver.running and held_rounds < goal:
        held = plan.method != "events" or number % _FREE_EVERY != _FREE_EVERY - 1
        # The first round tells what a check costs; the rest are checked at random, to the end.
        check = checked and (number == 0 or secret.random() < check_share)
        interleaver.round(number, plan, held=held, check=check)
        number += 1
        held_rounds += held
        if number == 1:
            affordable = limits.check_seconds / max(interleaver.check_seconds, 1e-6)
            check_share = min(1.0, max(affordable, _MIN_CHECKS) / goal)
        spent = time.monotonic() - start - interleaver.check_seconds
        seconds = spent / max(1, len(interleaver.running))
        if held_rounds >= MIN_ROUNDS and seconds > limits.seconds_each:
            break
        if held_rounds >= wall.MIN_ROUNDS and seconds > limits.seconds_most:
            break


def report(
    measurement: Measurement,
    *,
    precision: Precision,
    work: Work | None = None,
    ceilings: Ceilings | None = None,
    clocks: Clocks | None = None,
) -> TimingReport:
    """Turn measurements into times, ratios, evidence and notes; the first track is the candidate's.

    Parameters are those of `time_contenders`.
    """
    findings = _Findings(notes=list(measurement.notes))
    if clocks is not None and clocks.note:
        findings.notes.append(clocks.note)
    _collect_evidence(measurement, findings)
    _even_out(measurement, findings)
    floor = floors.floor(work, ceilings, precision) if work and ceilings else None
    copy_ms = floors.copy_floor_ms(work, ceilings) if work and ceilings else None
    timings = []
    for name, track in measurement.tracks.items():
        times = [ms for row in track.times.values() for ms in row]
        if not times:
            continue
        summary = summarise(times)
        flags = findings.flagged[name]
        if floor is not None:
            flags += floors.flags(summary.median, floor.ms)
        if summary.p90 - summary.p10 > _NOISY * summary.median:
            flags.append("noisy: p90 and p10 differ by more than 20 % of the median")
        timings.append(
            Timing(
                contender=name,
                method=measurement.plan.method,
                median_ms=summary.median,
                p10_ms=summary.p10,
                p90_ms=summary.p90,
                launches=len(track.times) * measurement.plan.launches,
                floor_fraction=None if floor is None else floor.ms / summary.median,
                copy_floor_fraction=None if copy_ms is None else copy_ms / summary.median,
                flagged=tuple(flags),
            )
        )
    return TimingReport(
        timings=tuple(timings),
        ratios=_ratios(measurement),
        walls=tuple(findings.walls),
        floor=floor,
        ceilings=ceilings,
        clocks=clocks,
        cheats=tuple(findings.cheats),
        wrong=tuple(findings.wrong),
        notes=tuple(findings.notes),
        calibrated=EAGER in measurement.tracks and bool(measurement.tracks[EAGER].held),
    )


def _even_out(measurement: Measurement, findings: _Findings) -> None:
    """Give batch means for a contender some of whose launches work for the others.

    Only with events: by the clock, the first launch of a batch is slow for waking up, and a graph
    gives means anyway.
    """
    if measurement.plan.method != "events":
        return
    eager = measurement.tracks.get(EAGER)
    usual = max(0.0, unevenness(eager.times)) if eager else 0.0
    for number, (name, track) in enumerate(measurement.tracks.items()):
        uneven = unevenness(track.times)
        if uneven <= usual + UNEVEN:
            continue
        text = f"the mean launch of a batch takes {1 + uneven:.2f} times as long as the median one"
        findings.flagged[name].append(f"{text}, so the mean is reported")
        if number == 0 and uneven > usual + SHIFTED:
            findings.cheats.append(f"{text}: a few launches do the work of the others")
        track.times = batch_means(track.times)


def _ratios(measurement: Measurement) -> tuple[Ratio, ...]:
    (candidate, mine), *others = measurement.tracks.items()
    return tuple(
        Ratio(of=candidate, over=name, **asdict(ratio_of_medians(track.times, mine.times)))
        for name, track in others
        if set(mine.times) & set(track.times)
    )


def _collect_evidence(measurement: Measurement, findings: _Findings) -> None:
    """Failed checks of clock and outputs: the candidate's as evidence, others' as notes."""
    candidate = next(iter(measurement.tracks))
    for name, track in measurement.tracks.items():
        cheats = list(dict.fromkeys(track.cheats))
        wrong = _group_texts(track.wrong, track.checks)
        systematic = len(track.wrong) >= max(_SYSTEMATIC, math.ceil(track.checks / 2))
        if systematic and measurement.plan.method != "graph":
            # Calls were right and these launches are the same, but for being timed.
            cheats += [f"right when called, not when timed: {text}" for text in wrong]
            wrong = []
        wrong += _group_texts(track.overwritten, track.checks)
        for check in _wall_checks(name, measurement):
            findings.walls.append(check)
            if not check.passed:
                cheats.append(wall.statement(check))
                findings.flagged[name].append("the judge's clock disagrees with this time")
        if name == candidate:
            findings.cheats += cheats
            findings.wrong += wrong
            if track.failed is not None and not track.cheats:
                findings.wrong.append(f"failed while it was timed: {track.failed}")
        else:
            findings.notes += [f"{name}: {text}" for text in (*cheats, *wrong)]
            if track.failed is not None:
                findings.notes.append(f"{name} failed while it was timed: {track.failed}")


def _group_texts(texts: Sequence[str], checks: int) -> list[str]:
    """What was wrong, with how often; texts that differ in figures only are one."""
    alike: dict[str, list[str]] = {}
    for text in texts:
        alike.setdefault(_FIGURES.sub("#", text), []).append(text)
    return [f"{group[0]} ({len(group)} of {checks} checked launches)" for group in alike.values()]


def _wall_checks(name: str, measurement: Measurement) -> list[WallCheck]:
    """One check that tells most: a violated one, else that of held batches."""
    eager, track = measurement.tracks.get(EAGER), measurement.tracks[name]
    if eager is None:
        return []
    held = wall.check(name, track.held, eager.held, held=True)
    free = wall.check(name, track.free, eager.free, held=False)
    checks = [check for check in (held, free) if check is not None]
    return [check for check in checks if not check.passed] or checks[:1]
