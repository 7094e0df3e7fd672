"""The least time for a problem's work: bytes over bandwidth, operations over rate.

Bytes: every input and parameter read once, every output written once. The time for them is that of
a mix of what was measured: as many bytes as are both read and written at copy bandwidth (reading
and writing at once costs turnarounds on the memory bus), the rest at read or write bandwidth. The
*copy floor* puts all bytes at copy bandwidth, as public tables do.

Operations: those that FlopCounterMode counts (products and convolutions), by dtype, without those
that the problem's masks and triangles make needless, over the dense rate that a large matrix
product reached on the card.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from judge.evaluate.result import Ceilings, Floor
from judge.worker.messages import Precision, TensorSpec

# A mask of zeros takes a byte an element.
_MOST_MASKED: Final = 1 << 31
# Fewer structural zeros than this are not worth a sentence.
_ZEROS_TOLD: Final = 0.01
# Two runs differ by up to 5 %, and the ceilings are medians: above this a fraction is odd.
_FRACTION_LIMIT: Final = 1.0
# Zeros that come from the values (ReLU) halve from draw to draw; structural ones stay.
_STABLE: Final = 0.999


@dataclass(frozen=True, slots=True)
class Work:
    """What any kernel for the problem has to do."""

    read_bytes: int
    """Every input and parameter once."""
    write_bytes: int
    """Every output once."""
    flops: Mapping[str, float] = field(default_factory=dict)
    """Operations by dtype ("bfloat16", "float32", …), as the problem worker's `flops` says."""
    zero_fraction: float | None = None
    """Fraction of the outputs that is zero for whatever inputs; None where it is unknown."""
    useful_share: float = 1.0
    """Of PyTorch's operations, those that no mask or triangle makes needless; see `flops`."""


def work(
    inputs: Sequence[TensorSpec],
    parameters: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    flops: Mapping[str, float],
    *,
    zero_fraction: float | None = None,
    useful_share: float = 1.0,
) -> Work:
    """Add up the work from the specs of inputs, parameters and outputs at the full shape.

    Of `flops`, PyTorch's, the `useful_share` has to be done.
    """
    return Work(
        read_bytes=sum(spec.nbytes for spec in (*inputs, *parameters)),
        write_bytes=sum(spec.nbytes for spec in outputs),
        flops={dtype: count * useful_share for dtype, count in flops.items()},
        zero_fraction=zero_fraction,
        useful_share=useful_share,
    )


def memory_ms(work: Work, ceilings: Ceilings) -> float:
    """Milliseconds for the bytes at the measured mix of bandwidths."""
    both = min(work.read_bytes, work.write_bytes)
    seconds = (
        2 * both / ceilings.copy_bps
        + (work.read_bytes - both) / ceilings.read_bps
        + (work.write_bytes - both) / ceilings.write_bps
    )
    return seconds * 1e3


def copy_floor_ms(work: Work, ceilings: Ceilings) -> float:
    """Milliseconds for all bytes at copy bandwidth."""
    return (work.read_bytes + work.write_bytes) / ceilings.copy_bps * 1e3


def compute_ms(
    work: Work, ceilings: Ceilings, precision: Precision
) -> tuple[float, tuple[str, ...]]:
    """Milliseconds for the operations, and the dtypes for which no rate was measured.

    float32 is taken at the TF32 rate where the evaluation allows TF32, else at the IEEE rate.
    """
    total, unknown = 0.0, []
    for dtype, flops in sorted(work.flops.items()):
        name = "tf32" if dtype == "float32" and precision == "tf32" else dtype
        rate = ceilings.matmul_flops.get(name)
        if flops and rate:
            total += flops / rate * 1e3
        elif flops:
            unknown.append(dtype)
    return total, tuple(unknown)


def floor(work: Work, ceilings: Ceilings, precision: Precision) -> Floor:
    """The least time of any kernel for this work on this card, in this session."""
    memory = memory_ms(work, ceilings)
    compute, unknown = compute_ms(work, ceilings, precision)
    flops = sum(work.flops.values())
    notes = ["every input is assumed to be read in full: what the operator may skip is unknown"]
    if not flops:
        notes.append("no matrix products or convolutions were counted: only memory sets the floor")
    notes += [
        f"no rate was measured for {dtype}: its operations are left out of the floor"
        for dtype in unknown
    ]
    if work.useful_share < 1:
        notes.append(
            f"a mask or a triangle makes {1 - work.useful_share:.1%} of PyTorch's operations "
            "unnecessary: they are not counted"
        )
    zeros = work.zero_fraction
    if zeros is not None and zeros >= _ZEROS_TOLD:
        notes.append(
            f"{zeros:.1%} of the outputs are zero for all inputs (one in "
            f"{1 / max(1 - zeros, 1e-9):.3g} can be nonzero): they must be written, but "
            "need no computation"
        )
    return Floor(
        read_bytes=work.read_bytes,
        write_bytes=work.write_bytes,
        flops=flops,
        ms=max(memory, compute),
        bound="memory" if memory >= compute else "compute",
        notes=tuple(notes),
    )


def flags(median_ms: float, floor_ms: float) -> tuple[str, ...]:
    """What is odd about a time, seen from the floor."""
    if floor_ms / median_ms <= _FRACTION_LIMIT:
        return ()
    return (
        f"{floor_ms / median_ms:.2f} of the floor: faster than all bytes and operations at the "
        "measured ceilings; work was skipped, data was cached, or the floor counts too much",
    )


class StructuralZeros:
    """Finds outputs that are zero for whatever inputs, from outputs of independent inputs.

    Feed it outputs (an oracle's) of zero-mean inputs of different seeds. Zeros that depend on the
    values, such as ReLU's, fall at other places in every draw; structural ones, such as those
    between the taps of a transposed convolution, stay.
    """

    def __init__(self) -> None:
        self._zeros: list[Any] = []
        self._stable = False

    def add(self, outputs: Sequence[Any]) -> None:
        """Take the outputs (torch.Tensor) of one more draw.

        None at all, or more elements than a mask should hold, are left out. Of outputs whose
        shapes differ from draw to draw nothing is known.
        """
        if not outputs or sum(output.numel() for output in outputs) > _MOST_MASKED:
            return
        masks = [output == 0 for output in outputs]
        if [zeros.shape for zeros in self._zeros] == [mask.shape for mask in masks]:
            previous = self._count()
            self._zeros = [old & new for old, new in zip(self._zeros, masks, strict=True)]
            self._stable = self._count() >= _STABLE * previous
        else:
            self._zeros, self._stable = masks, False

    @property
    def fraction(self) -> float | None:
        """Fraction of all outputs; None before two draws, or while zeros still move about."""
        if not self._stable:
            return None
        return self._count() / max(1, sum(int(zeros.numel()) for zeros in self._zeros))

    def _count(self) -> int:
        return sum(int(zeros.sum()) for zeros in self._zeros)
