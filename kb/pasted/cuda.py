"""What the text of a CUDA kernel shows: atomics in loops, lanes along a slow axis, index divisions,
sums in half precision, doubles by accident, missing bounds."""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from kb.pasted.remark import Remark

# Every repetition is bounded or cannot overlap with what follows it.
_COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
# int i = blockIdx.x * blockDim.x + threadIdx.x;
_INDEX = re.compile(
    r"\b(?:unsigned|const|long|int|auto|size_t|u?int\d{1,2}_t)\s{1,8}(\w{1,40})\s{0,8}=\s{0,8}"
    r"([^;={}]{0,120}\bthreadIdx\.x[^;={}]{0,80});"
)
# Warps, or lanes within one, numbered: not the lanes of a block.
_WARPS = re.compile(r"threadIdx\.x[\s)]{0,8}(?:/|>>|%|&|\*)")
_ATOMIC = re.compile(
    r"\batomic(?:Add|Sub|Min|Max|And|Or|Xor|Inc)\s{0,4}\(\s{0,4}&?([^,;{}]{1,120})"
)
_SHARED = re.compile(r"\b__shared__\b[^;{}]{0,80}?\b(\w{1,40})\s{0,4}(?:\[|;)")
_LOOP = re.compile(
    r"\b(?:for|while)\s{0,8}\("
    r"(?:\s{0,4}(?:unsigned|const|long|int|auto|size_t|u?int\d{1,2}_t)\s{1,8}(\w{1,40}))?"
)
_HALF = re.compile(r"\b(?:__half|half|__nv_bfloat16|nv_bfloat16)\s{1,8}(\w{1,40})\s{0,8}=")
_DOUBLE = re.compile(r"(?<![\w.])\d{1,12}\.\d{0,20}(?:[eE][+-]?\d{1,3})?(?![\w.])")
_DIVIDED = re.compile(r"\b(\w{1,40})\s{0,4}[/%]\s{0,4}(\(\s{0,4})?([A-Za-z_]\w{0,40})")
_BRANCH = re.compile(
    r"\bif\s{0,4}\([^;{}\n]{0,60}(?:threadIdx\.x|\btid|\blane(?:_?id)?)\s{0,4}(?:%|&)\s{0,4}"
    r"(?!0x1f|31\b|32\b)\d"
)
_CONSTANT = re.compile(
    r"\b(?:constexpr|const)\s{1,8}[\w \t]{1,40}\b(\w{1,40})\s{0,8}=|#[ \t]*define[ \t]+(\w{1,40})"
)

_ATOMIC_TEXT: Final = (
    "an atomic on global memory in a loop: add up in registers, or in shared memory for the block, "
    "with one atomic after the loop."
)
_DIVISION: Final = (
    "in a loop, each thread divides its index by a value of run time, some 20 instructions for 32 "
    "bits and far more for 64: carry the parts along, or make the divisor a template argument."
)
_SUM: Final = (
    "the running sum is kept in 16 bits, which loses small terms as it grows: add in float and "
    "convert once, at the store."
)
_DOUBLE_TEXT: Final = (
    "a literal without `f` is a double, and what it is combined with is computed in double: write "
    "`f` behind it."
)
_BRANCH_TEXT: Final = (
    "lanes of one warp take different branches, which run one after the other: let whole warps "
    "branch, or select the value without a branch."
)


def remarks(text: str) -> Iterator[Remark]:
    """Yield what is seen in a file's kernels."""
    bare = _COMMENT.sub(_blank, text)  # also in strings, which are not told apart
    constants = {name for pair in _CONSTANT.findall(bare) for name in pair if name}
    closing = _closing(bare)
    for start, end in _bodies(bare, closing):
        yield from _Body(bare, start, end, constants).remarks()


def _blank(match: re.Match[str]) -> str:
    return " " + "\n" * match[0].count("\n")


def _bodies(text: str, closing: dict[int, int]) -> Iterator[tuple[int, int]]:
    """Where the body of each kernel begins and ends."""
    place = 0
    while (place := text.find("__global__", place)) >= 0:
        start = text.find("{", place)
        if start < 0:
            return
        place = closing.get(start, len(text))
        yield start, place


def _closing(text: str) -> dict[int, int]:
    """Where each bracket that is closed is closed."""
    found: dict[int, int] = {}
    opened: dict[str, list[int]] = {"}": [], ")": []}
    for match in re.finditer(r"[{}()]", text):
        match match[0]:
            case "{":
                opened["}"].append(match.start())
            case "(":
                opened[")"].append(match.start())
            case end if opened[end]:
                found[opened[end].pop()] = match.start()
    return found


