"""Takes kernels in to be judged: checks a request before it is queued."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agent.service.models import EvaluationJob, EvaluationRequest
from agent.service.runner import QueueLimits, Runner
from agent.service.store import JobStore
from agent.service.work import Evaluator, Knowledge
from judge.problem.source import ProblemFile
from judge.profile.profiler import has_gpu
from kb.errors import InvalidInputError

FOLDER: Final = "evaluations"


@dataclass(eq=False)
class EvaluationService:
    """Evaluations of one state folder. Methods may be called from several threads and processes."""

    state_dir: Path
    """The evaluations are kept in a folder of it."""
    knowledge: Knowledge
    limits: QueueLimits
    device: str | None = None
    """`cuda:N`; None takes the first GPU."""
    on_finished: Callable[[str], None] = lambda _: None
    """Called for each evaluation of this process with its verdict, `failed` or `cancelled`."""

    def __post_init__(self) -> None:
        self.store = JobStore(self.state_dir / FOLDER)
        evaluator = Evaluator(self.knowledge, self.device)
        self.runner = Runner(self.store, evaluator, self.limits, self.on_finished)
        """Judges them between `start` and `stop`, unless another process of this folder does."""

    def submit(self, request: EvaluationRequest) -> EvaluationJob:
        """Take a candidate in.

        Raises
        ------
        ProblemFileError
            The problem is not Python, or lacks a required name.
        InvalidInputError
            A GPU is needed and not there, a limit is exceeded, or `previous` names nothing.
        QueueFullError
            Too many wait.
        StoreError
            It cannot be written.
        """
        ProblemFile.parse(request.problem)
        if request.context is not None:
            self.knowledge.check(
                Evaluator.context_request(request, request.context, request.exclude)
            )
        if not request.interpret and not has_gpu():
            raise InvalidInputError(
                "interpret: this server has no GPU; true checks a Triton kernel's results without "
                "one, at reduced sizes"
            )
        return self.store.add(request, self.limits.waiting)
