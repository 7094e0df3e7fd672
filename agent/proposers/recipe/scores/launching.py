"""What the launcher of a kernel of scores checks, and what may be tuned."""

from collections.abc import Mapping

from agent.proposers.recipe.patterns import require
from agent.proposers.recipe.scores.reading import PAGE, WIDTH
from agent.proposers.recipe.scores.values import Attention

BLOCKS = (16, 32, 64, 128)
"""Sizes of blocks of queries and keys; the first is the least that Triton's products take."""
# Up to which width blocks are of 64 queries.
_WIDE = 128


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
    most = {"BLOCK_M": BLOCKS[0] if wide else 64, "BLOCK_N": 32 if wide else 64}
    found = {name: (min(most[name], of[-1]), of) for name, of in blocks.items()}
    found |= {"WARPS": (4, [4, 8]), "STAGES": (2, [1, 2, 3])}
    if attention.hidden is not None:
        # A branch keeps loads from being issued ahead: it pays where a mask hides whole blocks of
        # some queries, not where it hides the end of all keys.
        found["SKIP"] = (int(rows in attention.values.axes(attention.hidden)), [0, 1])
    return found


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
