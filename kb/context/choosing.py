"""Choose kernels of an operator family: by their intended shapes, then by measurement.

A kernel measured slower than PyTorch is no example to follow, so it is not chosen.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from kb.architectures import any_runs_on
from kb.corpus.entries import Kernel, Verified
from kb.corpus.measured import BASELINES, COMPILED, EAGER, LIBRARY
from kb.errors import InvalidInputError
from kb.gpus import find_gpu, gpu_spelling
from kb.index.reader import Generation

# Medians of one kernel differ by some 2 to 3 % between sessions: closer than this is level.
_LEVEL = 0.97
# `torch.compile` and libraries fuse and tune; a kernel far behind them teaches the wrong thing.
_FAR_BEHIND = 0.9
# An unmeasured kernel stands behind what is known to be level with PyTorch, before what is not.
_UNMEASURED = 0.965
# Of two kernels, how much more one has to gain over PyTorch to be named beside the other.
_CLEAR_GAIN = 1.2
# Baselines as a sentence names them.
_LABELS = {EAGER: "eager PyTorch", COMPILED: COMPILED, LIBRARY: "the vendor library"}
# Axes in brackets; the lengths are bounded, as is the file.
_SIZE = re.compile(r"`size` is (\[[^\]]{1,120}\])")


def records_on(kernel: Kernel, gpu: str | None) -> list[Verified]:
    """Return the measurements of one kernel on one GPU: the named one, else the first measured."""
    records = list(kernel.verified)
    if not records:
        return []
    family = _family(gpu) if gpu else None
    model = next((r.gpu for r in records if family and _family(r.gpu) == family), records[0].gpu)
    return [record for record in records if record.gpu == model]


@lru_cache(maxsize=256)
def _family(gpu: str) -> str:
    try:
        return find_gpu(gpu).family
    except InvalidInputError:  # an architecture, or a card that the table lacks
        return gpu_spelling(gpu)


def speedup(kernel: Kernel, baseline: str, gpu: str | None) -> float | None:
    """Return how many times as fast as a baseline a kernel was measured; None if it was not."""
    speedups = [r.speedup for r in records_on(kernel, gpu) if r.baseline == baseline]
    return max(speedups) if speedups else None


def is_slower(kernel: Kernel, gpu: str | None) -> bool:
    """Whether a kernel was measured slower than PyTorch, or than the library for the same work."""
    least = {EAGER: _LEVEL, COMPILED: _FAR_BEHIND, LIBRARY: _FAR_BEHIND}
    speedups = {name: speedup(kernel, name, gpu) for name in least}
    return any(ratio is not None and ratio < least[name] for name, ratio in speedups.items())


def start_note(kernel: Kernel, gpu: str | None) -> str:
    """Return how far a kernel is behind PyTorch or the library; empty if it is not slower."""
    if not is_slower(kernel, gpu):
        return ""
    ratios = {name: ratio for name in _LABELS if (ratio := speedup(kernel, name, gpu)) is not None}
    name = min(ratios, key=lambda baseline: ratios[baseline])
    return (
        f"{ratios[name]:.2f}x as fast as {_LABELS[name]}: call that first; this is a start, not an "
        "example to follow."
    )


def min_speedup(kernel: Kernel, gpu: str | None) -> float:
    """Return the least of the speedups over eager, `torch.compile` and the library."""
    speedups = [ratio for name in BASELINES if (ratio := speedup(kernel, name, gpu)) is not None]
    return min(speedups) if speedups else _UNMEASURED


def clearly_faster(
    kernels: dict[str, Kernel], one: str | None, other: str | None, gpu: str | None
) -> bool:
    """Whether a kernel gains far more over PyTorch than another one."""
    if one not in kernels or other not in kernels:
        return False
    return min_speedup(kernels[one], gpu) > _CLEAR_GAIN * min_speedup(kernels[other], gpu)


def runnable(generation: Generation, language: str | None, device: str | None) -> dict[str, Kernel]:
    """Return the kernels that are in the language asked for and run on the device."""
    return {
        slug: record.entry
        for slug, record in generation.kernels.items()
        if language in (None, record.entry.language)
        and (device is None or any_runs_on(record.entry.architectures, device))
    }


def rank_kernels(
    kernels: dict[str, Kernel],
    ops: Sequence[str],
    preferred: Iterable[str],
    gpu: str | None,
    special: frozenset[str] = frozenset(),
) -> list[str]:
    """Return slugs of kernels of these families that are good examples, the best first.

    Parameters
    ----------
    kernels
        Those to choose from.
    ops
        Operator families, the best first.
    preferred
        Slugs made for the shape. They come first, if they are not slower than PyTorch.
    special
        Slugs made for other shapes. They come last, however fast they were at theirs.
    gpu
        GPU whose measurements count.
    """
    rank = {slug: place for place, slug in enumerate(preferred)}
    families = {op: place for place, op in enumerate(ops)}
    slugs = [
        slug
        for slug, kernel in kernels.items()
        if kernel.op in families and not is_slower(kernel, gpu)
    ]

    def order(slug: str) -> tuple[float | bool | str, ...]:
        kernel = kernels[slug]
        return (
            rank.get(slug, len(rank)),
            slug in special and slug not in rank,
            families[kernel.op],
            kernel.language != "triton",
            -min_speedup(kernel, gpu),
            slug,
        )

    return sorted(slugs, key=order)


def slower_kernels(kernels: dict[str, Kernel], ops: Sequence[str], gpu: str | None) -> list[str]:
    """Return slugs of kernels of these families that were measured slower, the fastest first."""
    slugs = [s for s, k in kernels.items() if k.op in ops and is_slower(k, gpu)]
    return sorted(slugs, key=lambda slug: (-min_speedup(kernels[slug], gpu), slug))


def axes_of(code: str) -> str | None:
    """Return the meaning of a size's numbers, from the docstring of `make_inputs`."""
    match = _SIZE.search(code)
    return None if match is None else " ".join(match[1].split())


def times_line(kernel: Kernel, gpu: str | None, axes: str | None = None) -> str:
    """Return the measured time beside the floor and PyTorch's, in one line.

    `axes` says what the numbers of a size mean. The line is short for a kernel that is slower than
    PyTorch.
    """
    records = records_on(kernel, gpu)
    if not records:
        return "Not measured on a GPU; checked in the CPU interpreter."
    first = records[0]
    same = [r for r in records if (r.shape, r.dtype) == (first.shape, first.dtype)]
    parts = [f"this {first.measured_ms:.4g} ms"]
    if is_slower(kernel, gpu):
        beside = [r for r in same if r.baseline in BASELINES]
        parts += [f"{r.baseline} {r.baseline_ms:.4g} ms" for r in beside]
        return f"Measured on {first.gpu}, {first.shape}, {first.dtype}: {', '.join(parts)}."
    if first.floor_fraction is not None:
        floor = first.measured_ms * first.floor_fraction
        parts.append(f"floor {floor:.4g} ms at measured bandwidth and rates")
    # A plain version says what a change gained, not whether the kernel is fast.
    compared = [r for r in same if r.baseline in BASELINES]
    for record in sorted(compared or same, key=lambda r: r.baseline):
        verdict = ": slower" if record.speedup < 1 else " as fast"
        ratio = f"this is {record.speedup:.2f}x{verdict}"
        parts.append(f"{record.baseline} {record.baseline_ms:.4g} ms ({ratio})")
    size = f"{first.shape} = {axes}" if axes else first.shape
    return f"Measured on {first.gpu}, {size}, {first.dtype}: " + "; ".join(parts) + "."
