"""Options of an evaluation; imports no torch, so that the command line can import it."""

from pathlib import Path

from judge.options import RunOptions
from judge.problem.forms import EAGER, MODEL_FORMS
from kb.dtypes import DTYPES

__all__ = ["BASELINES", "CALL_SECONDS", "DTYPES", "EAGER", "LEAST_SEEDS", "Options"]

BASELINES = MODEL_FORMS
"""Forms of the problem's own model that a kernel is compared with."""
LEAST_SEEDS = 5
# A call may compile and tune itself; a kernel that needs longer is no use to anybody.
CALL_SECONDS = 180.0
# Of `torch.compile` and max-autotune, see `Options.compile_seconds`.
COMPILE_SECONDS = 600.0


class Options(RunOptions):
    """How to evaluate."""

    against: tuple[Path, ...] = ()
    """Further kernel files that are timed beside the candidate."""
    baselines: tuple[str, ...] = BASELINES
    """Forms of the problem's own model that are timed."""
    seeds: int = LEAST_SEEDS
    """Secret seeds, at least `LEAST_SEEDS`."""
    timing: bool = True
    """False ends after correctness; nothing is timed with `interpret`."""
    quick: bool = False
    """Time with fewer launches and checks (`timing.QUICK`): enough to rank candidates."""
    call_seconds: float = CALL_SECONDS
    """The longest that one call of a kernel may take, compilation included."""
    compile_seconds: float = COMPILE_SECONDS
    """The longest that compiling the baselines may take together. A network of a hundred operators
    takes minutes with max-autotune; what has not compiled by then is not timed, and named."""
