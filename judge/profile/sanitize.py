"""compute-sanitizer over the profiled program: how it is called and what it says."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from judge.profile.result import SanitizerReport
from kb import nvcc
from kb.errors import KbError

Tool = Literal["memcheck", "racecheck"]
_SUMMARY = re.compile(r"(?<!=)=+ (?:ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard)")
# "========= Invalid __global__ write ...": findings stand one blank behind the bar, their details
# further in.
_FINDING = re.compile(r"^=+ (\S.*)$")
_DETAIL = re.compile(r"^=+ {2,}(at .*|by thread .*|Address .*)$")
_NOT_FINDINGS = ("COMPUTE-SANITIZER", "ERROR SUMMARY", "RACECHECK SUMMARY", "LEAK SUMMARY",
                 "Target application", "No attachable process", "Internal Sanitizer")  # fmt: skip
_MOST_FINDINGS = 20
# What it prints -> what it means and what to do.
_FAILURES = (
    ("Device not supported", "compute-sanitizer does not support this device or its driver"),
    ("No attachable process found", "the kernel file ran no CUDA that compute-sanitizer could see"),
)


class SanitizerError(KbError):
    """compute-sanitizer is missing."""

    status = 503


def find_sanitizer() -> Path:
    """The compute-sanitizer on PATH or of the CUDA toolkit.

    Raises
    ------
    SanitizerError
        If there is none.
    """
    name = "compute-sanitizer"
    if path := nvcc.find_tool(name) or nvcc.find_tool(name, folder=name):
        return path
    raise SanitizerError(
        "compute-sanitizer was not found: install it with the CUDA toolkit and put it on PATH"
    )


def sanitize_command(sanitizer: Path, tool: Tool, log: str, program: Sequence[str]) -> list[str]:
    """The command that checks `program` and writes its findings to `log`."""
    return [
        str(sanitizer),
        "--tool", tool,
        "--target-processes", "all",
        "--print-limit", str(_MOST_FINDINGS),
        "--log-file", log,
        *program,
    ]  # fmt: skip


def read_log(tool: Tool, log: str, output: str, *, timed_out: bool = False) -> SanitizerReport:
    """What a run found.

    Parameters
    ----------
    log
        The file that compute-sanitizer wrote; may be empty.
    """
    summary = _SUMMARY.findall(log)
    if timed_out:
        return SanitizerReport(tool=tool, errors=None, detail="it did not finish in time")
    for sign, meaning in _FAILURES:
        if sign in log or sign in output:
            return SanitizerReport(tool=tool, errors=None, detail=meaning)
    if not summary:
        lines = [line.strip() for line in (log + "\n" + output).splitlines() if line.strip()]
        message = lines[-1] if lines else "it printed nothing"
        return SanitizerReport(tool=tool, errors=None, detail=f"it printed no summary: {message}")
    errors = sum(int(a or b) for a, b in summary)
    return SanitizerReport(
        tool=tool,
        errors=errors,
        findings=tuple(_findings(log))[:_MOST_FINDINGS],
        detail=f"{errors} {'error' if tool == 'memcheck' else 'hazard'}{'s' * (errors != 1)}",
    )


def _findings(log: str) -> list[str]:
    findings: list[str] = []
    for line in log.splitlines():
        if (finding := _FINDING.match(line)) and not finding[1].startswith(_NOT_FINDINGS):
            findings.append(finding[1].strip())
        elif findings and (detail := _DETAIL.match(line)) and " at " not in findings[-1]:
            findings[-1] += f" {detail[1].strip()}"
    return findings