class _Loop(NamedTuple):
    """A loop's body, and what it counts with."""

    start: int
    end: int
    variable: str


class _Body:
    """One kernel's body."""

    def __init__(self, text: str, start: int, end: int, constants: set[str]) -> None:
        self._before = text.count("\n", 0, start) + 1
        self._text = text[start:end]
        self._constants = constants
        self._loops = list(self._loop_spans())
        self._lanes = [
            match[1] for match in _INDEX.finditer(self._text) if not _WARPS.search(match[2])
        ]
        """Names that differ by one from lane to lane."""

    def remarks(self) -> Iterator[Remark]:
        """Yield what is seen."""
        shared = set(_SHARED.findall(self._text))
        for match in _ATOMIC.finditer(self._text):
            loop = self._innermost(match.start())
            words = set(re.findall(r"\w+", match[1]))
            if loop is not None and words.isdisjoint(shared | {loop.variable}):
                yield self._at(match.start(), _ATOMIC_TEXT, "atomics-privatization")
        for match in _BRANCH.finditer(self._text):
            yield self._at(match.start(), _BRANCH_TEXT, "divergence-avoidance")
        yield from self._apart()
        yield from self._divisions()
        yield from self._sums()
        if "double" not in self._text:
            for match in _DOUBLE.finditer(self._text):
                yield self._at(match.start(), _DOUBLE_TEXT, None)

    def _at(self, place: int, text: str, technique: str | None) -> Remark:
        return Remark(self._before + self._text.count("\n", 0, place), text, technique)

    def _innermost(self, place: int) -> "_Loop | None":
        around = [loop for loop in self._loops if loop.start < place < loop.end]
        return around[-1] if around else None

    def _loop_spans(self) -> "Iterator[_Loop]":
        closing = _closing(self._text)
        for match in _LOOP.finditer(self._text):
            head = closing.get(self._text.index("(", match.start()), len(self._text))
            brace = re.match(r"\s{0,80}\{", self._text[head + 1 : head + 82])
            end = self._text.find(";", head)
            if brace is not None:
                end = closing.get(head + brace.end(), len(self._text))
            yield _Loop(head, end if end >= 0 else head, match[1] or "")

    def _apart(self) -> Iterator[Remark]:
        """Lanes along an axis that is not the fastest: their index is multiplied in an address."""
        for name in dict.fromkeys(self._lanes):
            word = re.escape(name)
            times = re.compile(
                rf"(?<![\w.]){word}\s{{0,4}}\*\s{{0,4}}([A-Za-z_]\w{{0,40}})"
                rf"|(?<![\w.])([A-Za-z_]\w{{0,40}})\s{{0,4}}\*\s{{0,4}}{word}\b"
            )
            for match in times.finditer(self._text):
                factor = match[1] or match[2]
                if factor in self._constants or factor.isupper():
                    continue
                text = (
                    f"`{name}` runs along the lanes (threadIdx.x) and is multiplied by `{factor}`: "
                    "neighbouring lanes access addresses that far apart. Let threadIdx.x run along "
                    "the dimension that is contiguous in memory."
                )
                yield self._at(match.start(), text, "coalesced-access")
                break

    def _divisions(self) -> Iterator[Remark]:
        for match in _DIVIDED.finditer(self._text):
            divisor = match[3]
            known = divisor in self._constants or divisor.isupper()
            runtime = (not known or match[2]) and divisor != "warpSize"
            if match[1] in self._lanes and runtime and self._innermost(match.start()):
                yield self._at(match.start(), _DIVISION, "shape-specialization")

    def _sums(self) -> Iterator[Remark]:
        for name in dict.fromkeys(_HALF.findall(self._text)):
            word = re.escape(name)
            adds = re.compile(
                rf"(?<![\w.]){word}\s{{0,4}}(?:\+=|=\s{{0,4}}(?:{word}\s{{0,4}}\+"
                rf"|__hadd\w{{0,4}}\(\s{{0,4}}{word}\b"
                rf"|__hfma\w{{0,4}}\([^;{{}}]{{0,120}},\s{{0,4}}{word}\s{{0,4}}\)))"
            )
            for match in adds.finditer(self._text):
                if self._innermost(match.start()):
                    yield self._at(match.start(), _SUM, None)
