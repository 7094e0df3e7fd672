"""Evaluations on disk: any process of the server can take one in and tell of each.

    ROOT/
      lock                    held while the queue changes
      runner.lock             held by the one process that judges
      queue/NUMBER-ID         an evaluation that waits or runs; gone when it is over
      jobs/ID/                request.json, shown.json, job.json, answer.json, cancelled

Only who holds `runner.lock` writes into a folder under `jobs` once it is queued; all others leave
the mark `cancelled`. What is read is whole: files are replaced, never written over.
"""

import contextlib
import fcntl
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from agent.optimize.files import replace
from agent.service.models import (
    JOB_ID,
    MOST_EXCLUDED,
    EvaluationAnswer,
    EvaluationJob,
    EvaluationRequest,
    EvaluationSummary,
    JobState,
)
from kb.errors import InvalidInputError, KbError, NotFoundError

_ID: Final = re.compile(JOB_ID)
# An answer has some hundred kilobytes.
_MOST_KEPT: Final = 500


class QueueFullError(KbError):
    """Too many evaluations wait."""

    status = 503


class StoreError(KbError):
    """The folder of the evaluations cannot be written."""

    status = 503


class JobStore:
    """The evaluations of one folder. Safe to use from several processes and threads."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._jobs = root / "jobs"
        self._queue = root / "queue"

    def add(self, request: EvaluationRequest, most: int) -> EvaluationJob:
        """Take an evaluation in.

        Raises
        ------
        QueueFullError
            So many wait or run already.
        InvalidInputError
            `previous` names none that is kept.
        StoreError
            It cannot be written.
        """
        with _writing(), self._locked():
            if len(self._waiting()) >= most:
                raise QueueFullError(
                    f"{most} evaluations wait already: try again when some are done"
                )
            numbers = [int(each.name.partition("-")[0]) for each in self._queue.iterdir()]
            job = EvaluationJob(
                id=secrets.token_hex(8), name=request.name, state=JobState.QUEUED, created=now()
            )
            shown = self.shown_before(request)
            folder = self._jobs / job.id
            folder.mkdir(mode=0o700)
            try:
                replace(folder / "request.json", request.model_dump_json())
                replace(folder / "shown.json", json.dumps(shown))
                self.write(job, durable=True)
                (self._queue / f"{1 + max(numbers, default=0):012d}-{job.id}").touch()
            except OSError:
                shutil.rmtree(folder, ignore_errors=True)
                raise
        return self.read(job.id)

    def shown_before(self, request: EvaluationRequest) -> list[str]:
        """What the reader of an evaluation has: what it says, and what the one before gave.

        Raises
        ------
        InvalidInputError
            There is no such evaluation.
        """
        shown = list(request.exclude)
        if request.previous is not None:
            folder = self._jobs / request.previous
            if not (folder / "job.json").exists() or (folder / "cancelled").exists():
                raise InvalidInputError(
                    f"previous: there is no evaluation {request.previous} (any more); pass what it "
                    "showed as exclude"
                )
            shown += self._shown(folder)
        return list(dict.fromkeys(shown))[-MOST_EXCLUDED:]

    @staticmethod
    def _shown(folder: Path) -> list[str]:
        """What its reader has, after its answer if there is one."""
        answer = _text(folder / "answer.json")
        if answer is not None:
            with contextlib.suppress(ValueError):
                return EvaluationAnswer.model_validate_json(answer).shown
        return [str(each) for each in json.loads(_text(folder / "shown.json") or "[]")]

    def shown_at_start(self, job_id: str, request: EvaluationRequest) -> list[str]:
        """As `shown_before`, now that the one before is over; as it was then, if that is gone."""
        with contextlib.suppress(InvalidInputError):
            return self.shown_before(request)
        return self._shown(self._jobs / job_id)

    def request(self, job_id: str) -> EvaluationRequest:
        """What was sent.

        Raises
        ------
        NotFoundError
            There is no such evaluation.
        """
        try:
            text = (self._jobs / job_id / "request.json").read_text(encoding="utf-8")
            return EvaluationRequest.model_validate_json(text)
        except (OSError, ValueError) as error:
            raise _missing() from error

    def folder(self, job_id: str) -> Path:
        """Where a running evaluation may keep its files."""
        return self._jobs / job_id

    def read(self, job_id: str) -> EvaluationJob:
        """An evaluation as it is now, with its answer.

        Raises
        ------
        NotFoundError
            There is none of that id, or not any more.
        """
        job = self._bare(job_id)
        if job.state is JobState.DONE:
            answer = _text(self._jobs / job_id / "answer.json")
            try:
                found = EvaluationAnswer.model_validate_json(answer or "")
            except ValueError as error:  # of another version
                raise _missing() from error
            return job.model_copy(update={"answer": found})
        return self._placed(job, self._waiting())

    def _bare(self, job_id: str) -> EvaluationJob:
        folder = self._jobs / job_id
        if not _ID.fullmatch(job_id) or (folder / "cancelled").exists():
            raise _missing()
        try:
            text = (folder / "job.json").read_text(encoding="utf-8")
            return EvaluationJob.model_validate_json(text)
        except (OSError, ValueError) as error:
            raise _missing() from error

    @staticmethod
    def _placed(job: EvaluationJob, waiting: Sequence[str]) -> EvaluationJob:
        if job.state is not JobState.QUEUED or job.id not in waiting:
            return job
        return job.model_copy(update={"ahead": waiting.index(job.id)})

    def all(self) -> list[EvaluationSummary]:
        """All evaluations, the newest first."""
        waiting = self._waiting()
        found = []
        for folder in self._jobs.glob("*"):
            with contextlib.suppress(NotFoundError):  # deleted just now
                found.append(self._placed(self._bare(folder.name), waiting))
        fields = EvaluationSummary.model_fields
        summaries = [EvaluationSummary(**{f: getattr(job, f) for f in fields}) for job in found]
        return sorted(summaries, key=lambda each: (each.created, each.id), reverse=True)

    def write(self, job: EvaluationJob, *, durable: bool = False) -> None:
        """Replace what is told of an evaluation; progress need not outlive the machine."""
        text = job.model_dump_json(exclude={"answer", "ahead"})
        replace(self._jobs / job.id / "job.json", text, durable=durable)

    def finish(self, job: EvaluationJob, answer: EvaluationAnswer | None) -> None:
        """Keep an evaluation's end: its answer on disk first, then that it is over."""
        if answer is not None:
            replace(self._jobs / job.id / "answer.json", answer.model_dump_json())
        with self._locked():
            self.write(job, durable=True)
            self._leave(job.id)

    def remove(self, job_id: str) -> bool:
        """Forget an evaluation. Returns whether it was not over yet.

        One that runs is marked, and ended by who runs it.

        Raises
        ------
        NotFoundError
            There is no such evaluation.
        """
        with _writing(), self._locked():
            job = self._bare(job_id)
            if job.state is JobState.RUNNING:
                (self._jobs / job_id / "cancelled").touch()
                return True
            self._leave(job_id)
            shutil.rmtree(self._jobs / job_id, ignore_errors=True)
            return not job.is_over

    def give_back(self, job: EvaluationJob) -> None:
        """Let a running evaluation wait again, as if it had not been begun."""
        update = {"state": JobState.QUEUED, "attempts": job.attempts - 1, "phases": []}
        self.write(job.model_copy(update=update), durable=True)

    def is_cancelled(self, job_id: str) -> bool:
        """Whether a running evaluation is to be ended."""
        return (self._jobs / job_id / "cancelled").exists()

    def forget(self, job_id: str) -> None:
        """Remove what is left of a cancelled evaluation."""
        with self._locked():
            self._leave(job_id)
            shutil.rmtree(self._jobs / job_id, ignore_errors=True)

    def take(self) -> EvaluationJob | None:
        """The evaluation whose turn it is, running from now on; None where none waits.

        It stays in the queue until it is over, so that it comes first again if this process dies.
        """
        if not self._waiting():
            return None
        with self._locked():
            for job_id in self._waiting():
                try:
                    job = self._bare(job_id)
                except NotFoundError:  # cancelled while nobody ran it, or damaged
                    self._leave(job_id)
                    shutil.rmtree(self._jobs / job_id, ignore_errors=True)
                    continue
                if job.is_over:  # its end was written, and then the process died
                    self._leave(job_id)
                    continue
                job = job.model_copy(
                    update={
                        "state": JobState.RUNNING,
                        "started": now(),
                        "attempts": job.attempts + 1,
                        "phases": [],
                    }
                )
                self.write(job)
                return job
        return None

    def sweep(self, keep: float) -> None:
        """Remove what was over `keep` seconds ago, and what is more than is ever kept."""
        with self._locked():
            waiting = set(self._waiting())
            over: list[tuple[float, Path]] = []
            for folder in self._jobs.glob("*"):
                if folder.name not in waiting:
                    moment = 0.0  # never taken in: its process died meanwhile
                    with contextlib.suppress(OSError):
                        moment = (folder / "job.json").stat().st_mtime
                    over.append((moment, folder))
            over.sort(reverse=True)
            limit = time.time() - keep
            for position, (moment, folder) in enumerate(over):
                if moment < limit or position >= _MOST_KEPT:
                    shutil.rmtree(folder, ignore_errors=True)

    @contextmanager
    def elected(self) -> Iterator[bool]:
        """Whether this process may judge: at most one at a time, of all that share the folder."""
        with _opened(self._made() / "runner.lock") as fd:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield True

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with _opened(self._made() / "lock") as fd:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield

    def _made(self) -> Path:
        for folder in (self._root, self._jobs, self._queue):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return self._root

    def _waiting(self) -> list[str]:
        """Ids of those that wait or run, in their order."""
        try:
            names = sorted(each.name for each in self._queue.iterdir())
        except FileNotFoundError:
            return []
        return [name.partition("-")[2] for name in names]

    def _leave(self, job_id: str) -> None:
        for entry in self._queue.glob(f"*-{job_id}"):
            entry.unlink(missing_ok=True)


def now() -> str:
    """The time, UTC, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _missing() -> NotFoundError:
    return NotFoundError(
        "there is no such evaluation (any more): GET /v1/evaluate lists those that are kept"
    )


@contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise StoreError(f"the server cannot keep the evaluation: {reason}") from error


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield fd
    finally:
        os.close(fd)


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
