"""Reads what a diagnosis starts from: a profile of ours, or metrics as any user of ncu has them."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from agent.evaluate.result import Evaluation
from agent.profile.result import KernelProfile, Profile, StaticFacts
from kb.errors import InvalidInputError
from kb.vocabulary import find_metric

_T = TypeVar("_T", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Measured:
    """One kernel's metrics, and what the profile says about it."""

    metrics: Mapping[str, float]
    kernel: str | None = None
    gpu: str | None = None
    architecture: str | None = None
    share: float = 1.0
    static: StaticFacts | None = None
    words: str = ""
    notes: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()


def read_profile(text: str, where: str) -> Measured:
    """Read `kb profile --json`, or one object of metric → number, or kernel → such an object.

    Metrics may go by their aliases. A value that is null or no number (`n/a`) is missing.

    Raises
    ------
    InvalidInputError
        It is none of these, or a metric has a value that cannot be measured; names `where`.
    """
    data = _json(text, where)
    if "kernels" in data and "problem" in data:
        data.pop("profile", None)  # the dominant kernel's metrics once more, for other readers
        return from_profile(_validated(Profile, data, where))
    if data and all(isinstance(value, dict) for value in data.values()):
        return _of_several(data, where)
    if not data:
        raise InvalidInputError(
            f"{where} holds no metric: expected Nsight Compute metric -> number"
        )
    return _of_one(data, where, None)


def from_profile(profile: Profile) -> Measured:
    """The kernel that takes most of the time; where none ran, what its machine code shows."""
    dominant = profile.dominant
    functions = [each.name for each in profile.kernels] + [each.name for each in profile.static]
    words = " ".join((profile.problem, profile.kernel, *functions))
    notes = list(profile.notes)
    if dominant is None:
        static = max(profile.static, key=lambda each: each.instructions, default=None)
        return Measured(
            {}, static.name if static else None, profile.gpu, profile.architecture,
            static=static, words=words, notes=tuple(notes),
        )  # fmt: skip
    notes += _others(profile.kernels)
    if dominant.missing:
        some = ", ".join(dominant.missing[:3]) + (", ..." if len(dominant.missing) > 3 else "")
        notes.append(f"{len(dominant.missing)} metrics are missing on this card: {some}")
    static = dominant.static or _static_of(profile, dominant.name)
    metrics = _numbers(dict(dominant.metrics), f"profile of '{dominant.name}'")
    return Measured(
        metrics[0], dominant.name, profile.gpu, profile.architecture, dominant.share,
        static, words, tuple(notes), metrics[1],
    )  # fmt: skip


def read_evaluation(text: str, where: str) -> Evaluation:
    """Read `kb evaluate --json`.

    Raises
    ------
    InvalidInputError
        It is none; names `where`.
    """
    return _validated(Evaluation, _json(text, where), where)


def _json(text: str, where: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"{where} is not JSON: {error}") from error
    if not isinstance(data, dict):
        raise InvalidInputError(f"{where} must hold one JSON object")
    return data


def _validated(model: type[_T], data: dict[str, Any], where: str) -> _T:
    try:
        return model.model_validate_json(json.dumps(data))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        name = model.__name__.lower()
        raise InvalidInputError(f"{where} is no {name}: '{place}': {first['msg']}") from error


def _static_of(profile: Profile, name: str) -> StaticFacts | None:
    return next((each for each in profile.static if each.name == name), None)


def _others(kernels: tuple[KernelProfile, ...]) -> list[str]:
    if len(kernels) < 2:
        return []
    first, *others = kernels
    rest = ", ".join(f"{each.name} {each.share:.0%}" for each in others[:3])
    return [f"{first.name} takes {first.share:.0%} of the time; the others are not judged: {rest}"]


def _of_several(data: dict[str, Any], where: str) -> Measured:
    """Kernel → metrics: the one with the longest duration."""
    read = {name: _of_one(metrics, f"{where}: '{name}'", name) for name, metrics in data.items()}
    if len(read) == 1:
        return next(iter(read.values()))
    duration = find_metric("duration")
    assert duration is not None
    times = {name: each.metrics.get(duration.name) for name, each in read.items()}
    known = {name: value for name, value in times.items() if value is not None}
    if len(known) < len(read):
        raise InvalidInputError(
            f"{where} holds {len(read)} kernels, not all with {duration.name}: "
            "add it, or give the metrics of one kernel"
        )
    longest = max(known, key=lambda name: known[name])
    total = sum(known.values())
    share = known[longest] / total if total else 1.0
    one = read[longest]
    note = f"{longest} takes {share:.0%} of the time; the other kernels are not judged"
    return Measured(
        one.metrics, longest, share=share, words=longest, notes=(note,), ignored=one.ignored
    )


def _of_one(data: dict[str, Any], where: str, kernel: str | None) -> Measured:
    metrics, ignored = _numbers(data, where)
    return Measured(metrics, kernel, words=kernel or "", ignored=ignored)


def _numbers(data: dict[str, Any], where: str) -> tuple[dict[str, float], tuple[str, ...]]:
    known: dict[str, float] = {}
    ignored: list[str] = []
    for key, value in data.items():
        metric = find_metric(key)
        if metric is None:
            ignored.append(key)
            continue
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue  # null, "n/a", "N/A (no such counter)": missing, which is not zero
        if not math.isfinite(value):
            continue
        if value < 0:
            raise InvalidInputError(f"{where}: {key} is {value}: no metric is below zero")
        known.setdefault(metric.name, float(value))
    return known, tuple(ignored)
