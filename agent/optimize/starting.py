"""The start of a run: a given kernel, or eager PyTorch as a kernel file."""

from pathlib import Path

from agent.optimize.candidate import Candidate, Judged, ProblemInfo, Proposal, Stage
from judge.evaluate.result import RIGHT
from judge.problem.forms import as_kernel
from judge.problem.kernel import KernelFile
from judge.problem.source import ProblemFile
from kb.errors import InvalidInputError, KbError


def read_problem(path: Path) -> ProblemInfo:
    """A problem file.

    Raises
    ------
    KbError
        It is none, or cannot be read.
    """
    file = ProblemFile.read(path)
    return ProblemInfo(name=path.name, source=file.text, sha256=file.sha256)


def read_start(path: Path) -> Proposal:
    """A kernel file to start from.

    Raises
    ------
    KbError
        It is none, or cannot be read.
    """
    kernel = KernelFile.read(path)
    return Proposal(
        source=kernel.text,
        proposer="start",
        family="baseline",
        suffix=".cu" if kernel.entry is not None else ".py",
        note=path.name,
    )


def eager_start(problem: str) -> Proposal:
    """Eager PyTorch as a kernel file, judged and timed as any other."""
    return Proposal(
        source=as_kernel(problem, "eager"),
        proposer="start",
        family="baseline",
        note="eager PyTorch",
    )


def start_candidate(start: Proposal) -> Candidate:
    """The start as candidate 0.

    Raises
    ------
    KbError
        The file cannot be read as a kernel file.
    """
    kernel = KernelFile.parse(start.source, f"kernel{start.suffix}")
    return Candidate.of(start, round_=0, form=kernel.form)


def require_right(start: Judged) -> None:
    """Check that the start is right.

    Raises
    ------
    KbError
        Says what is wrong with it.
    """
    outcome = start.outcome
    if outcome.verdict in RIGHT and outcome.stage is Stage.DONE:
        return
    why = outcome.reasons[0] if outcome.reasons else "the reason is unknown"
    word = outcome.verdict.value if outcome.verdict is not None else "not judged"
    if outcome.verdict in RIGHT:
        raise KbError(f"the start cannot be timed: {why}")
    raise InvalidInputError(
        f"the start is {word}: {why}; give a correct kernel, or omit it to start from PyTorch"
    )
