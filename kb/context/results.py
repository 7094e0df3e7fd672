"""Measured times of kernels near a problem, their settings, and what was slower."""

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Final

from kb.context.calls import declared_tunables
from kb.context.choosing import axes_of, is_slower, min_speedup, records_on
from kb.context.cutting import prose_prefixes
from kb.corpus.entries import Kernel, Verified
from kb.corpus.measured import BASELINES
from kb.index.reader import Generation
from kb.index.state import KernelRecord
from kb.parsing import PARSING

ENTRY: Final = "kernel_function"
# Kernels that are told of: those after them are less near, or slower.
_MAX_BEST, _MAX_WORSE = 3, 4
# Sentences with figures are quoted of so many kernels.
_MAX_QUOTED = 2
# A kernel at less of its floor is no pattern to follow.
_FAR = 0.6
# Closer than this is level: medians differ by some 2 to 3 % between sessions.
_LEVEL = 0.97
_FIGURE = re.compile(r"\d ms\b")
_PARAGRAPH = re.compile(r"\n\s*\n")


def result_lines(slugs: Sequence[str], generation: Generation, gpu: str | None) -> list[str]:
    """Return lines with times, settings and slower kernels; empty if none was measured.

    Parameters
    ----------
    slugs
        Kernels for the problem's heaviest operator, the nearest first.
    gpu
        GPU whose measurements are reported; those of another GPU say so.
    """
    kernels = generation.kernels
    records = [kernels[s] for s in dict.fromkeys(slugs) if records_on(kernels[s].entry, gpu)]
    best = [record for record in records if not is_slower(record.entry, gpu)][:_MAX_BEST]
    if not best:
        return []
    card = records_on(best[0].entry, gpu)[0].gpu
    far = [records_on(record.entry, gpu)[0].floor_fraction or 1.0 for record in best]
    far_note = f". Below {_FAR:.0%}, look for another design" if min(far) < _FAR else ""
    share_note = f"share of the floor at measured rates{far_note}"
    lines = [f"Measured on {card} ({share_note}), the nearest first:"]
    for place, record in enumerate(best):
        lines.append(f"- {_result_line(record, gpu, card)}")
        if place < _MAX_QUOTED:
            lines += [f"  {sentence}" for sentence in _figures(generation, record.entry.slug)]
    slower = sorted(
        (record.entry for record in records if is_slower(record.entry, gpu)),
        key=lambda kernel: (-min_speedup(kernel, gpu), kernel.slug),
    )
    sentences: dict[str, str] = {}
    improved = _improved_on(best, generation, gpu)
    for slug, words in (*_slower_variants(slower, gpu), *improved, *_behind_pytorch(slower, gpu)):
        sentences.setdefault(slug, words)
    if sentences:
        lines.append(f"Tried and slower: {'; '.join(list(sentences.values())[:_MAX_WORSE])}.")
    return lines


def settings(code: str) -> str:
    """Return the defaults with which a kernel was measured, as `block_m=128, num_warps=8`."""
    try:
        with PARSING:
            module = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    tunables = declared_tunables(module)
    entry = next(
        (n for n in module.body if isinstance(n, ast.FunctionDef) and n.name == ENTRY), None
    )
    if entry is None:
        return ""
    defaults = entry.args.defaults
    optional = entry.args.args[len(entry.args.args) - len(defaults) :]
    pairs = [*zip(optional, defaults, strict=True),
             *zip(entry.args.kwonlyargs, entry.args.kw_defaults, strict=True)]  # fmt: skip
    return ", ".join(
        f"{argument.arg}={default.value!r}"
        for argument, default in pairs
        if argument.arg in tunables and isinstance(default, ast.Constant)
    )


def _result_line(record: KernelRecord, gpu: str | None, card: str) -> str:
    """`slug (techniques), 64x512 = [M, N]: 0.66 ms (77%), torch.compile 1.2; block=2048.`"""
    kernel = record.entry
    records = records_on(kernel, gpu)
    first = records[0]
    share = f" ({first.floor_fraction:.0%})" if first.floor_fraction is not None else ""
    elsewhere = f" on {first.gpu}" if first.gpu != card else ""
    rivals = "".join(f", {rival.baseline} {rival.baseline_ms:.4g}" for rival in _rivals(records))
    defaults, axes = settings(record.code), axes_of(record.code)
    shows = f" ({', '.join(kernel.techniques)})" if kernel.techniques else ""
    size = f"{first.shape} = {axes}," if axes else first.shape
    return (
        f"{kernel.slug}{shows}, {size} {first.dtype}{elsewhere}: {first.measured_ms:.4g} ms{share}"
        f"{rivals}{f'; {defaults}' if defaults else ''}."
    )


def _rivals(records: Sequence[Verified]) -> list[Verified]:
    first = records[0]
    same = [
        record for record in records if (record.shape, record.dtype) == (first.shape, first.dtype)
    ]
    return sorted((r for r in same if r.baseline in BASELINES), key=lambda rival: rival.baseline)


def _slower_variants(slower: Sequence[Kernel], gpu: str | None) -> Iterator[tuple[str, str]]:
    """Kernels that a technique made slower than the one they were made from."""
    for kernel in slower:
        for record in records_on(kernel, gpu):
            if record.baseline == kernel.derived_from and record.speedup < _LEVEL:
                yield kernel.slug, _comparison(kernel.slug, record)


def _improved_on(
    best: Sequence[KernelRecord], generation: Generation, gpu: str | None
) -> Iterator[tuple[str, str]]:
    """What the best kernels were made from, where that is slower, and by which techniques."""
    for kernel in (record.entry for record in best):
        for record in records_on(kernel, gpu):
            if record.baseline == kernel.derived_from and record.speedup > 1 / _LEVEL:
                plain = generation.kernels.get(record.baseline)
                before = plain.entry.techniques if plain is not None else ()
                added = ", ".join(t for t in kernel.techniques if t not in before)
                yield (
                    record.baseline,
                    f"{record.baseline} {record.baseline_ms:.4g} ms where {kernel.slug} takes "
                    f"{record.measured_ms:.4g}{f' by {added}' if added else ''}",
                )


def _behind_pytorch(slower: Sequence[Kernel], gpu: str | None) -> Iterator[tuple[str, str]]:
    """Kernels beside the faster one of PyTorch's forms."""
    for kernel in slower:
        for record in sorted(_rivals(records_on(kernel, gpu)), key=lambda rival: rival.baseline_ms):
            yield kernel.slug, _comparison(kernel.slug, record)
            break


def _comparison(slug: str, record: Verified) -> str:
    return (
        f"{slug}, {record.shape}: {record.measured_ms:.4g} ms where {record.baseline} takes "
        f"{record.baseline_ms:.4g}"
    )


def _figures(generation: Generation, slug: str) -> Iterator[str]:
    """Sentences of a kernel's description that tell a time."""
    for chunk in generation.store.rows(generation.rows_of(f"kernel:{slug}")):
        for paragraph in _PARAGRAPH.split(chunk.text) if chunk.section is not None else ():
            before = ""
            for prefix in prose_prefixes(" ".join(paragraph.split())):
                sentence = prefix[len(before) :].strip()
                before = prefix
                if _FIGURE.search(sentence):
                    yield sentence
