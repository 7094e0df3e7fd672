"""What an evaluation can be asked to do; imports no torch, so the command line can."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agent.problem.forms import EAGER, MODEL_FORMS

__all__ = ["BASELINES", "CALL_SECONDS", "DTYPES", "EAGER", "LEAST_SEEDS", "Options", "Say"]

DTYPES = ("float32", "float16", "bfloat16", "float64")
BASELINES = MODEL_FORMS
"""Forms of the problem's own model that a kernel is compared with."""
LEAST_SEEDS = 5
# A call may compile and tune itself; a kernel that needs longer is no use to anybody.
CALL_SECONDS = 180.0

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Options:
    """How to evaluate."""

    dtype: str | None = None
    """Floating-point inputs and parameters are converted to it; None leaves them as given."""
    device: str | None = None
    """"cuda:N" or "cpu"; the first GPU by default."""
    interpret: bool = False
    """Triton's interpreter on the CPU, at reduced sizes, without times."""
    against: tuple[Path, ...] = ()
    """Further kernel files that are timed beside the candidate."""
    baselines: tuple[str, ...] = BASELINES
    """Forms of the problem's own model that are timed."""
    seeds: int = LEAST_SEEDS
    """Secret seeds, at least `LEAST_SEEDS`."""
    trust: bool = False
    """Run although the sandbox lacks layers that code of unknown origin needs."""
    timing: bool = True
    """False ends after correctness."""
    quick: bool = False
    """Time with fewer launches and checks (`timing.QUICK`): enough to rank what a search tries."""
    tf32: bool = False
    """TF32 is allowed to all contenders."""
    call_seconds: float = CALL_SECONDS
    """The longest that one call of a kernel may take, compilation included."""

    @property
    def precision(self) -> Literal["ieee", "tf32"]:
        """What float32 products may round to."""
        return "tf32" if self.tf32 else "ieee"
