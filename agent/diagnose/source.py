"""What a kernel's text shows without running it: passes over memory, idle lanes, formats.

Reads patterns, not semantics: what it cannot resolve to a number it leaves out.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from agent.diagnose.source_triton import TritonFacts, triton_facts

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_CONSTANT = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(?P<macro>\w+)[ \t]+\(?(?P<macro_value>\d+)\)?[ \t]*$"
    r"|\b(?:constexpr|const)\s+(?:static\s+)?(?:unsigned\s+)?(?:int|size_t|unsigned|long|"
    r"u?int\d+_t)\s+(?P<name>\w+)\s*=\s*(?P<value>[\w\s*/+()-]+);",
    re.MULTILINE,
)
# for (int i = threadIdx.x; i < BOUND; i += blockDim.x): each thread takes every blockDim-th item.
_STRIDED_LOOP = re.compile(
    r"\bfor\s*\(\s*(?:(?:unsigned|const|long|int|auto|size_t|u?int\d+_t)\s+)*(?P<var>\w+)\s*=\s*"
    r"(?:threadIdx\.x|tid|thread_id|thread_idx)\s*;\s*(?P=var)\s*<\s*(?P<bound>[^;]+);"
)
# if (threadIdx.x < BOUND): the others have nothing to do in it.
_GUARD = re.compile(r"\bif\s*\(\s*(?:threadIdx\.x|tid)\s*<\s*(?P<bound>\w+)\s*\)\s*\{?")
_BLOCK_SIZE = re.compile(r"__launch_bounds__\s*\(\s*(\w+)|<<<[^,;]+,\s*(\w+)\s*[,>]")
_BARRIER = re.compile(r"\b__syncthreads\s*\(\s*\)|\bcg::sync\(|\bblock\.sync\(\)|\bbar\.sync\b")
_GLOBAL = re.compile(r"\b__global__\b[^;{]*?\b(?P<name>\w+)\s*\((?P<parameters>[^{;]*?)\)\s*\{")
_POINTER = re.compile(r"\*\s*(?:__restrict__\s*)?(\w+)\s*(?:,|$)")
_DERIVED = re.compile(r"\*\s*(?:__restrict__\s*)?(\w+)\s*=\s*([^;]+);")
_READ = re.compile(r"\b(\w+)\s*\[([^\[\]]+(?:\[[^\]]*\][^\[\]]*)*)\](?!\s*=[^=])")
_MATRIX = re.compile(r"\btl\.dot(?:_scaled)?\(|\bmma\.sync|\bwgmma\b|\bwmma::|\btcgen05\b|mma_sync")
_FP4 = re.compile(r"(?i)(?:nv|mx)?fp4|e2m1")


@dataclass(frozen=True, slots=True)
class IdleLanes:
    """Threads of a block with nothing to do."""

    busy: int
    """Threads that have an item."""
    threads: int | None
    """Threads of the block, where the text says; else the launch tells."""
    where: str
    """The line, shortened."""


@dataclass(frozen=True, slots=True)
class Reread:
    """One global array that is read again after a barrier, or in a further pass."""

    array: str
    """Its parameter."""
    passes: int
    """In how many places it is read."""
    where: str
    """What separates them: `__syncthreads` or `loops`."""


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """What was recognised."""

    language: str
    """triton or cuda."""
    text: str
    """The source itself, for the technique patterns."""
    idle: tuple[IdleLanes, ...] = ()
    """Loops and guards that leave lanes idle."""
    rereads: tuple[Reread, ...] = ()
    """Arrays read more than once."""
    matrix_instructions: bool = False
    """Whether it uses matrix instructions."""
    fp4: bool = False
    """Whether it speaks of a 4-bit float format."""


def language_of(text: str) -> str:
    """`cuda` for C++ with kernels in it (also inside a Python string), else `triton`."""
    return "cuda" if "__global__" in text else "triton"


def read_source(text: str) -> SourceFacts:
    """Recognise what the text of a kernel file shows."""
    language = language_of(text)
    if language == "cuda":
        bare = _COMMENT.sub(" ", text)
        constants = dict(_constants(bare))
        return SourceFacts(
            language,
            text,
            idle=tuple(_idle_cuda(bare, constants)),
            rereads=tuple(_rereads_cuda(bare)),
            matrix_instructions=bool(_MATRIX.search(bare)),
            fp4=bool(_FP4.search(bare)),
        )
    found = _triton(text)
    return SourceFacts(
        language,
        text,
        idle=tuple(
            IdleLanes(each.elements, each.threads, each.where) for each in found.small_tiles
        ),
        rereads=tuple(Reread(name, passes, "loops") for name, passes in found.rereads),
        matrix_instructions=bool(_MATRIX.search(text)),
        fp4=bool(_FP4.search(text)),
    )


def _triton(text: str) -> TritonFacts:
    try:
        return triton_facts(ast.parse(text))
    except (SyntaxError, ValueError, RecursionError):
        return TritonFacts()


def _constants(text: str) -> Iterator[tuple[str, int]]:
    known: dict[str, int] = {}
    for match in _CONSTANT.finditer(text):
        name = match["macro"] or match["name"]
        value = _number(match["macro_value"] or match["value"], known)
        if value is not None:
            known[name] = value
            yield name, value


def _number(expression: str, known: dict[str, int]) -> int | None:
    """A product or quotient of literals and known names; None for anything else."""
    value: int | None = None
    operator = "*"
    for part in re.findall(r"\w+|[^\w\s]", expression):
        if part in "*/":
            operator = part
            continue
        literal = re.fullmatch(r"(\d+)[uUlL]*", part)
        operand = int(literal[1]) if literal else known.get(part)
        if not operand:
            return None
        if value is None:
            value = operand
        else:
            value = value * operand if operator == "*" else value // operand
    return value


def _idle_cuda(text: str, constants: dict[str, int]) -> Iterator[IdleLanes]:
    sizes = [
        number
        for match in _BLOCK_SIZE.finditer(text)
        if (number := _number(match[1] or match[2], constants)) is not None
    ]
    threads = max(sizes, default=None)
    for match in _STRIDED_LOOP.finditer(text):
        bound = _number(match["bound"], constants)
        if bound is not None:
            yield IdleLanes(bound, threads, " ".join(match[0].split())[:60])
    for match in _GUARD.finditer(text):
        bound = _number(match["bound"], constants)
        # A single warp or thread that finishes a reduction is how reductions end.
        if bound is not None and bound > 32:
            yield IdleLanes(bound, threads, " ".join(match[0].split())[:60])


def _rereads_cuda(text: str) -> Iterator[Reread]:
    """Global arrays that one kernel reads at the same index on both sides of a barrier."""
    for kernel in _GLOBAL.finditer(text):
        body = _body(text, kernel.end())
        pointers = {name: name for name in _POINTER.findall(kernel["parameters"] + ",")}
        for name, value in _DERIVED.findall(body):
            roots = [root for root in pointers if re.search(rf"\b{root}\b", value)]
            if roots:
                pointers[name] = pointers[roots[0]]
        regions = _BARRIER.split(body)
        seen: dict[tuple[str, str], set[int]] = {}
        for number, region in enumerate(regions):
            for array, index in _READ.findall(region):
                if array in pointers:
                    key = (pointers[array], re.sub(r"\s+", "", index))
                    seen.setdefault(key, set()).add(number)
        best: dict[str, int] = {}
        for (array, _), places in seen.items():
            if len(places) > 1:
                best[array] = max(best.get(array, 0), len(places))
        for array, passes in sorted(best.items()):
            yield Reread(array, passes, "__syncthreads")


def _body(text: str, start: int) -> str:
    depth = 1
    for position in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[position], 0)
        if depth == 0:
            return text[start:position]
    return text[start:]
