"""Static facts of compiled kernels: registers, spills, shared memory and instructions; no GPU."""

import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Literal

from judge.profile.result import StaticFacts
from judge.profile.sass import functions_in, mix_of, resources_in
from kb import nvcc
from kb.architectures import parse_architecture

Origin = Literal["triton", "nvcc"]
_TARGET = re.compile(r"^[ \t]*code for (sm_\w+)", re.MULTILINE)
# Itanium C++ ABI: <length><name>, in nested names one after another.
_LENGTH = re.compile(r"\d+")


def facts_of(
    code: Path,
    origin: Origin,
    architecture: str,
    *,
    shared_bytes: int | None = None,
    threads_per_block: int | None = None,
) -> tuple[StaticFacts, ...]:
    """Facts of every function of a cubin (or of a library with code for one architecture).

    Parameters
    ----------
    code
        The file. For a cubin of `kb.nvcc.compile_cubin`, spills come from ptxas's own report beside
        it; else they are the bytes that local loads and stores move, which is the same where a
        kernel has no arrays indexed at run time (Triton never has).
    shared_bytes
        Shared memory per block where the code does not say: Triton allots all of it at the launch.
    threads_per_block
        Where the compiler fixed it.

    Raises
    ------
    kb.nvcc.NvccError
        If cuobjdump is missing or fails.
    """
    capability = parse_architecture(architecture).capability
    resources = resources_in(nvcc.resource_listing(code), capability)
    reports = nvcc.resource_usage(code) if code.with_suffix(".log").is_file() else ()
    reported = {report.function: report for report in reports}
    facts = []
    listing = nvcc.disassemble(code)
    # Triton is asked for sm_90 and compiles for sm_90a: only the code shows which.
    targets = set(_TARGET.findall(listing))
    target = targets.pop() if len(targets) == 1 else architecture
    for function, instructions in functions_in(listing):
        if function not in resources:
            continue
        registers, stack_bytes, static_shared = resources[function]
        mix = mix_of(instructions)
        stores, loads = mix.local_bytes
        if spills := reported.get(function):
            stores, loads = spills.spill_store_bytes, spills.spill_load_bytes
        facts.append(
            StaticFacts(
                function=function,
                name=source_name(function),
                origin=origin,
                architecture=target,
                registers=registers,
                spill_store_bytes=stores,
                spill_load_bytes=loads,
                stack_bytes=stack_bytes,
                shared_bytes=static_shared if shared_bytes is None else shared_bytes,
                threads_per_block=threads_per_block,
                **asdict(mix),
            )
        )
    return tuple(facts)


def source_name(function: str) -> str:
    """`_ZN3foo11vector_copyIfEEvPKT_` → `vector_copy`; a name that is not mangled stays."""
    if not function.startswith("_Z"):
        return function
    rest = function[2:].removeprefix("N")
    name = ""
    while length := _LENGTH.match(rest):
        end = length.end() + int(length[0])
        name, rest = rest[length.end() : end], rest[end:]
    return name or function


def kernel_name(printed: str) -> str:
    """`void foo::vector_copy<float>(float const *)` → `vector_copy`, the function's own name."""
    characters, depth = [], 0
    for character in printed.replace("(anonymous namespace)", "").strip():
        depth += (character == "<") - (character == ">")
        if character == "(" and depth == 0:
            break
        if depth == 0 and character != ">":
            characters.append(character)
    words = "".join(characters).split()
    return words[-1].rpartition("::")[2] if words else printed


def facts_for(
    printed: str, registers: float | None, static: Sequence[StaticFacts]
) -> StaticFacts | None:
    """The facts of the kernel that ncu prints as `printed`.

    Of several of one name (template instances, autotuned variants) the one with as many registers
    as the launch had; None if that does not leave exactly one.
    """
    candidates = [facts for facts in static if facts.name == kernel_name(printed)]
    if len(candidates) > 1 and registers is not None:
        candidates = [facts for facts in candidates if facts.registers == registers]
    return candidates[0] if len(candidates) == 1 else None
