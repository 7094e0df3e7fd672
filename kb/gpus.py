"""GPU specifications: dense peak rates and limits of each card, found by name."""

import datetime
import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kb.architectures import ArchitectureName, parse_architecture
from kb.errors import InvalidInputError
from kb.refusals import key_problem
from kb.vocabulary import load_yaml, read_data

Rate = Literal[
    "fp64", "fp64_tensor", "fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp4"
]  # fmt: skip

# What a torch dtype computes in, by its name. float32 is here without TF32, which is a choice.
_RATE_OF: dict[str, Rate] = {
    "float64": "fp64", "float32": "fp32", "tf32": "tf32", "float16": "fp16", "half": "fp16",
    "bfloat16": "bf16", "int8": "int8", "uint8": "int8", "float8_e4m3fn": "fp8",
    "float8_e5m2": "fp8", "float4_e2m1fn_x2": "fp4", "nvfp4": "fp4", "mxfp4": "fp4",
}  # fmt: skip

# Words before a card's name that do not tell cards apart.
_PREFIX = re.compile(r"^(?:(?:nvidia|geforce|tesla) )+")


def gpu_spelling(name: str) -> str:
    """A GPU's name in the one spelling by which names are compared.

    `NVIDIA A100-SXM4-80GB` and `a100 sxm4 80gb` are one.
    """
    return _PREFIX.sub("", " ".join(re.split(r"[\s_-]+", name.strip().lower())))


class SpecSource(BaseModel):
    """Where a figure is printed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: Annotated[str, Field(min_length=1)]
    url: Annotated[str, Field(pattern=r"^https?://\S+$")]


_Positive = Annotated[float, Field(gt=0)]
_Count = Annotated[int, Field(gt=0)]


class Reached(BaseModel):
    """What simple kernels and the vendor's products were measured to reach on a card."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    date: datetime.date
    read_gbps: _Positive
    """A sum over a large buffer, in 1e9 bytes/s."""
    copy_gbps: _Positive
    """Read and written by a copy, in 1e9 bytes/s."""
    dense_tflops: dict[Rate, _Positive] = {}
    """Large products, in 1e12 operations/s."""


def _rate(tflops: Mapping[Rate, float], dtype: str) -> float | None:
    name: str = _RATE_OF.get(dtype.removeprefix("torch."), dtype)
    rate = {str(key): value for key, value in tflops.items()}.get(name)
    return None if rate is None else rate * 1e12


class GpuSpec(BaseModel):
    """One card: what a kernel can reach on it at most."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    name: Annotated[str, Field(min_length=1)]
    """Its key in the file."""
    family: str = ""
    """How people call it; may stand for several cards. By default the name."""
    architecture: ArchitectureName
    """Compile target, such as sm_90a."""
    aliases: tuple[str, ...] = ()
    """Other spellings; what the driver calls it belongs here."""
    sms: _Count
    """Streaming multiprocessors."""
    boost_mhz: _Positive
    """Boost clock in MHz."""
    memory_gib: _Positive
    """Nominal memory in GiB."""
    memory_gbps: _Positive
    """Peak memory bandwidth in 1e9 bytes/s."""
    l2_mib: _Positive
    """L2 cache in MiB."""
    shared_kib_per_sm: _Positive
    """Shared memory of an SM in KiB."""
    shared_kib_per_block: _Positive
    """Shared memory that one block may have, in KiB."""
    registers_per_sm: _Count = 65536
    """32-bit registers of an SM."""
    threads_per_sm: _Count
    """Resident threads of an SM at most."""
    blocks_per_sm: _Count
    """Resident blocks of an SM at most."""
    dense_tflops: Annotated[dict[Rate, _Positive], Field(min_length=1)]
    """Peak rates without sparsity in 1e12 operations/s; a missing key: not in hardware."""
    reached: Reached | None = None
    """Measured; None: not."""
    sources: tuple[SpecSource, ...] = ()
    """Data sheets and white papers."""

    @property
    def memory_bps(self) -> float:
        """Peak memory bandwidth in bytes/s."""
        return self.memory_gbps * 1e9

    @property
    def l2_bytes(self) -> int:
        """L2 cache in bytes."""
        return int(self.l2_mib * 2**20)

    def dense_flops(self, dtype: str) -> float | None:
        """Peak operations/s for a torch dtype name, a rate's own name or `nvfp4`.

        None where the card has no such rate. float32 means without TF32: ask for `tf32`.
        """
        return _rate(self.dense_tflops, dtype)

    def reached_flops(self, dtype: str) -> float | None:
        """As `dense_flops`, measured; None where it was not."""
        return _rate(self.reached.dense_tflops, dtype) if self.reached is not None else None

    @property
    def spellings(self) -> frozenset[str]:
        """All spellings of this one card, made equal by `gpu_spelling`."""
        return frozenset(gpu_spelling(alias) for alias in (self.name, *self.aliases))


@cache
def all_specs() -> dict[str, GpuSpec]:
    """Every card of the data file, by name.

    Raises
    ------
    InvalidInputError
        The data file is not what this version expects.
    """
    return {spec.name: spec for spec in _parse(read_data("gpus.yaml"), "kb/data/gpus.yaml")}


def gpu_names() -> list[str]:
    """The names of all known GPU families, the longest first."""
    names = {spec.family for spec in all_specs().values()}
    return sorted(names, key=lambda name: (-len(name), name))


def find_gpu(name: str) -> GpuSpec:
    """The card that goes by this name; of a family, whose cards are of one architecture, the first.

    Raises
    ------
    InvalidInputError
        If no GPU goes by it: there is no silent fallback.
    """
    exact, family = _lookup(name)
    matches = exact or family
    if not matches:
        names = ", ".join(dict.fromkeys(spec.family for spec in all_specs().values()))
        raise InvalidInputError(f"unknown GPU '{name}': use one of {names}")
    return matches[0]


def device_of(gpu: str | None) -> str | None:
    """Architecture of a GPU given by name, or given as an architecture already.

    Raises
    ------
    InvalidInputError
        If it is neither.
    """
    if gpu is None:
        return None
    if gpu.startswith("sm_"):
        return str(parse_architecture(gpu))
    return find_gpu(gpu).architecture


def load_specs(path: Path) -> tuple[GpuSpec, ...]:
    """Cards that a user describes in a file of the shape of `kb/data/gpus.yaml`.

    Raises
    ------
    InvalidInputError
        The file cannot be read or an entry is wrong: names the entry, the key and the reason.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise InvalidInputError(f"cannot read {path}: {reason}") from error
    try:
        data = load_yaml(text)
    except yaml.YAMLError as error:
        problem = str(getattr(error, "problem", None) or "it cannot be parsed")
        mark = getattr(error, "problem_mark", None)
        line = f" in line {mark.line + 1}" if mark else ""
        raise InvalidInputError(f"{path} is not YAML: {problem}{line}") from error
    if not isinstance(data, dict) or not data:
        raise InvalidInputError(
            f"{path} must map a GPU's name to its specifications, as {data_file()} does"
        )
    return _parse(data, str(path))


