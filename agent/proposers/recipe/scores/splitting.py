"""Several programs for one block of queries: each has a part of the keys (flash decoding).

Where there are few queries, programs that go through all keys are fewer than the card has
multiprocessors. A program then writes the largest score, the sum of weights and the sums of values
of its part, in float32, and a second kernel, each program of which has a block of queries, merges
the parts. `SPLITS` is how many parts there are; with one, the first kernel alone runs.
"""

from collections.abc import Mapping, Sequence

# Four parts at a time are loaded ahead: all of 32 would not fit the registers.
_MERGE = """\
@triton.jit
def _merge_kernel(
    parts, stats, {parameters},
    {block}: tl.constexpr, BLOCK_M: tl.constexpr, SPLITS: tl.constexpr
):
    # A program has a block of queries and goes through their parts.
    {start}
    mask = in_{rows}[:, None] & (d_width[None, :] < width)
    top = tl.zeros((BLOCK_M,), tl.float32) - float("inf")
    total = tl.zeros((BLOCK_M,), tl.float32)
    sums = tl.zeros((BLOCK_M, {block}), tl.float32)
    for number in tl.range(SPLITS, loop_unroll_factor=4):
        part = query * SPLITS + number
        other = tl.load(stats + part * 2, mask=in_{rows}, other=0)
        upper = tl.maximum(top, other)
        base = tl.where(upper == float("-inf"), 0.0, upper)
        shrink = tl.exp(top - base)
        share = tl.exp(other - base)
        more = tl.load(stats + part * 2 + 1, mask=in_{rows}, other=0)
        total = total * shrink + more * share
        values = tl.load(parts + part[:, None] * width + d_width[None, :], mask=mask, other=0)
        sums = sums * shrink[:, None] + values * share[:, None]
        top = upper
    {stores}


"""
_BUFFERS = """\
parts = stats = out
    if SPLITS > 1:
        queries = {queries}
        parts = torch.empty((queries, SPLITS, width), dtype=torch.float32, device=t0.device)
        stats = torch.empty((queries, SPLITS, 2), dtype=torch.float32, device=t0.device)
    """
# A program's block is of 2,048 elements: of four queries where heads are 512 wide.
_LAUNCH = """\
if SPLITS > 1:
        merged = max(1, min(2048 // triton.next_power_of_2(width), triton.next_power_of_2({rows})))
        blocks = triton.cdiv({rows}, merged)
        _merge_kernel[({programs},)](
            parts, stats, {given},
            {span}, BLOCK_M=merged, SPLITS=SPLITS
        )
    """


def keys_of_part(keys: str, *, has_sink: bool) -> list[str]:
    """Lines that say which keys a program has, and leave the sink to the first part."""
    lines = [
        f"span = tl.cdiv(tl.cdiv({keys}, BLOCK_N), SPLITS) * BLOCK_N",
        "first = tl.program_id(1) * span",
        f"last = tl.minimum(first + span, {keys})",
    ]
    if has_sink:
        lines += [
            'top = tl.where(first == 0, top, float("-inf"))',
            "total = tl.where(first == 0, total, 0.0)",
        ]
    return [
        "first = 0",
        f"last = {keys}",
        "if SPLITS > 1:",
        *(f"    {line}" for line in lines),
    ]


def query(rows: int) -> str:
    """The line that says where the parts of a block of queries are."""
    return f"query = tl.program_id(0).to(tl.int64) // blocks * size_{rows} + i{rows}"


def stores(rows: int, whole: Sequence[str]) -> list[str]:
    """Lines that store what a program's part came to; `whole` are those where it has all keys."""
    return [
        "if SPLITS == 1:",
        *(f"    {line}" for line in whole),
        "else:",
        f"    {query(rows)}",
        "    part = query * SPLITS + tl.program_id(1)",
        f"    mask = in_{rows}[:, None] & (d_width[None, :] < width)",
        "    tl.store(parts + part[:, None] * width + d_width[None, :], sums, mask=mask)",
        f"    tl.store(stats + part * 2, top, mask=in_{rows})",
        f"    tl.store(stats + part * 2 + 1, total, mask=in_{rows})",
    ]


def around(
    given: Mapping[str, str],
    axes: tuple[int, Sequence[int]],
    width: tuple[str, str],
    start: Sequence[str],
    whole: Sequence[str],
) -> dict[str, str]:
    """What a file with split keys has more: the kernel that merges, and what the launcher does
    before and after the launch of the kernel that has the keys.

    Parameters
    ----------
    given
        The merging kernel's parameters, and what the launcher gives it.
    axes
        Of queries: the one of which a program has a block, and those of which it has one place.
    width
        Name of the constant for the width of the result, and the argument that sets it.
    start
        Lines that say which queries a program has.
    whole
        Lines that store their results.
    """
    (rows, others), (block, span) = axes, width
    sizes = [f" * size_{axis}" for axis in others]
    merge = _MERGE.format(
        parameters=", ".join(given),
        block=block,
        rows=rows,
        start="\n    ".join(start),
        stores="\n    ".join(whole),
    )
    return {
        "merge": merge,
        "before": _BUFFERS.format(queries=f"size_{rows}{''.join(sizes)}"),
        "after": _LAUNCH.format(
            rows=f"size_{rows}",
            programs=f"blocks{''.join(sizes)}",
            given=", ".join(given.values()),
            span=span,
        ),
    }
