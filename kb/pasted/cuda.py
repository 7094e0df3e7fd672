"""What the text of a CUDA kernel shows: atomics in loops, lanes along a slow axis, index divisions,
sums in half precision, doubles by accident, branches within a warp."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from kb.pasted.remark import Remark

# Every repetition is bounded or cannot overlap with what follows it.
_COMMENT = re.compile(r'//[^\n]*|/\*.*?(?:\*/|\Z)|"(?:[^"\\\n]|\\.){0,400}"', re.DOTALL)
# int i = blockIdx.x * blockDim.x + threadIdx.x;
_INTEGER = re.compile(
    r"\b(?:unsigned|const|long|int|auto|size_t|u?int\d{1,2}_t)\s{1,8}(\w{1,40})\s{0,8}=\s{0,8}"
    r"([^;={}]{1,200});"
)
# Warps, or lanes within one, numbered: not the lanes of a block.
_WARPS = re.compile(r"threadIdx\.x[\s)]{0,8}(?:/|>>|%|&|\*)")
_ATOMIC = re.compile(
    r"\batomic(?:Add|Sub|Min|Max|And|Or|Xor|Inc)\s{0,4}\(\s{0,4}&?([^,;{}]{1,120})"
)
_SHARED = re.compile(r"\b__shared__\b[^;{}]{0,80}?\b(\w{1,40})\s{0,4}(?:\[|;)")
_ASSIGNMENT = re.compile(r"\b(\w{1,40})\s{0,4}[-+*/|&]?=(?!=)([^;{}]{0,160})")
_LOOP = re.compile(
    r"\b(?:for|while)\s{0,8}\("
    r"(?:\s{0,4}(?:unsigned|const|long|int|auto|size_t|u?int\d{1,2}_t)\s{1,8}(\w{1,40}))?"
)
_HALF = re.compile(r"\b(?:__half|half|__nv_bfloat16|nv_bfloat16)\s{1,8}(\w{1,40})\s{0,8}=")
_RUNNING_SUM = re.compile(
    r"(?<![\w.])(\w{1,40})\s{0,4}(?:\+=|=\s{0,4}(?:\1\s{0,4}\+|__hadd\w{0,4}\(\s{0,4}\1\b"
    r"|__hfma\w{0,4}\([^;{}]{0,120},\s{0,4}\1\s{0,4}\)))"
)
# Beside an operator of arithmetic: elsewhere a literal is converted while compiling.
_DOUBLE = re.compile(
    r"(?:[*/+]|[\w)\]]\s{0,4}-)\s{0,4}"
    r"(?<![\w.])(?:\d{1,12}\.\d{0,20}(?:[eE][+-]?\d{1,3})?|\d{1,12}[eE][+-]?\d{1,3})(?![\w.])"
    r"|(?<![\w.])(?:\d{1,12}\.\d{0,20}(?:[eE][+-]?\d{1,3})?|\d{1,12}[eE][+-]?\d{1,3})(?![\w.])"
    r"\s{0,4}[-*/+]"
)
_DIVISION_PATTERN = re.compile(r"\b(\w{1,40})\s{0,4}[/%]\s{0,4}(\([^()]{1,80}\)|[A-Za-z_]\w{0,40})")
_PRODUCT = re.compile(r"(?<![\w.])([A-Za-z_]\w{0,40})\s{0,4}\*\s{0,4}([A-Za-z_]\w{0,40})(?![\w.(])")
_ACCESS = re.compile(r"\b(\w{1,40})\s{0,4}\[([^\[\]]{1,200})\]")
_WORD = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_BRANCH = re.compile(
    r"\bif\s{0,4}\([^;{}()\n]{0,60}(?:threadIdx\.x|\btid|\blane(?:_?id)?)\s{0,4}(%|&)\s{0,4}"
    r"(0x[0-9a-fA-F]{1,8}|\d{1,9})"
)
_ELSE = re.compile(r"\s{0,80}else\b")
_CONSTANT = re.compile(
    r"\b(?:constexpr|const)\s{1,8}[\w \t]{1,40}\b(\w{1,40})\s{0,8}=|#[ \t]*define[ \t]+(\w{1,40})"
)
_TEMPLATE = re.compile(r"\btemplate\s{0,8}<([^<>{};]{1,400})>")
_WARP: Final = 32

_ATOMIC_TEXT: Final = (
    "an atomic on global memory in a loop: add up in registers, or in shared memory for the block, "
    "with one atomic after the loop."
)
_DIVISION: Final = (
    "in a loop, each thread divides its index by a run-time value, some 20 instructions for 32 "
    "bits and far more for 64: update the parts in steps, or make the divisor a template argument."
)
_SUM: Final = (
    "the running sum is kept in 16 bits, which loses small terms as it grows: add in float and "
    "convert once, at the store."
)
_DOUBLE_TEXT: Final = (
    "a literal without `f` is a double, so its expression is computed in double: append `f` to "
    "the literal."
)
_BRANCH_TEXT: Final = (
    "lanes of one warp take different branches, which run one after the other: let whole warps "
    "branch, or select the value without a branch."
)


def remarks(text: str) -> Iterator[Remark]:
    """Yield what is seen in a file's kernels."""
    bare = _COMMENT.sub(_blank, text)
    constants = {name for pair in _CONSTANT.findall(bare) for name in pair if name}
    for parameters in _TEMPLATE.findall(bare):
        constants.update(_WORD.findall(parameters))
    for _, start, end in kernel_bodies(bare):
        yield from _Body(bare, start, end, constants).remarks()


