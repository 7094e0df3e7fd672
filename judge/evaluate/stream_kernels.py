"""Triton kernels that only read, or only write, a large buffer."""

from typing import Any, Final

import torch
import triton
import triton.language as tl

# 32 KiB a program: with 8 warps every thread has eight 16-byte accesses in flight.
_WORDS: Final = 8192
_WARPS: Final = 8
# A word of random data is this with a chance of 2^-32, so that (nearly) nothing is ever stored,
# yet the compiler cannot leave the loads out.
_NEVER: Final = 0x5A17C3E9


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _read_kernel(source, sink, never, WORDS: tl.constexpr):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    inside = tl.arange(0, WORDS)
    words = tl.load(source + tl.program_id(0).to(tl.int64) * WORDS + inside)
    tl.store(sink + inside, words, mask=words == never)


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _write_kernel(target, WORDS: tl.constexpr):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    offsets = tl.program_id(0).to(tl.int64) * WORDS + tl.arange(0, WORDS)
    # Knuth's multiplicative hash, so that what is written is no constant.
    tl.store(target + offsets, (offsets * 2654435761).to(tl.int32))


def read(source: Any, sink: Any) -> None:
    """Read all of `source` (uint8, length a multiple of 32 KiB) and store nothing to speak of.

    `sink` is any buffer of at least 32 KiB.
    """
    words = source.view(torch.int32)
    grid = (words.numel() // _WORDS,)
    _read_kernel[grid](words, sink.view(torch.int32), _NEVER, WORDS=_WORDS, num_warps=_WARPS)


def write(target: Any) -> None:
    """Write all of `target` (uint8, length a multiple of 32 KiB)."""
    words = target.view(torch.int32)
    grid = (words.numel() // _WORDS,)
    _write_kernel[grid](words, WORDS=_WORDS, num_warps=_WARPS)