def data_file() -> str:
    """Where the data file of this installation is, to be taken as a pattern."""
    return str(files("kb") / "data" / "gpus.yaml")


def _parse(data: dict[Any, Any], where: str) -> tuple[GpuSpec, ...]:
    specs = []
    for name, fields in data.items():
        if not isinstance(fields, dict):
            raise InvalidInputError(f"{where}: '{name}' must hold keys such as sms and memory_gbps")
        try:
            spec = GpuSpec.model_validate({"family": str(name), **fields, "name": str(name)})
        except ValidationError as error:
            raise InvalidInputError(f"{where}: '{name}': {key_problem(error)}") from error
        specs.append(spec)
    return tuple(specs)


def find_spec(name: str, extra: Iterable[GpuSpec] = ()) -> GpuSpec:
    """The card that goes by this name; cards in `extra` come first.

    Raises
    ------
    InvalidInputError
        No card goes by it, or several do (`H100`): there is no silent fallback.
    """
    exact, family = _lookup(name, extra)
    matches = exact[:1] or family
    if len(matches) == 1:
        return matches[0]
    if matches:
        cards = ", ".join(spec.name for spec in matches)
        raise InvalidInputError(f"'{name}' matches several GPUs: choose one with --gpu: {cards}")
    names = ", ".join(all_specs())
    raise InvalidInputError(
        f"unknown GPU '{name}': use one of {names}, or describe it with --gpu-spec FILE, in the "
        f"format of {data_file()}"
    )


def _lookup(name: str, extra: Iterable[GpuSpec] = ()) -> tuple[list[GpuSpec], list[GpuSpec]]:
    """The cards that have this name, and those of the family that has it."""
    spelling = gpu_spelling(name)
    pool = [*extra, *all_specs().values()]
    exact = [spec for spec in pool if spelling in spec.spellings]
    return exact, [spec for spec in pool if gpu_spelling(spec.family) == spelling]


def resolve_gpu(name: str, extra: Iterable[GpuSpec] = ()) -> tuple[GpuSpec, str | None]:
    """The card that goes by this name; of a family's name (`H100`) its first, and what that means.

    Raises
    ------
    InvalidInputError
        No card goes by it.
    """
    extra = tuple(extra)
    exact, family = _lookup(name, extra)
    if exact or len(family) < 2:
        return find_spec(name, extra), None
    others = ", ".join(spec.name for spec in family[1:])
    first = family[0]
    return first, f"'{name}' is read as {first.name}: its roofs apply; other GPUs: --gpu {others}"
