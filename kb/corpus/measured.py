"""Measurements of an entry in words: the same line on every surface."""

from collections.abc import Sequence

from kb.corpus.entries import Verified

NOT_MEASURED = "not measured"
# More would crowd out what the line is about; the entry itself lists all.
_SHOWN = 3


def measured_line(records: Sequence[Verified], *, brief: bool = False) -> str:
    """Speedups with hardware, shape and date, or that there are none.

    Gains and losses are given alike, in the entry's order: the plain version comes first. `brief`
    leaves shapes and date to the entry.
    """
    if not records:
        return NOT_MEASURED
    first = records[0]
    shown = [each for each in records if each.gpu == first.gpu][:_SHOWN]
    gains = ", ".join(f"{each.speedup:.2f}x over {each.baseline}" for each in shown)
    if brief:
        return f"measured on {first.gpu}: {gains}"
    head = f"measured on {first.gpu}, {first.date}"
    if len({(each.shape, each.dtype) for each in shown}) == 1:
        return f"{head}, {first.shape} {first.dtype}: {gains}"
    gains = ", ".join(
        f"{each.speedup:.2f}x over {each.baseline} ({each.shape} {each.dtype})" for each in shown
    )
    return f"{head}: {gains}"
