"""Compile a CUDA kernel for each architecture it lists and look for the SASS it promises."""

from collections.abc import Iterator
from pathlib import Path

from kb import nvcc
from kb.errors import KbError
from kb.patterns import LinearPattern, encoded


def check_architecture(source: Path, architecture: str, patterns: tuple[str, ...]) -> str:
    """Compile for one architecture; what was found: registers, spills, matched patterns.

    Raises
    ------
    KbError
        If the source does not compile, a tool is missing, or a pattern is not in the SASS.
    """
    cubin = nvcc.compile_cubin(source, architecture)
    if patterns:
        sass = nvcc.disassemble(cubin)
        for pattern in patterns:
            if not LinearPattern(pattern).search(encoded(sass)):
                raise KbError(f"the SASS for {architecture} has nothing that matches '{pattern}'")
    return "; ".join(_facts(nvcc.resource_usage(cubin), patterns))


def _facts(usage: tuple[nvcc.ResourceUsage, ...], patterns: tuple[str, ...]) -> Iterator[str]:
    if usage:
        registers = [each.registers for each in usage]
        low, high = min(registers), max(registers)
        yield f"{low}-{high} registers" if low != high else f"{low} registers"
        spilling = sum(each.spill_bytes > 0 for each in usage)
        yield f"{spilling} of {len(usage)} functions spill" if spilling else "no spills"
    if patterns:
        yield f"SASS has {', '.join(patterns)}"
