"""Takes kernels in to be judged, and tells what came of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from agent.service.models import EvaluationJob, EvaluationList, EvaluationRequest
from agent.service.runner import QueueLimits, Runner
from agent.service.store import JobStore
from agent.service.work import Knowledge, Work
from judge.problem.source import ProblemFile
from judge.profile.profiler import has_gpu
from kb.errors import InvalidInputError

FOLDER: Final = "evaluations"


class EvaluationService:
    """Evaluations of one state folder. Methods may be called from several threads and processes.

    Parameters
    ----------
    state_dir
        The evaluations are kept in a folder of it.
    knowledge
        Answers what to try next.
    limits
        How much may wait, run and be kept.
    device
        "cuda:N"; None takes the first GPU.
    ended
        Told of each that this process judged: the verdict, `failed` or `cancelled`.
    """

    def __init__(
        self,
        state_dir: Path,
        knowledge: Knowledge,
        limits: QueueLimits,
        device: str | None = None,
        ended: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._knowledge = knowledge
        self._limits = limits
        self._store = JobStore(state_dir / FOLDER)
        self._runner = Runner(self._store, Work(knowledge, device), limits, ended)

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
            self._knowledge.check(Work.context_request(request, request.context, request.exclude))
        if not request.interpret and not has_gpu():
            raise InvalidInputError(
                "interpret: this server has no GPU; true checks a Triton kernel's results without "
                "one, at reduced sizes"
            )
        return self._store.add(request, self._limits.waiting)

    def read(self, job_id: str) -> EvaluationJob:
        """An evaluation as it is now.

        Raises
        ------
        NotFoundError
            There is none of that id, or not any more.
        """
        return self._store.read(job_id)

    def all(self) -> EvaluationList:
        """All evaluations that are kept."""
        return EvaluationList(evaluations=self._store.all())

    def remove(self, job_id: str) -> None:
        """End an evaluation if it is not over, and forget it.

        Raises
        ------
        NotFoundError
            There is none of that id, or not any more.
        """
        self._store.remove(job_id)

    def start(self) -> None:
        """Begin to judge, unless another process of this state folder does."""
        self._runner.start()

    def stop(self) -> None:
        """Stop judging; what was running stays first in the queue."""
        self._runner.stop()
