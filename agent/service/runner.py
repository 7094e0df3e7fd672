"""Takes evaluations from the queue, one at a time, in the process that is elected to judge.

Ending its process at any moment loses nothing: an evaluation that was running is run once more by
whoever is elected next, and fails if that is interrupted as well.
"""

import logging
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from agent.optimize.judge_process import JudgeError
from agent.service.models import EvaluationAnswer, EvaluationJob, JobState, Phase, PhaseName
from agent.service.store import JobStore
from agent.service.work import Evaluator
from kb.clock import now
from kb.errors import KbError, NotFoundError

_LOG: Final = logging.getLogger("kb.evaluate")
# How soon a new evaluation, a cancelled one or the end of the server is noticed, in seconds.
_POLL_S: Final = 0.2
# How soon another process takes over when the elected one is gone.
_ELECTION_S: Final = 1.0
# Lines of progress are written this often at most.
_REPORT_S: Final = 0.2
# An idle judging process keeps a gigabyte of memory and a context on the card.
_IDLE_S: Final = 300.0
_SWEEP_S: Final = 60.0
# What is interrupted more often may be what ends the server.
_MAX_ATTEMPTS: Final = 2
# Judging ends at once on request; the steps after it take this long at most.
_LAST_S: Final = 10.0
_MAX_LINE_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """How much may wait, run and be kept."""

    waiting: int
    """Evaluations that wait or run."""
    seconds: float
    """How long one may run."""
    keep: float
    """Seconds that one is kept once it is over."""


@dataclass(eq=False)
class _Reporter:
    """Writes the progress of a running evaluation, not more often than a reader notices."""

    store: JobStore
    job: EvaluationJob

    def __post_init__(self) -> None:
        self._written = 0.0
        self._lock = threading.Lock()
        self._closed = False

    def close(self) -> EvaluationJob:
        """The evaluation as last reported; nothing is written from now on."""
        with self._lock:
            self._closed = True
        return self.job

    def report(self, name: PhaseName, line: str) -> None:
        """Record a phase, or a line of its progress."""
        with self._lock:
            if self._closed:
                return
            phases = list(self.job.phases)
            if not phases or phases[-1].name is not name:
                phases.append(Phase(name=name, started=now()))
                self._written = 0.0
            if line:
                phases[-1] = phases[-1].model_copy(update={"said": line[:_MAX_LINE_CHARS]})
            update = {"phases": phases, "steps": self.job.steps + 1}
            self.job = self.job.model_copy(update=update)
            if time.monotonic() - self._written >= _REPORT_S:
                self._written = time.monotonic()
                self.store.write(self.job)


@dataclass(eq=False)
class Runner:
    """A thread that judges queued evaluations until it is stopped."""

    store: JobStore
    evaluator: Evaluator
    limits: QueueLimits
    on_finished: Callable[[str], None]
    """Called for each finished evaluation with its verdict, `failed` or `cancelled`."""

    def __post_init__(self) -> None:
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="evaluations", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End what runs; it stays in the queue. Returns when the judging process is gone."""
        self._stopping.set()
        self._thread.join(_LAST_S)
        self.evaluator.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                with self.store.elected() as elected:
                    if elected:
                        self._serve()
            except Exception:
                # Such as a full disk: the evaluation stays where it is, and is tried again.
                _LOG.exception("the queue of evaluations cannot be served")
                self.evaluator.close()
            self._stopping.wait(_ELECTION_S)

    def _serve(self) -> None:
        last_work = last_sweep = time.monotonic() - _SWEEP_S
        while not self._stopping.is_set():
            moment = time.monotonic()
            if moment - last_sweep >= _SWEEP_S:
                self.store.sweep(self.limits.keep)
                last_sweep = moment
            job = self.store.take()
            if job is not None:
                self._run_job(job)
                last_work = time.monotonic()
                continue
            if moment - last_work >= _IDLE_S:
                self.evaluator.close()
            self._stopping.wait(_POLL_S)
        self.evaluator.close()

    def _run_job(self, job: EvaluationJob) -> None:
        attempts = job.attempts - 1
        if attempts >= _MAX_ATTEMPTS:
            interrupted = job.model_copy(update={"attempts": attempts})
            self._end(interrupted, None, f"interrupted {attempts} times: send it again")
            return
        try:
            request = self.store.request(job.id)
        except NotFoundError:
            if not self._forget_if_cancelled(job):
                self._end(job, None, "the stored request can no longer be read: send it again")
            return
        reporter = _Reporter(self.store, job)
        shown = self.store.shown_at_start(job.id, request)
        folder = self.store.folder
        shutil.rmtree(folder, ignore_errors=True)  # of a process that died
        outcomes: list[EvaluationAnswer | BaseException] = []

        def work() -> None:
            try:
                outcomes.append(self.evaluator.run(folder, request, shown, reporter.report))
            except BaseException as error:
                outcomes.append(error)

        self.evaluator.begin()
        thread = threading.Thread(target=work, name="evaluation", daemon=True)
        thread.start()
        why = self._watch(job, thread)
        reported = reporter.close()
        shutil.rmtree(folder, ignore_errors=True)
        outcome = outcomes[0] if outcomes else None
        if self._forget_if_cancelled(job):
            return
        if isinstance(outcome, EvaluationAnswer):
            self._end(reported, outcome, None)
        elif self._stopping.is_set():
            self.store.give_back(reported)
        else:
            self._end(reported, None, why or self._describe_error(outcome))

    def _forget_if_cancelled(self, job: EvaluationJob) -> bool:
        """Forget an evaluation if it was cancelled. Returns whether it was."""
        if not self.store.is_cancelled(job.id):
            return False
        self.store.forget(job.id)
        self.on_finished("cancelled")
        return True

    def _watch(self, job: EvaluationJob, thread: threading.Thread) -> str:
        """Wait until an evaluation ends, or end it. Returns why, if its time is up."""
        deadline = time.monotonic() + self.limits.seconds
        while True:
            thread.join(_POLL_S)
            if not thread.is_alive():
                return ""
            late = time.monotonic() > deadline
            if late or self._stopping.is_set() or self.store.is_cancelled(job.id):
                self.evaluator.cancel()
                thread.join(_LAST_S)
                if not late:
                    return ""
                return f"it ran longer than {self.limits.seconds:g} s and was stopped"

    def _describe_error(self, error: object) -> str:
        if isinstance(error, JudgeError) and error.lacking:
            return (
                f"the sandbox lacks: {'; '.join(error.lacking)}: untrusted code is not run "
                "on this machine"
            )
        if isinstance(error, KbError):
            return " ".join(str(error).split()).replace(str(self.store.root), "…")
        if isinstance(error, BaseException):
            _LOG.error("an evaluation failed", exc_info=error)
        return f"unexpected {type(error).__name__}: the server's log has more"

    def _end(self, job: EvaluationJob, answer: EvaluationAnswer | None, error: str | None) -> None:
        state = JobState.FAILED if answer is None else JobState.DONE
        update = {"state": state, "finished": now(), "error": error}
        if answer is not None:
            update["verdict"] = answer.verdict
        self.store.finish(job.model_copy(update=update), answer)
        self.on_finished("failed" if answer is None else answer.verdict.value)
