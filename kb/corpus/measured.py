"""Measurements of an entry in words: the same line on every surface."""

from collections.abc import Mapping, Sequence
from math import inf

from kb.corpus.entries import Kernel, Technique, Verified

NOT_MEASURED = "not measured"
# More would crowd out what the line is about; the entry itself lists all.
_LIMIT = 3


# A baseline that takes over 1.67 times as long as one of PyTorch's forms is none that anybody would
# run, and says nothing of what was added to it. Sound plain versions here reach 0.7 and more.
_SLOW = 0.6
EAGER, COMPILED, LIBRARY = "eager", "torch.compile", "vendor library"
"""Names of the baselines that are no kernels of the corpus.

The vendor library is recorded where eager PyTorch does not call it for the same work: a reference
that widens FP8 operands, beside cuBLAS's product of them.
"""
BASELINES = (EAGER, COMPILED, LIBRARY)


def own_records(technique: Technique, kernels: Mapping[str, Kernel]) -> list[Verified]:
    """The records that are the technique's own.

    Of a pair of kernels that differ in this technique alone, whose plain one is no straw man:
    what other changes gained, and what any code gains over a slow baseline, is the kernel's.
    """
    records = []
    for record in technique.verified:
        kernel = kernels.get(record.shape.partition(" ")[0])
        plain = kernels.get(record.baseline)
        if kernel is None or plain is None or is_slow(plain):
            continue
        if kernel.derived_from != record.baseline:
            continue
        if set(kernel.techniques) - set(plain.techniques) == {technique.slug}:
            records.append(record)
    return records


def is_slow(kernel: Kernel) -> bool:
    """Whether the kernel was measured at less than 0.6 of PyTorch's speed."""
    return any(
        verified.baseline in BASELINES and verified.speedup < _SLOW for verified in kernel.verified
    )


def technique_line(
    technique: Technique, kernels: Mapping[str, Kernel], *, brief: bool = False
) -> str:
    """What the technique alone was measured to gain, or that its kernels' figures are theirs."""
    own = own_records(technique, kernels)
    if own:
        return measured_line(own, brief=brief)
    if any(kernels[example].verified for example in technique.examples if example in kernels):
        return "not measured alone: its kernels combine it with others; see their figures"
    return NOT_MEASURED


def ranked_records(kernel: Kernel, kernels: Mapping[str, Kernel]) -> list[Verified]:
    """A kernel's records by card: the fastest of PyTorch's forms first, a plain version that is a
    straw man last."""
    lead: dict[str, float] = {}
    for verified in kernel.verified:
        if verified.baseline in BASELINES:
            lead[verified.gpu] = min(lead.get(verified.gpu, verified.speedup), verified.speedup)
    # Where a card knows a faster rival, such as a vendor's library, its records come first.
    cards = sorted(dict.fromkeys(r.gpu for r in kernel.verified), key=lambda c: lead.get(c, inf))

    def place(record: Verified) -> tuple[int, int, float]:
        plain = kernels.get(record.baseline)
        slow = plain is not None and is_slow(plain)
        kind = 0 if record.baseline in BASELINES else 1 + slow
        return cards.index(record.gpu), kind, record.speedup

    return sorted(kernel.verified, key=place)


def kernel_line(kernel: Kernel, kernels: Mapping[str, Kernel], *, brief: bool = False) -> str:
    """A kernel's figures in the order of `ranked_records`, without those over a straw man."""
    records = ranked_records(kernel, kernels)
    fair = [r for r in records if r.baseline not in kernels or not is_slow(kernels[r.baseline])]
    return measured_line(fair or records, brief=brief)


def entry_line(
    entry: Technique | Kernel, kernels: Mapping[str, Kernel], *, brief: bool = False
) -> str:
    """`technique_line` or `kernel_line`."""
    if isinstance(entry, Technique):
        return technique_line(entry, kernels, brief=brief)
    return kernel_line(entry, kernels, brief=brief)


def measured_line(records: Sequence[Verified], *, brief: bool = False) -> str:
    """Speedups with hardware, shape and date, or that there are none.

    Gains and losses are given alike. `brief` leaves shapes and date to the entry.
    """
    if not records:
        return NOT_MEASURED
    first = records[0]
    top = [record for record in records if record.gpu == first.gpu][:_LIMIT]
    gains = ", ".join(f"{verified.speedup:.2f}x over {verified.baseline}" for verified in top)
    if brief:
        return f"measured on {first.gpu}: {gains}"
    head = f"measured on {first.gpu}, {first.date}"
    if len({(verified.shape, verified.dtype) for verified in top}) == 1:
        return f"{head}, {first.shape} {first.dtype}: {gains}"
    gains = ", ".join(
        f"{verified.speedup:.2f}x over {verified.baseline} ({verified.shape} {verified.dtype})"
        for verified in top
    )
    return f"{head}: {gains}"
