"""Checks on a candidate's syntax tree: evidence for the verdict, gathered before anything runs.

A finding is no verdict. `cheat` is for what no honest kernel does, such as assigning to
`torch.cuda.Event`; `suspect` tells the run-time checks and the reader where to look; `disclose`
says what is allowed but must be told, above all work left to a library. Names are followed through
imports, aliases, `getattr` and module dictionaries; what is assembled at run time is not seen, and
is reported as such.
"""

from collections.abc import Iterable

from agent.evaluate.finding import Finding, Severity
from agent.evaluate.scan_behaviour import BehaviourChecks
from agent.evaluate.scan_context import Context
from agent.evaluate.scan_cuda import cuda_findings
from agent.evaluate.scan_library import LibraryChecks
from agent.evaluate.scan_tampering import TamperingChecks
from agent.problem.kernel import CUDA_SUFFIXES
from agent.problem.syntax import ProblemFileError, parse

__all__ = ["Finding", "Severity", "scan"]


def scan(text: str, name: str = "kernel.py", *, dtype: str | None = None) -> list[Finding]:
    """Findings for a kernel file, by line.

    Parameters
    ----------
    text
        The file's contents, Python or CUDA C++.
    name
        How messages call it; `.cu` means CUDA C++.
    dtype
        The problem's dtype, such as `bfloat16`; None is float32. Casts to narrower floating-point
        types are reported for float32 problems.

    Raises
    ------
    ProblemFileError
        If a Python file cannot be parsed, or is nested too deeply to check.
    """
    if name.endswith(CUDA_SUFFIXES):
        return _sorted(cuda_findings(text, 1))
    module = parse(text, name)
    try:
        context = Context(module, text, narrow_casts=dtype in (None, "float32"))
        for group in (LibraryChecks, TamperingChecks, BehaviourChecks):
            group(context).run()
    except RecursionError as error:
        raise ProblemFileError(f"{name}:1: nested too deeply to check") from error
    return _sorted(context.findings)


def _sorted(findings: Iterable[Finding]) -> list[Finding]:
    # Of two that say so of the same place, the graver one stays.
    graver_last = sorted(findings, key=lambda each: each.severity == "cheat")
    unique = {(each.rule, each.line, each.evidence): each for each in graver_last}
    return sorted(unique.values(), key=lambda each: (each.line, each.rule, each.evidence))
