"""Reads what a diagnosis starts from: a profile of ours, or metrics as any user of ncu has them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from judge.evaluate.result import Evaluation
from judge.profile.result import KernelProfile, Profile, StaticFacts
from judge.profile.static import source_name
from kb.errors import InvalidInputError
from kb.profiles.device import Device
from kb.profiles.keys import resolve_profile, with_derived
from kb.profiles.ncu_tables import parse_table
from kb.profiles.ptxas import KernelResources, is_ptxas, parse_ptxas
from kb.profiles.reading import kernels_called, launch_of
from kb.profiles.reading import read_profile as read_any_profile
from kb.refusals import refusal

# Characters of a note's list of names.
_MAX_NAMES = 200
_T = TypeVar("_T", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class ProfileData:
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


def read_profile(text: str, where: str, kernel_name: str | None = None) -> ProfileData:
    """Read `kb profile --json`, or what `kb.profiles.reading` reads of any user of ncu.

    Raises
    ------
    InvalidInputError
        It is none of these, a metric has a value that cannot be measured, or no kernel of it goes
        by `kernel_name`; names `where`.
    """
    data = _parse_own(text)
    if data is not None:
        data.pop("profile", None)  # the dominant kernel's metrics once more, for other readers
        return from_profile(_validate(Profile, data, where), kernel_name)
    if is_ptxas(text) and parse_table(text) is None:
        return _from_ptxas(text, where, kernel_name)
    loaded = read_any_profile(text, where, kernel_name)
    spec, name = loaded.device.spec, loaded.device.name
    notes = list(loaded.notes)
    if name and spec is None:
        notes.append(f"the profile names a GPU that is not in the table of GPUs: '{name}'")
    return ProfileData(
        loaded.metrics, loaded.kernel, name if spec else None, spec.architecture if spec else None,
        loaded.share, words=loaded.kernel or "", notes=tuple(notes), ignored=loaded.ignored,
    )  # fmt: skip


def _parse_own(text: str) -> dict[str, Any] | None:
    """What `kb profile --json` printed; None if it did not."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    is_ours = isinstance(data, dict) and "kernels" in data and "problem" in data
    return data if is_ours else None


def _from_ptxas(text: str, where: str, kernel_name: str | None) -> ProfileData:
    """The kernel of a compiler's log that spills most, then that with most registers."""
    kernels: dict[str, KernelResources] = {}
    for resources in parse_ptxas(text):
        name = source_name(resources.function)
        # Instances of one template have the same name in the source.
        kernels[resources.function if name in kernels else name] = resources
    if not kernels:
        raise InvalidInputError(
            f"{where} is a ptxas log without registers: give the output of `nvcc -Xptxas -v`, or a "
            "profile from `ncu --set full --csv --page raw`"
        )
    names = list(kernels)
    if kernel_name is not None:
        names = kernels_called(kernel_name, names, where)
    name = max(names, key=lambda key: (kernels[key].spill_bytes, kernels[key].registers or 0))
    kernel = kernels[name]
    static = StaticFacts(
        function=kernel.function, name=name, origin="nvcc", architecture=kernel.architecture,
        registers=kernel.registers or 0, spill_store_bytes=kernel.spill_store_bytes,
        spill_load_bytes=kernel.spill_load_bytes, stack_bytes=kernel.stack_bytes,
        shared_bytes=kernel.shared_bytes, instructions=0,
    )  # fmt: skip
    metrics = {
        "registers_per_thread": float(static.registers),
        "static_shared_mem_per_block": float(static.shared_bytes),
    }
    notes = ["this is a compiler log: only an ncu profile shows where the time goes"]
    if len(names) > 1:
        others = ", ".join(key for key in names if key != name)
        notes.append(
            f"of {len(names)} kernels, {name} has the most spills and registers and is diagnosed "
            f"(--kernel-name selects another): {others[:_MAX_NAMES]}"
        )
    return ProfileData(
        resolve_profile(metrics)[0], name or None, architecture=kernel.architecture or None,
        static=static, words=name, notes=tuple(notes),
    )  # fmt: skip


def from_profile(profile: Profile, kernel_name: str | None = None) -> ProfileData:
    """The kernel that takes most of the time, or the one that is named; where none ran, what its
    machine code shows.

    Raises
    ------
    InvalidInputError
        No kernel of it goes by `kernel_name`.
    """
    dominant = profile.dominant
    if kernel_name is not None and profile.kernels:
        names = [kernel.name for kernel in profile.kernels]
        name = kernels_called(kernel_name, names, f"the profile of {profile.kernel}")[0]
        dominant = next(kernel for kernel in profile.kernels if kernel.name == name)
    functions = [kernel.name for kernel in profile.kernels] + [
        facts.name for facts in profile.static
    ]
    words = " ".join((profile.problem, profile.kernel, *functions))
    notes = list(profile.notes)
    if dominant is None:
        static = max(profile.static, key=lambda facts: facts.instructions, default=None)
        return ProfileData(
            {}, static.name if static else None, profile.gpu, profile.architecture,
            static=static, words=words, notes=tuple(notes),
        )  # fmt: skip
    notes += _others_note(dominant, profile.kernels)
    if dominant.missing:
        listed = ", ".join(dominant.missing[:3]) + (", ..." if len(dominant.missing) > 3 else "")
        notes.append(f"{len(dominant.missing)} metrics are missing on this GPU: {listed}")
    matching = (facts for facts in profile.static if facts.name == dominant.name)
    static = dominant.static or next(matching, None)
    launch = launch_of(dominant.metrics, f"profile of '{dominant.name}'", 0, dominant.name)
    values = with_derived(launch.values, Device(profile.gpu or "").warps_per_scheduler)
    return ProfileData(
        values, dominant.name, profile.gpu, profile.architecture, dominant.share, static, words,
        tuple(notes), tuple(launch.unknown),
    )  # fmt: skip


def read_evaluation(text: str, where: str) -> Evaluation:
    """Read `kb evaluate --json`.

    Raises
    ------
    InvalidInputError
        It is none; names `where`.
    """
    return _validate(Evaluation, _json(text, where), where)


def _json(text: str, where: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"{where} is not JSON: {error}") from error
    if not isinstance(data, dict):
        raise InvalidInputError(f"{where} must hold one JSON object")
    return data


def _validate(model: type[_T], data: dict[str, Any], where: str) -> _T:
    try:
        return model.model_validate_json(json.dumps(data))
    except ValidationError as error:
        name = model.__name__.lower()
        raise InvalidInputError(f"{where} is not a valid {name}: {refusal(error)}") from error


def _others_note(dominant: KernelProfile, kernels: tuple[KernelProfile, ...]) -> list[str]:
    others = [kernel for kernel in kernels if kernel is not dominant]
    if not others:
        return []
    rest = ", ".join(f"{other.name} {other.share:.0%}" for other in others[:3])
    return [
        f"{dominant.name} takes {dominant.share:.0%} of the time; the others are not diagnosed "
        f"(--kernel-name selects one): {rest}"
    ]
