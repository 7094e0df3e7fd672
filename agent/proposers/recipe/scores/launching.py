"""What the launcher of a kernel of scores checks, and what may be tuned."""

import math
from collections.abc import Mapping, Sequence

from agent.proposers.recipe.patterns import require
from agent.proposers.recipe.scores.reading import PAGE, WIDTH
from agent.proposers.recipe.scores.values import Attention

BLOCKS = (16, 32, 64, 128)
"""Sizes of blocks of queries and keys; the first is the least that Triton's products take."""
# Up to which width blocks are of 64 queries.
_WIDE = 128
_LARGE = 64
# Of an H100 or H200.
_MULTIPROCESSORS = 132
_MOST_SPLITS = 32


def tunables(attention: Attention, rows: int, widest: int) -> dict[str, tuple[int, list[int]]]:
    """By name: the default, and values that make sense.

    Parameters
    ----------
    rows
        The axis of which a program has a block.
    widest
        Of the widths of heads.
    """
    sizes = attention.values.sizes
    wide = widest > _WIDE
    blocks = {
        name: [each for each in BLOCKS if each < 2 * sizes[axis] or each == BLOCKS[0]]
        for name, axis in (("BLOCK_M", rows), ("BLOCK_N", len(sizes) - 1))
    }
    most = {"BLOCK_M": BLOCKS[0] if wide else _LARGE, "BLOCK_N": 32 if wide else 64}
    found = {name: (min(most[name], of[-1]), of) for name, of in blocks.items()}
    found |= {"WARPS": (4, [4, 8]), "STAGES": (2, [1, 2, 3])}
    if attention.hidden is not None:
        # A branch keeps loads from being issued ahead: it pays where a mask hides whole blocks of
        # some queries, not where it hides the end of all keys.
        found["SKIP"] = (int(rows in attention.values.axes(attention.hidden)), [0, 1])
    programs = math.prod(sizes[:-1]) // sizes[rows] * math.ceil(sizes[rows] / _LARGE)
    splits = _splits(programs, sizes[-1] // (2 * found["BLOCK_N"][0]))
    if len(splits) > 1:
        found["SPLITS"] = (1, splits)
    return found


def _splits(programs: int, most: int) -> list[int]:
    """Into how many parts, `most` at most, the keys of so many programs may be split."""
    found = [1]
    while 2 * found[-1] <= min(most, _MOST_SPLITS) and found[-1] * programs < 4 * _MULTIPROCESSORS:
        found.append(2 * found[-1])
    return found


def allocations(outputs: Mapping[str, Sequence[int | None]], dtype: str) -> list[str]:
    """Lines that allocate the outputs, which have these axes; `out` alone has this dtype."""
    lines = []
    for name, axes in outputs.items():
        sizes = "".join("width, " if axis == WIDTH else f"size_{axis}, " for axis in axes)
        own = dtype if name == "out" else "float32"
        lines.append(f"{name} = torch.empty(({sizes}), dtype=torch.{own}, device=t0.device)")
    return lines


def guards(attention: Attention, widths: Mapping[str, tuple[int, int, int]]) -> list[str]:
    """Lines that take sizes from the tensors and refuse others.

    `widths` has, by name, the number and the dimension of the tensor that a width is of.

    Raises
    ------
    NoMatchError
        A size does not follow from the tensors.
    """
    reads, keys = attention.reads(), len(attention.values.sizes) - 1
    tables = [each.table for each in reads if each.table is not None]
    sizes = {axis: "1" for axis, size in enumerate(attention.values.sizes) if size == 1}
    checks = []
    for number, tensor in enumerate(reads):
        for dim, axis in enumerate(tensor.axes):
            size = f"t{number}.shape[{dim}]"
            if axis in (WIDTH, PAGE) or (axis == keys and tensor in tables):
                continue
            if axis == keys and tensor.table is not None:
                size += f" * t{reads.index(tensor.table)}.shape[1]"
            if axis is None:
                checks.append(f"{size} != 1")
            elif tensor.shared and tensor.shared[dim] > 1:
                checks.append(f"size_{axis} % {size}")
            elif axis in sizes:
                checks.append(f"{size} != size_{axis}")
            else:
                sizes[axis] = size
    require(len(sizes) == len(attention.values.sizes))
    for product in attention.products().values():
        dims = [
            f"t{reads.index(side)}.shape[{side.axes.index(WIDTH)}]"
            for side in (product.rows, product.keys)
        ]
        checks.append(" != ".join(dims))
    every = "".join(f"t{number}, " for number in range(len(reads)))
    return [
        *(f"size_{axis} = {sizes[axis]}" for axis in sorted(sizes)),
        *(f"{name} = t{number}.shape[{dim}]" for name, (number, dim, _) in widths.items()),
        f"if {' or '.join(checks)}:",
        '    raise ValueError("this kernel is for other shapes")',
        f"if any(tensor.numel() >= 2**31 for tensor in ({every})):",
        '    raise ValueError("this kernel counts elements in 32 bits")',
    ]
