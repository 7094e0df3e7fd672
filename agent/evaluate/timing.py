"""Times all contenders of a problem with one method and says what the times are worth.

(In the making: the signature of `time_contenders` is settled, its body follows.)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from agent.evaluate.result import TimingReport


class CheckLaunch(Protocol):
    """Compares the outputs of one timed launch with the oracle."""

    def __call__(self, contender: str, seed: int, outputs: Sequence[Any]) -> str | None:
        """Say in one line what is wrong, or None.

        Parameters
        ----------
        contender
            Whose launch it is.
        seed
            The launch ran on the problem's own inputs (kind "given") under this seed; the oracle is
            computed from the same. Contenders of one round are checked on the same seed, one after
            the other, so the last oracle is worth keeping.
        outputs
            The judge's own tensors on the judged device, one for each output of the contender.
        """


@dataclass(frozen=True, slots=True)
class Contender:
    """One process that runs one implementation."""

    name: str
    """candidate, eager, compile, max-autotune, or the name of a further kernel file."""
    worker: Any
    """Its `agent.evaluate.session.Worker`, contender loaded, called at least once and right."""
    outputs: Sequence[Any]
    """`TensorSpec` of every output at the full shape, as its `call` replied."""
    checked: bool
    """Whether secretly chosen timed launches are checked (the candidate and other kernel files)."""


@dataclass(frozen=True, slots=True)
class Work:
    """What any kernel for the problem has to do, for the floor."""

    read_bytes: int
    """Every input and parameter once."""
    write_bytes: int
    """Every output once."""
    flops: dict[str, float]
    """Operations by dtype ("bfloat16", "float32", …), as the problem worker's `flops` says."""
    zero_fraction: float | None = None
    """Fraction of the outputs that are zero for whatever inputs; None where it is unknown."""


def time_contenders(
    contenders: Sequence[Contender],
    *,
    problem: Any,
    inputs: Sequence[Any],
    device: str,
    precision: str,
    check_launch: CheckLaunch,
    work: Work | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> TimingReport:
    """Time every contender with one method, cold, interleaved, on contents that never repeat.

    Parameters
    ----------
    contenders
        The candidate first; one of them named "eager", whose wall clock calibrates the check.
    problem
        The problem worker (`agent.evaluate.session.Worker`), which makes the inputs.
    inputs
        The `inputs` of its reply to `describe_inputs` (kind "given") at the full shape.
    device
        "cuda:N" or "cpu" (where the clock is used and times mean little).
    precision
        "ieee" or "tf32": which measured matmul rate bounds float32 products.
    check_launch
        Judges the outputs of one timed launch.
    work
        For the floor; without it the report has none.
    say
        Takes one line of progress.
    """
    raise NotImplementedError
