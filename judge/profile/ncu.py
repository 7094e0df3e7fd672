"""Nsight Compute's command line: where it is, how it is called, and what its failures mean."""

import functools
import os
import re
import subprocess
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from kb import nvcc
from kb.errors import KbError
from kb.vocabulary import Metric, all_metrics

# A kernel is replayed once for every group of counters, so a candidate of very many launches would
# take for ever; what is cut off is said.
MAX_LAUNCHES = 200
_EVERYWHERE = "sm__cycles_active"
# What ncu prints once the program it profiles has loaded CUDA.
CONNECTED = "==PROF== Connected to process"
_QUERY_TIMEOUT_S = 120
_UNKNOWN_METRIC = re.compile(r"Failed to find metric (?:regex:\^)?([\w.]+?)(?:\\?\.|\(|\$|\s|$)")
_QUERIED = re.compile(r"^\"?([a-z][a-z0-9]*__\w+)", re.MULTILINE)
_PERMISSION = (
    "this user may not read the GPU's performance counters (ERR_NVGPUCTRPERM): an "
    "administrator can load the driver with NVreg_RestrictProfilingToAdminUsers=0, see "
    "https://developer.nvidia.com/ERR_NVGPUCTRPERM"
)
# What ncu prints -> what it means and what to do, the weightiest first.
_FAILURES = (
    (
        "LibraryNotLoaded",
        "ncu could not load its part of the driver (LibraryNotLoaded): containers and sandboxes "
        "without full access to the driver, such as gVisor, do not let it read counters",
    ),
    ("DriverNotLoaded", "ncu found no loaded NVIDIA driver"),
    ("is not compatible with Nsight Compute", "ncu is newer or older than the driver allows"),
    (
        "driver resource was unavailable",
        "another profiler holds the GPU's counters (DCGM or a second ncu): stop it and try again",
    ),
    ("No kernels were profiled", "the kernel file launched no GPU kernel that ncu could see"),
)
# Failures that no layer of a sandbox has a part in.
_FINAL = ("is not compatible with Nsight Compute", "No kernels were profiled")


class NcuError(KbError):
    """Nsight Compute is missing or did not profile."""

    status = 503


class PermissionDeniedError(NcuError):
    """The driver does not open the counters to this user."""


class FinalError(NcuError):
    """A failure that another try would meet again."""


class UnknownMetricsError(NcuError):
    """This ncu refuses some of the metrics."""

    def __init__(self, names: Collection[str]) -> None:
        super().__init__(f"this ncu does not know {', '.join(sorted(names))}")
        self.names = frozenset(names)


def find_ncu(requested: Path | None = None) -> Path:
    """The ncu to use: `requested`, or the one on PATH, of the CUDA toolkit, or under /opt/nvidia.

    Raises
    ------
    NcuError
        If there is none.
    """
    if requested is not None:
        if os.access(requested, os.X_OK) and requested.is_file():
            return requested.absolute()
        raise NcuError(f"{requested} is not an executable file: give the path of ncu itself")
    installed = sorted(Path("/opt/nvidia/nsight-compute").glob("*/ncu"), reverse=True)
    usable = (path for path in installed if path.is_file() and os.access(path, os.X_OK))
    if path := nvcc.find_tool("ncu") or next(usable, None):
        return path
    raise NcuError(
        "Nsight Compute (ncu) was not found: install it with the CUDA toolkit and put it on PATH, "
        "or give its path with --ncu"
    )


def install_folders(ncu: Path) -> list[Path]:
    """What has to be readable for `ncu` to run: its own folder and the one it is linked from."""
    real = ncu.resolve()
    return [folder for folder in dict.fromkeys((real.parent, ncu.parent)) if folder != Path("/")]


@functools.cache
def version(ncu: Path) -> str:
    """Version of ncu, such as 2025.3.1.0.

    Raises
    ------
    NcuError
        If it does not say.
    """
    match = re.search(r"Version\s+([\d.]+)", _ask([ncu, "--version"]))
    if not match:
        raise NcuError(f"{ncu} prints no version: is it Nsight Compute?")
    return match[1]


def _ask(command: Sequence[str | Path]) -> str:
    try:
        completed = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_QUERY_TIMEOUT_S
        )
    except subprocess.TimeoutExpired as error:
        raise NcuError(f"{command[0]} did not answer within {_QUERY_TIMEOUT_S} s") from error
    except OSError as error:
        raise NcuError(f"cannot run {command[0]}: {error.strerror or error}") from error
    return completed.stdout + completed.stderr


@functools.cache
def known_metrics(ncu: Path) -> frozenset[str]:
    """Names, without `.sum` and the like, that ncu lists for the machine's GPUs.

    Empty where the list lacks what every GPU has: then nothing follows from what is not in it.
    """
    names = frozenset(_QUERIED.findall(_ask([ncu, "--query-metrics"])))
    return names if _EVERYWHERE in names else frozenset()


def select_metrics(available: Collection[str], rejected: Collection[str] = ()) -> list[Metric]:
    """The metrics to ask for: all, but those that vary by card only where `available` has them.

    Parameters
    ----------
    available
        As `known_metrics` gives them; empty if it is not known what the card has.
    rejected
        Names, without `.sum` and the like, that this ncu has refused before.
    """
    return [
        metric
        for metric in all_metrics()
        if (base := metric.name.partition(".")[0]) not in rejected
        and (not metric.varies or not available or base in available)
    ]


def collect_command(
    ncu: Path, report: Path, metrics: Iterable[Metric], program: Sequence[str]
) -> list[str]:
    """The command that profiles what `program` launches between cudaProfilerStart and -Stop.

    Clocks are left as they are (`--clock-control none`: fixing them needs rights, and times are to
    be those of the evaluation); caches are flushed before every pass (ncu's default), so kernels
    run cold.
    """
    return [
        str(ncu),
        "--clock-control", "none",
        "--cache-control", "all",
        "--target-processes", "all",
        "--profile-from-start", "off",
        "--launch-count", str(MAX_LAUNCHES),
        "--metrics", ",".join(metric.name for metric in metrics),
        "--force-overwrite",
        "--export", str(report),
        *program,
    ]  # fmt: skip


def import_command(ncu: Path, report: Path, output: Path) -> list[str]:
    """The command that writes a report's raw page as CSV in base units to `output`."""
    return [
        str(ncu),
        "--import", str(report),
        "--csv", "--page", "raw",
        "--print-units", "base",
        "--log-file", str(output),
    ]  # fmt: skip


def failure(output: str, code: int | None, *, report_exists: bool) -> NcuError | None:
    """What went wrong according to ncu's output; None where a report was written.

    Parameters
    ----------
    code
        Exit code of ncu, None where a signal ended it.
    """
    if unknown := set(_UNKNOWN_METRIC.findall(output)):
        return UnknownMetricsError(unknown)
    if "ERR_NVGPUCTRPERM" in output:
        return PermissionDeniedError(_PERMISSION)
    if report_exists and code == 0:
        return None
    for sign, meaning in _FAILURES:
        if sign in output:
            return (FinalError if sign in _FINAL else NcuError)(meaning)
    errors = [line for line in output.splitlines() if line.startswith("==ERROR==")]
    lines = errors or [line for line in output.splitlines() if line.strip()]
    message = lines[-1].removeprefix("==ERROR==").strip() if lines else "it printed nothing"
    return NcuError(f"ncu ended with {code} and no usable report: {message}")
