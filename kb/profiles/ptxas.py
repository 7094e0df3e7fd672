"""What `ptxas -v` prints for each kernel: registers, spills, stack and shared memory."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_COMPILING = re.compile(r"Compiling entry function '([^']{1,4000})' for '(sm_\d{2,3}[af]?)'")
_PROPERTIES = re.compile(r"Function properties for (\S{1,4000})")
_SPILLS = re.compile(
    r"\b(\d{1,9}) bytes stack frame, (\d{1,9}) bytes spill stores, (\d{1,9}) bytes spill loads"
)
_REGISTERS = re.compile(r"\bUsed (\d{1,4}) registers")
_SHARED = re.compile(r"\b(\d{1,9})(?:\+\d{1,9})? bytes smem")
_MARK = "ptxas info"
# A line names one function; mangled names have hundreds of characters.
_LONGEST_LINE = 8000


@dataclass(slots=True)
class KernelResources:
    """What the compiler gave one kernel."""

    function: str = ""
    """Its mangled name; empty where the log holds none."""
    architecture: str = ""
    """Such as sm_90a; empty where the log holds none."""
    registers: int | None = None
    """Per thread."""
    stack_bytes: int = 0
    """Per thread."""
    spill_store_bytes: int = 0
    """Per thread, in the code."""
    spill_load_bytes: int = 0
    """Per thread, in the code."""
    shared_bytes: int = 0
    """Static shared memory per block."""

    @property
    def spill_bytes(self) -> int:
        """Stored and loaded."""
        return self.spill_store_bytes + self.spill_load_bytes


def is_ptxas(text: str) -> bool:
    """Whether a text is a log of ptxas, alone or within a compiler's output."""
    has_mark = _MARK in text or _SPILLS.search(text) is not None
    return has_mark and not text.lstrip().startswith("{")


def parse_ptxas(text: str) -> list[KernelResources]:
    """The kernels of a log whose registers it tells, in order.

    Spills of functions that a kernel calls are not its own, and are left out.
    """
    return [kernel for kernel in _kernels(text) if kernel.registers is not None]


def _kernels(text: str) -> Iterator[KernelResources]:
    kernel, of_kernel = KernelResources(), True
    for line in text.splitlines():
        if len(line) > _LONGEST_LINE:
            continue
        if (match := _COMPILING.search(line)) is not None:
            yield kernel
            kernel, of_kernel = KernelResources(match[1], match[2]), True
        elif (match := _PROPERTIES.search(line)) is not None:
            of_kernel = not kernel.function or match[1] == kernel.function
        elif (match := _SPILLS.search(line)) is not None and of_kernel:
            kernel.stack_bytes, kernel.spill_store_bytes, kernel.spill_load_bytes = (
                int(number) for number in match.groups()
            )
        elif (match := _REGISTERS.search(line)) is not None and kernel.registers is None:
            kernel.registers = int(match[1])
            shared = _SHARED.search(line)
            kernel.shared_bytes = int(shared[1]) if shared is not None else 0
    yield kernel
