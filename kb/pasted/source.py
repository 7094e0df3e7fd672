"""What a kernel's text shows without running it: passes over memory, idle lanes, formats.

Reads patterns, not semantics: what it cannot resolve to a number it leaves out.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from kb.parsing import PARSING
from kb.pasted.cuda import kernel_bodies
from kb.pasted.source_triton import IdleLanes, Reread, read_triton

# Beyond this a file is generated or meant to stall the reader; nothing is read from it.
_MAX_CHARS = 200_000
_MAX_KERNELS = 64
_MAX_BODY = 20_000
_MAX_HEADER = 4_000
# Every repetition below is bounded or cannot overlap with what follows it, so that no text takes
# more than time proportional to its length.
_COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_CONSTANT = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(?P<macro>\w{1,80})[ \t]+\(?(?P<macro_value>\d{1,9})\)?[ \t]*$"
    r"|\b(?:constexpr|const)\s+(?:static\s+)?(?:unsigned\s+)?(?:int|size_t|unsigned|long|"
    r"u?int\d{1,2}_t)\s+(?P<name>\w{1,80})\s*=\s*(?P<value>[\w\s*/+()-]{1,120});",
    re.MULTILINE,
)
# for (int i = threadIdx.x; i < BOUND; i += blockDim.x): each thread takes every blockDim-th item.
_STRIDED_LOOP = re.compile(
    r"\bfor\s*\(\s*(?:(?:unsigned|const|long|int|auto|size_t|u?int\d{1,2}_t)\s+){0,4}"
    r"(?P<var>\w{1,80})\s*=\s*(?:threadIdx\.x|tid|thread_id|thread_idx)\s*;\s*(?P=var)\s*<\s*"
    r"(?P<bound>[^;]{1,120});"
)
# if (threadIdx.x < BOUND): the others have nothing to do in it.
_GUARD = re.compile(r"\bif\s*\(\s*(?:threadIdx\.x|tid)\s*<\s*(?P<bound>\w{1,80})\s*\)\s*\{?")
_BLOCK_SIZE = re.compile(
    r"__launch_bounds__\s*\(\s*(\w{1,80})|<<<[^,;<]{1,200},\s*(\w{1,80})\s*[,>]"
)
_BARRIER = re.compile(r"\b__syncthreads\s*\(\s*\)|\bcg::sync\(|\bblock\.sync\(\)|\bbar\.sync\b")
_POINTER = re.compile(r"\*\s*(?:__restrict__\s*)?(\w{1,80})\s*(?:,|$)")
_DERIVED = re.compile(r"\*\s*(?:__restrict__\s*)?(\w{1,80})\s*=\s*([^;]{1,200});")
_READ = re.compile(r"\b(\w{1,80})\s*\[([^\[\]]{1,120})\](?!\s*=[^=])")
_MATRIX = re.compile(r"\btl\.dot(?:_scaled)?\(|\bmma\.sync|\bwgmma\b|\bwmma::|\btcgen05\b|mma_sync")
_FP4 = re.compile(r"(?i)(?:nv|mx)?fp4|e2m1")


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


def read_source(text: str) -> SourceFacts:
    """Recognise what the text of a kernel file shows."""
    # CUDA C++ may also stand inside a Python string.
    language, bare = "cuda" if "__global__" in text else "triton", text
    if len(text) > _MAX_CHARS:
        return SourceFacts(language, text)
    if language == "cuda":
        bare = _COMMENT.sub(" ", text)  # also in strings, which are not told apart
        idle = tuple(_idle_cuda(bare, _constants(bare)))
        rereads = tuple(_rereads_cuda(bare))
    else:
        idle, rereads = _triton(text)
    return SourceFacts(
        language,
        text,
        idle=idle,
        rereads=rereads,
        matrix_instructions=bool(_MATRIX.search(bare)),
        fp4=bool(_FP4.search(bare)),
    )


def _triton(text: str) -> tuple[tuple[IdleLanes, ...], tuple[Reread, ...]]:
    try:
        with PARSING:
            tree = ast.parse(text)
        return read_triton(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return (), ()


def _constants(text: str) -> dict[str, int]:
    constants: dict[str, int] = {}
    for match in _CONSTANT.finditer(text):
        name = match["macro"] or match["name"]
        value = _number(match["macro_value"] or match["value"], constants)
        if value is not None:
            constants[name] = value
    return constants


def _number(expression: str, constants: dict[str, int]) -> int | None:
    """A product or quotient of literals and known names; None for anything else."""
    value: int | None = None
    operator = "*"
    for part in re.findall(r"\w+|[^\w\s]", expression):
        if part in "*/":
            operator = part
            continue
        literal = re.fullmatch(r"(\d+)[uUlL]*", part)
        operand = int(literal[1]) if literal else constants.get(part)
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
    # A guard for a single warp or thread that finishes a reduction is how reductions end.
    for pattern, least in ((_STRIDED_LOOP, 0), (_GUARD, 33)):
        for match in pattern.finditer(text):
            bound = _number(match["bound"], constants)
            if bound is not None and bound >= least:
                yield IdleLanes(bound, threads, " ".join(match[0].split())[:60])


def _rereads_cuda(text: str) -> Iterator[Reread]:
    """Global arrays that one kernel reads at the same index on both sides of a barrier."""
    for parameters, body in _kernels(text):
        pointers = {name: name for name in _POINTER.findall(parameters + ",")}
        for name, value in _DERIVED.findall(body):
            words = set(re.findall(r"\w+", value))
            root = next((pointers[pointer] for pointer in pointers if pointer in words), None)
            if root is not None:
                pointers[name] = root
        regions = _BARRIER.split(body)
        reads: dict[tuple[str, str], set[int]] = {}
        for number, region in enumerate(regions):
            for array, index in _READ.findall(region):
                if array in pointers:
                    key = (pointers[array], re.sub(r"\s+", "", index))
                    reads.setdefault(key, set()).add(number)
        passes_by_array: dict[str, int] = {}
        for (array, _), places in reads.items():
            if len(places) > 1:
                passes_by_array[array] = max(passes_by_array.get(array, 0), len(places))
        for array, passes in sorted(passes_by_array.items()):
            yield Reread(array, passes, "__syncthreads")


def _kernels(text: str) -> Iterator[tuple[str, str]]:
    """Parameter list and body of each `__global__` function."""
    for mark, start, end in islice(kernel_bodies(text), _MAX_KERNELS):
        header = text[mark:start].rstrip()
        if len(header) < _MAX_HEADER and header.endswith(")"):
            yield _last_group(header), text[start + 1 : min(end, start + 1 + _MAX_BODY)]


def _last_group(header: str) -> str:
    """What stands between the last closing parenthesis and its opening one."""
    depth = 0
    for position in range(len(header) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(header[position], 0)
        if depth == 0:
            return header[position + 1 : -1]
    return ""
