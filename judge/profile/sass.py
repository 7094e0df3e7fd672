"""Reads SASS: instructions by class, widths of memory accesses, and what ptxas gave a function."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from pydantic import BaseModel, ConfigDict

from kb.vocabulary import read_data

# cuobjdump: "Function : name"; nvdisasm: ".section .text.name,..." starts a function.
_FUNCTION = re.compile(
    r"^[ \t]*(?:Function\s*:\s*(\S+)|\.section\s+\.text\.([^\s,]+),)", re.MULTILINE
)
# "/*0010*/  @!P0 LDG.E.128 R4, desc[UR4][R2.64] ;": address, predicate, opcode with modifiers.
_INSTRUCTION = re.compile(
    r"^[ \t]*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P[0-9T]+\s+)?([A-Z][A-Za-z0-9_.]*)", re.MULTILINE
)
_RESOURCES = re.compile(r"Function (\S+?):\s+REG:(\d+) STACK:(\d+) SHARED:(\d+)")
_MATRICES = re.compile(r"\.M(?:T)?\d+(?:\.([24]))?(?:\.|$)")
_WIDTHS = {"U8": 8, "S8": 8, "U16": 16, "S16": 16, "64": 64, "128": 128, "256": 256}
# Fills the code up to a multiple of 128 bytes and does nothing.
_PADDING = "NOP"
# From sm_90 on, 1 KB of every block's shared memory is the system's (CUDA C++ Programming Guide,
# "Compute Capability 9.0", shared memory): cuobjdump counts it, ptxas's report does not.
_SYSTEM_SHARED = 1024


class OpcodeClass(BaseModel):
    """One class of instructions, from `kb/data/sass.yaml`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    label: str
    opcodes: frozenset[str]
    modifier: frozenset[str] = frozenset()
    """One of these has to stand behind the opcode; empty: any."""
    width: bool = False
    keep: bool = False


@cache
def opcode_classes() -> tuple[OpcodeClass, ...]:
    """All classes, in the order in which they are tried."""
    return tuple(
        OpcodeClass(name=name, **fields)
        for classes in read_data("sass.yaml").values()
        for name, fields in classes.items()
    )


@cache
def _by_opcode() -> Mapping[str, list[OpcodeClass]]:
    table: dict[str, list[OpcodeClass]] = {}
    for family in opcode_classes():
        for opcode in family.opcodes:
            table.setdefault(opcode, []).append(family)
    return table


def classify(instruction: str) -> OpcodeClass | None:
    """The class of a full opcode such as `LDG.E.128.CONSTANT`; None where it has none."""
    opcode, *modifiers = instruction.split(".")
    for class_ in _by_opcode().get(opcode, ()):
        if not class_.modifier or not class_.modifier.isdisjoint(modifiers):
            return class_
    return None


def width_bits(instruction: str) -> int:
    """Bits per thread that a load or store moves: 8 to 256.

    A matrix access (`LDSM.16.M88.4`) moves one 8x8 matrix of 16 bits per 32 bits of every thread.
    """
    if matrices := _MATRICES.search(instruction):
        return 32 * int(matrices[1] or 1)
    words = instruction.split(".")[1:]
    return next((_WIDTHS[word] for word in words if word in _WIDTHS), 32)


@dataclass(frozen=True, slots=True)
class Mix:
    """What one function's instructions are."""

    instructions: int
    mix: dict[str, int]
    """Instructions by class."""
    widths: dict[str, dict[int, int]]
    opcodes: dict[str, int]

    @property
    def local_bytes(self) -> tuple[int, int]:
        """Bytes per thread that local stores and local loads move, each counted once."""
        stores, loads = (
            sum(bits // 8 * count for bits, count in self.widths.get(name, {}).items())
            for name in ("local_store", "local_load")
        )
        return stores, loads


def mix_of(instructions: Iterable[str]) -> Mix:
    """Count full opcodes by class."""
    counts = Counter(op for op in instructions if op.split(".")[0] != _PADDING)
    classes: Counter[str] = Counter()
    widths: dict[str, Counter[int]] = {}
    opcodes: dict[str, int] = {}
    for instruction, count in sorted(counts.items()):
        kind = classify(instruction)
        if kind is None:
            continue
        classes[kind.name] += count
        if kind.width:
            widths.setdefault(kind.name, Counter())[width_bits(instruction)] += count
        if kind.keep:
            opcodes[instruction] = count
    order = [family.name for family in opcode_classes() if classes[family.name]]
    return Mix(
        instructions=sum(counts.values()),
        mix={name: classes[name] for name in order},
        widths={name: dict(sorted(widths[name].items())) for name in order if name in widths},
        opcodes=opcodes,
    )


def functions_in(sass: str) -> Iterator[tuple[str, list[str]]]:
    """Function → its full opcodes in order, from cuobjdump's or nvdisasm's listing."""
    heads = list(_FUNCTION.finditer(sass))
    ends = [*(head.start() for head in heads[1:]), len(sass)][: len(heads)]
    for head, end in zip(heads, ends, strict=True):
        yield head[1] or head[2], _INSTRUCTION.findall(sass, head.end(), end)


def resources_in(listing: str, capability: int) -> dict[str, tuple[int, int, int]]:
    """Function → registers, bytes of stack and of its own static shared memory.

    From `cuobjdump --dump-resource-usage`.
    """
    system = _SYSTEM_SHARED if capability >= 90 else 0
    return {
        name: (int(registers), int(stack), max(0, int(shared) - system))
        for name, registers, stack, shared in _RESOURCES.findall(listing)
    }
