"""Converts an `Evaluation` into an `Outcome` and baselines."""

import re
from collections.abc import Sequence
from typing import Final

from agent.optimize.candidate import Baseline, Candidate, Outcome, Stage
from judge.evaluate.result import RIGHT, UNCHECKED, Evaluation, Ratio, Timing
from kb.errors import KbError

CANDIDATE: Final = "candidate"
# What a proposer can use of a failure; compilers write pages.
_REASON_CHARS: Final = 2000
_MAX_REASONS: Final = 8
# What a timing, an outcome and a baseline have in common.
_TIMES: Final = {"median_ms", "p10_ms", "p90_ms", "floor_fraction"}
# `kernel.py` timed beside the candidate is called `1:kernel.py`.
_NUMBERED = re.compile(r"^(\d+):")


def outcome_of(
    candidate: Candidate,
    evaluation: Evaluation,
    *,
    against: Sequence[str] = (),
    attempt: int = 1,
    gpu_seconds: float = 0.0,
) -> Outcome:
    """The outcome of a candidate's evaluation.

    `against` names the further kernel files, in order: `leader`, `start`. The `attempt` is 1 for a
    proposal, 2 for its first repair.
    """
    timing = timing_of(evaluation)
    stage = _stage(evaluation, timing)
    disclosures = [*evaluation.disclosures, *([] if evaluation.calibrated else [UNCHECKED])]
    reasons = list(evaluation.reasons)
    if evaluation.verdict not in RIGHT:
        problems = [case.problem for case in evaluation.cases if case.problem is not None]
        # Reasons name the case, and so are longer.
        reasons += [
            problem for problem in problems if not any(problem in reason for reason in reasons)
        ]
    reasons = list(dict.fromkeys(clip(reason) for reason in reasons))
    if stage is Stage.TIME and not reasons:
        reasons = ["it is right but was not timed"]
    return Outcome(
        candidate=candidate.id,
        stage=stage,
        verdict=evaluation.verdict,
        reasons=tuple(reasons[:_MAX_REASONS]),
        error=evaluation.fault.error if evaluation.fault is not None else None,
        disclosures=tuple(clip(disclosure) for disclosure in disclosures),
        **(timing.model_dump(include=_TIMES) if timing else {}),
        ratios=tuple(_rename_over(ratio, against) for ratio in evaluation.ratios),
        error_share=_error_share(evaluation),
        language=evaluation.language,
        attempts=attempt,
        gpu_seconds=gpu_seconds,
    )


def _error_share(evaluation: Evaluation) -> float | None:
    """The largest norm-wise error over its bound; None where nothing was compared."""
    shares = [
        case.norm_ratio / case.tolerance
        for case in evaluation.cases
        if case.counted and case.norm_ratio is not None and case.tolerance
    ]
    return max(shares, default=None)


def _stage(evaluation: Evaluation, timing: Timing | None) -> Stage:
    if evaluation.verdict in RIGHT:
        return Stage.DONE if timing is not None or evaluation.interpreted else Stage.TIME
    fault = evaluation.fault
    return Stage.COMPILE if fault is not None and fault.compiling else Stage.VERIFY


def baselines_of(evaluation: Evaluation, against: Sequence[str] = ()) -> dict[str, Baseline]:
    """Times of all contenders except the candidate, by name."""
    return {
        _contender_name(timing.contender, against): baseline_of(timing)
        for timing in evaluation.timings
        if timing.contender != CANDIDATE
    }


def baseline_of(timing: Timing) -> Baseline:
    """A contender's time as a baseline."""
    return Baseline(**timing.model_dump(include=_TIMES), note="; ".join(timing.flagged))


def timing_of(evaluation: Evaluation) -> Timing | None:
    """The candidate's times, if it was timed."""
    return next((timing for timing in evaluation.timings if timing.contender == CANDIDATE), None)


def failure(candidate: Candidate, stage: Stage, reason: str, attempt: int = 1) -> Outcome:
    """The outcome of a candidate that was not judged."""
    return Outcome(candidate=candidate.id, stage=stage, reasons=(clip(reason),), attempts=attempt)


def describe(error: Exception) -> str:
    """An error in one line."""
    text = str(error) if isinstance(error, KbError) else f"{type(error).__name__}: {error}"
    return clip(" ".join(text.split()))


def clip(text: str) -> str:
    """At most `_REASON_CHARS` characters that can be written as UTF-8, the end rather than the
    middle left out."""
    text = text.encode("utf-8", errors="replace").decode()
    if len(text) <= _REASON_CHARS:
        return text
    half = _REASON_CHARS // 2
    return f"{text[:half]} […] {text[-half:]}"


def _rename_over(ratio: Ratio, against: Sequence[str]) -> Ratio:
    return ratio.model_copy(update={"over": _contender_name(ratio.over, against)})


def _contender_name(contender: str, against: Sequence[str]) -> str:
    match = _NUMBERED.match(contender)
    if match is None:
        return contender
    number = int(match.group(1)) - 1
    return against[number] if number < len(against) else contender