def _blank(match: re.Match[str]) -> str:
    return " " + "\n" * match[0].count("\n")


def kernel_bodies(text: str) -> Iterator[tuple[int, int, int]]:
    """Where each kernel is declared, and where its body begins and ends."""
    closing, mark = _closing(text), 0
    while (mark := text.find("__global__", mark)) >= 0:
        start, declared = text.find("{", mark), text.find(";", mark)
        if start < 0:
            return
        if 0 <= declared < start:
            mark = declared
            continue
        end = closing.get(start, len(text))
        yield mark, start, end
        mark = end


def _closing(text: str) -> dict[int, int]:
    """Where each bracket that is closed is closed."""
    closings: dict[int, int] = {}
    open_at: dict[str, list[int]] = {"}": [], ")": []}
    for match in re.finditer(r"[{}()]", text):
        match match[0]:
            case "{":
                open_at["}"].append(match.start())
            case "(":
                open_at[")"].append(match.start())
            case end if open_at[end]:
                closings[open_at[end].pop()] = match.start()
    return closings


@dataclass(slots=True)
class _Loop:
    """A loop's body, what it counts with, and what it assigns, once that was looked for."""

    start: int
    end: int
    counts: set[str]
    assigned: set[str] = field(default_factory=set)


class _Body:
    """One kernel's body."""

    def __init__(self, text: str, start: int, end: int, constants: set[str]) -> None:
        self._before = text.count("\n", 0, start) + 1
        self._text = text[start:end]
        self._closing = _closing(self._text)
        self._constants = constants
        self._loops = list(self._loop_spans())
        self._integers = list(_INTEGER.finditer(self._text))
        self._lanes = {
            match[1]
            for match in self._integers
            if "threadIdx.x" in match[2] and not _WARPS.search(match[2])
        }
        """Names that differ by one from lane to lane."""
        self._shared = set(_SHARED.findall(text))
        for match in _ASSIGNMENT.finditer(self._text):
            if not self._shared.isdisjoint(_WORD.findall(match[2])) and "[" not in match[2]:
                self._shared.add(match[1])

    def remarks(self) -> Iterator[Remark]:
        """Yield what is seen."""
        yield from self._atomics()
        yield from self._branches()
        yield from self._strided_lanes()
        yield from self._divisions()
        yield from self._sums()
        if "double" not in self._text:
            for match in _DOUBLE.finditer(self._text):
                yield self._remark_at(match.start(), _DOUBLE_TEXT, None)

    def _remark_at(self, place: int, text: str, technique: str | None) -> Remark:
        return Remark(self._before + self._text.count("\n", 0, place), text, technique)

    def _innermost(self, place: int) -> "_Loop | None":
        around = [loop for loop in self._loops if loop.start < place < loop.end]
        return around[-1] if around else None

    def _loop_spans(self) -> "Iterator[_Loop]":
        for match in _LOOP.finditer(self._text):
            head = self._closing.get(self._text.index("(", match.start()), len(self._text))
            end = self._statement_end(head + 1)
            yield _Loop(head, end, {match[1] or ""})

    def _statement_end(self, place: int) -> int:
        """Where a statement or block that begins at a place ends."""
        brace = re.match(r"\s{0,80}\{", self._text[place : place + 81])
        if brace is not None:
            return self._closing.get(place + brace.end() - 1, len(self._text))
        return max(self._text.find(";", place), place)

    def _varies(self, name: str) -> bool:
        return not (name in self._constants or name.isupper() or name == "warpSize")

    def _atomics(self) -> Iterator[Remark]:
        """Those whose address is the same in each turn, and whose result nobody uses."""
        for match in _ATOMIC.finditer(self._text):
            loop = self._innermost(match.start())
            before = self._text[: match.start()].rstrip()[-1:]
            if loop is None or before not in ";{})":
                continue
            if not loop.assigned:
                body = self._text[loop.start : loop.end]
                loop.assigned.update(match_[1] for match_ in _ASSIGNMENT.finditer(body))
                loop.assigned |= loop.counts
            words = set(_WORD.findall(match[1]))
            if words.isdisjoint(self._shared | loop.assigned):
                yield self._remark_at(match.start(), _ATOMIC_TEXT, "atomics-privatization")

    def _branches(self) -> Iterator[Remark]:
        """Two ways of which lanes of one warp take each."""
        for match in _BRANCH.finditer(self._text):
            number = int(match[2], 0) if match[2].startswith("0x") else int(match[2])
            among = number < _WARP if match[1] == "%" else number % _WARP not in {0, _WARP - 1}
            head = self._closing.get(self._text.index("(", match.start()))
            if not among or number < 1 or head is None:
                continue
            if _ELSE.match(self._text, self._statement_end(head + 1) + 1):
                yield self._remark_at(match.start(), _BRANCH_TEXT, "divergence-avoidance")

    def _strided_lanes(self) -> Iterator[Remark]:
        """Lanes along an axis that is not the fastest: their index is multiplied in an address."""
        used: set[str] = set()
        addresses: list[tuple[int, str]] = []
        for match in _ACCESS.finditer(self._text):
            if match[1] not in self._shared:
                used.update(_WORD.findall(match[2]))
                addresses.append((match.start(2), match[2]))
        addresses += [
            (integer.start(2), integer[2]) for integer in self._integers if integer[1] in used
        ]
        reported: set[str] = set()
        for start, address in addresses:
            for match in _PRODUCT.finditer(address):
                pair = (match[1], match[2])
                name = next((word for word in pair if word in self._lanes), None)
                factor = pair[1] if name == pair[0] else pair[0]
                if name is None or name in reported or not self._varies(factor):
                    continue
                reported.add(name)
                text = (
                    f"`{name}` runs along the lanes (threadIdx.x) and is multiplied by `{factor}`: "
                    "neighbouring lanes access addresses that far apart. Let threadIdx.x run along "
                    "the dimension that is contiguous in memory."
                )
                yield self._remark_at(start + match.start(), text, "coalesced-access")

    def _divisions(self) -> Iterator[Remark]:
        for match in _DIVISION_PATTERN.finditer(self._text):
            runtime = any(map(self._varies, _WORD.findall(match[2])))
            if match[1] in self._lanes and runtime and self._innermost(match.start()):
                yield self._remark_at(match.start(), _DIVISION, "shape-specialization")

    def _sums(self) -> Iterator[Remark]:
        declared: dict[str, list[int]] = {}
        for match in _HALF.finditer(self._text):
            declared.setdefault(match[1], []).append(match.start())
        for match in _RUNNING_SUM.finditer(self._text):
            loop = self._innermost(match.start())
            places = declared.get(match[1], ())
            if loop is None or not places or any(loop.start < at < loop.end for at in places):
                continue
            yield self._remark_at(match.start(), _SUM, None)
