"""Where an evaluation runs: the device, the card and the versions that its numbers depend on."""

import contextlib
import functools
import platform
import subprocess
from dataclasses import dataclass
from importlib import metadata

import kb
from judge.evaluate.clocks import card_id, run_query
from kb.errors import InvalidInputError, KbError

# Reading what a package says of itself takes milliseconds.
_version = functools.cache(metadata.version)


class NoGpuError(KbError):
    """There is no GPU, and nobody asked for the interpreter."""

    status = 503


@dataclass(frozen=True, slots=True)
class Host:
    """One device and the software around it."""

    gpu: str | None
    """The card's name; None on a CPU."""
    card: str | None
    """Its UUID."""
    versions: dict[str, str]
    """kernel-kb, python, torch, triton, cuda, driver, as far as they are there."""


def resolve_device(device: str | None, *, interpret: bool) -> str:
    """The device to judge on: "cuda:N" or "cpu".

    Raises
    ------
    NoGpuError
        A GPU is needed and not there.
    InvalidInputError
        `device` names none, or contradicts `interpret`.
    """
    try:
        import torch  # noqa: PLC0415 (told in one line where it is missing)
    except ModuleNotFoundError:
        raise KbError(
            "evaluating needs PyTorch: install it with `pip install 'kernel-kb[gpu]'`"
        ) from None
    if interpret:
        if device not in (None, "cpu"):
            raise InvalidInputError("--interpret runs on the CPU: leave --device out")
        return "cpu"
    if device == "cpu":
        return device
    if not torch.cuda.is_available():
        raise NoGpuError(
            "no GPU was found; --interpret checks a Triton kernel's results without one, at "
            "reduced sizes"
        )
    name = f"cuda:{torch.cuda.current_device()}" if device in (None, "cuda") else str(device)
    kind, _, number = name.partition(":")
    if kind != "cuda" or not number.isdigit() or int(number) >= torch.cuda.device_count():
        raise InvalidInputError(
            f"no device '{device}': choose from cuda:0 to cuda:{torch.cuda.device_count() - 1}"
        )
    return name


def describe_host(device: str) -> Host:
    """Card and versions; reads the driver's version from nvidia-smi where it is there."""
    import torch  # noqa: PLC0415 (only evaluations need it)

    versions = {"kernel-kb": kb.__version__, "python": platform.python_version()}
    for name in ("torch", "triton"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[name] = _version(name)
    if device == "cpu":
        return Host(None, None, versions)
    if torch.version.cuda:
        versions["cuda"] = str(torch.version.cuda)
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        driver = run_query(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"])
        versions["driver"] = driver.splitlines()[0].strip()
    index = int(device.partition(":")[2])
    return Host(str(torch.cuda.get_device_name(index)), card_id(device), versions)
