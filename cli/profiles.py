"""Reads the files that a command is given: text, or Nsight Compute's own report."""

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kb.errors import InvalidInputError, KbError

if TYPE_CHECKING:
    from kb.context.models import ContextRequest
    from kb.index.reader import Generation

# A raw page of two hundred launches with all sections has some 20 MB.
_MOST_BYTES = 256 << 20
_IMPORT_SECONDS = 300
_REPORT = ".ncu-rep"
# What Nsight Compute's reports begin with.
_MAGIC = b"NVR\x00"

PROFILE_HELP = (
    "Nsight Compute's metrics: JSON (metric -> number, or one such object per kernel), `ncu --csv` "
    "of the raw or details page, ncu's console output, or an .ncu-rep if ncu is installed; - "
    "reads standard input."
)
kernel_name_option = click.option(
    "--kernel-name",
    metavar="NAME",
    help="Kernel in the profile, by its name or part of it. Default: the one that takes longest.",
)


def diagnosis(
    profile: Mapping[str, float], request: "ContextRequest", generation: "Generation"
) -> list[tuple[str, str]]:
    """Techniques for a profile as `kb diagnose` finds them: its rules speak in contexts as well.

    See `kb.context.diagnosing.Diagnose`.
    """
    from agent.diagnose.contexts import suggest_techniques

    return suggest_techniques(profile, request, generation)


def name_of(path: str) -> str:
    """How messages name a file; `-` is standard input."""
    return "standard input" if path == "-" else path


def read_text(path: str) -> str:
    """The text of a file, or of standard input for `-`.

    Raises
    ------
    KbError
        It cannot be read.
    """
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise KbError(f"cannot read {path}: {reason}") from error


def read_profile_text(path: str) -> str:
    """The text of a profile; a report is read by Nsight Compute, whose raw page is returned.

    Raises
    ------
    KbError
        The file cannot be read, is too large, or is a report and there is no ncu that reads it.
    """
    try:
        with nullcontext(sys.stdin.buffer) if path == "-" else Path(path).open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise KbError(f"cannot read {path}: {error.strerror or error}") from error
    if len(data) > _MOST_BYTES:
        raise InvalidInputError(
            f"{path} is larger than {_MOST_BYTES >> 20} MiB: profile fewer launches"
        )
    if data.startswith(_MAGIC) or path.endswith(_REPORT):
        return _import_report(data, path)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise KbError(f"cannot read {path}: it is not UTF-8 text") from error


def _import_report(data: bytes, path: str) -> str:
    """The raw page of a report, as `ncu --import` prints it in base units."""
    from judge.profile import ncu

    try:
        program = ncu.find_ncu()
    except ncu.NcuError as error:
        raise InvalidInputError(
            f"{path} is an Nsight Compute report, but ncu was not found: put ncu on PATH, or "
            f"export the report where ncu is with `ncu --import {path} --csv --page raw`"
        ) from error
    with tempfile.TemporaryDirectory(prefix="kb-profile-") as folder:
        report, output = Path(folder) / f"profile{_REPORT}", Path(folder) / "raw.csv"
        report.write_bytes(data)
        try:
            process = subprocess.run(
                ncu.import_command(program, report, output),
                capture_output=True, text=True, check=False, timeout=_IMPORT_SECONDS,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise KbError(f"ncu could not read {path}: {error}") from error
        if process.returncode or not output.exists():
            lines = (process.stdout + process.stderr).strip().splitlines()
            why = lines[-1] if lines else f"it exited with status {process.returncode}"
            raise InvalidInputError(f"ncu could not read {path}: {why}")
        return output.read_text(encoding="utf-8", errors="replace")
