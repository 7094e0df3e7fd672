"""Checks on a candidate's text: what no honest kernel does, found before anything runs.

In Python only what decides is looked for: reading what is not the kernel's, replacing what the
judge uses. Names are followed through imports, aliases, `getattr` and module dictionaries; what is
assembled at run time is not seen. CUDA has more rules, because its calls cannot be observed.
"""

from collections.abc import Iterable

from judge.evaluate.finding import Finding, Severity
from judge.evaluate.scan_cuda import cuda_findings
from judge.evaluate.scan_python import PythonChecks
from judge.problem.kernel import CUDA_SUFFIXES
from judge.problem.syntax import ProblemFileError, parse

__all__ = ["Finding", "Severity", "scan"]


def scan(text: str, name: str = "kernel.py") -> list[Finding]:
    """Findings for a kernel file, by line.

    Parameters
    ----------
    name
        How messages call it; `.cu` means CUDA C++.

    Raises
    ------
    ProblemFileError
        If a Python file cannot be parsed, or is nested too deeply to check.
    """
    if name.endswith(CUDA_SUFFIXES):
        return _sorted(cuda_findings(text, 1))
    module = parse(text, name)
    try:
        return _sorted(PythonChecks(module, text).run())
    except RecursionError as error:
        raise ProblemFileError(f"{name}:1: nested too deeply to check") from error


def _sorted(findings: Iterable[Finding]) -> list[Finding]:
    # Of two that say so of the same place, the graver one stays.
    graver_last = sorted(findings, key=lambda f: f.severity == "cheat")
    unique = {(finding.rule, finding.line, finding.evidence): finding for finding in graver_last}
    return sorted(unique.values(), key=lambda f: (f.line, f.rule, f.evidence))
