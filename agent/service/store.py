"""Evaluations on disk: any process of the server can take one in and tell of each.

    ROOT/
      evaluations.sqlite3     a row for each evaluation, in the order in which they came
      runner.lock             held by the one process that judges
      work/                   files of the evaluation that runs

Each method is one transaction. Only who holds `runner.lock` changes a row once it is queued; all
others mark it as cancelled.
"""

import contextlib
import fcntl
import json
import os
import secrets
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agent.service.models import (
    MAX_EXCLUDED,
    EvaluationAnswer,
    EvaluationJob,
    EvaluationRequest,
    EvaluationSummary,
    JobState,
)
from kb.clock import now
from kb.errors import InvalidInputError, KbError, NotFoundError

# An answer has some hundred kilobytes.
_MAX_FINISHED: Final = 500
# How long another process may write, in seconds.
_PATIENCE_S: Final = 30.0
# `over` is the time at which it ended, and null as long as it waits or runs.
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS evaluations (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL, request TEXT NOT NULL,
    shown TEXT NOT NULL, job TEXT NOT NULL, answer TEXT, over REAL,
    cancelled INTEGER NOT NULL DEFAULT 0)
"""


class QueueFullError(KbError):
    """Too many evaluations wait."""

    status = 503


class StoreError(KbError):
    """The folder of the evaluations cannot be read or written."""

    status = 503


@dataclass(eq=False)
class JobStore:
    """The evaluations of one folder. Safe to use from several processes and threads."""

    root: Path

    @property
    def folder(self) -> Path:
        """Where the evaluation that runs may keep its files."""
        return self.root / "work"

    def add(self, request: EvaluationRequest, limit: int) -> EvaluationJob:
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
        job = EvaluationJob(
            id=secrets.token_hex(8), name=request.name, state=JobState.QUEUED, created=now()
        )
        with self._transaction() as db:
            waiting = db.execute("SELECT count(*) FROM evaluations WHERE over IS NULL")
            if waiting.fetchone()[0] >= limit:
                raise QueueFullError(f"{limit} evaluations are already waiting: try again later")
            shown_ids = json.dumps(_shown_before(db, request))
            values = (job.id, request.model_dump_json(), shown_ids, _text(job))
            db.execute(
                "INSERT INTO evaluations (id, request, shown, job) VALUES (?, ?, ?, ?)", values
            )
        return self.read(job.id)

    def shown_at_start(self, job_id: str, request: EvaluationRequest) -> list[str]:
        """What the reader of an evaluation has by now: what it says, and what the one before gave;
        as it was when it was sent, if that one is gone."""
        with self._transaction() as db:
            with contextlib.suppress(InvalidInputError):
                return _shown_before(db, request)
            return [str(name) for name in json.loads(_row(db, job_id)["shown"])]

    def request(self, job_id: str) -> EvaluationRequest:
        """What was sent.

        Raises
        ------
        NotFoundError
            There is no such evaluation.
        """
        with self._transaction() as db:
            text = _row(db, job_id)["request"]
        try:
            return EvaluationRequest.model_validate_json(text)
        except ValueError as error:  # of another version
            raise _not_found() from error

    def read(self, job_id: str) -> EvaluationJob:
        """An evaluation as it is now, with its answer.

        Raises
        ------
        NotFoundError
            There is none of that id, or not any more.
        """
        with self._transaction() as db:
            row = _row(db, job_id)
            job = _with_position(db, row)
        if job.state is not JobState.DONE:
            return job
        try:
            answer = EvaluationAnswer.model_validate_json(row["answer"] or "")
        except ValueError as error:  # of another version
            raise _not_found() from error
        return job.model_copy(update={"answer": answer})

    def all(self) -> list[EvaluationSummary]:
        """All evaluations, the newest first."""
        jobs = []
        fields = EvaluationSummary.model_fields
        newest = "SELECT * FROM evaluations WHERE NOT cancelled ORDER BY number DESC"
        with self._transaction() as db:
            for row in db.execute(newest).fetchall():
                with contextlib.suppress(NotFoundError):  # damaged
                    job = _with_position(db, row)
                    jobs.append(EvaluationSummary(**{name: getattr(job, name) for name in fields}))
        return jobs

    def write(self, job: EvaluationJob) -> None:
        """Replace the public state of an evaluation."""
        with self._transaction() as db:
            db.execute("UPDATE evaluations SET job = ? WHERE id = ?", (_text(job), job.id))

    def finish(self, job: EvaluationJob, answer: EvaluationAnswer | None) -> None:
        """Keep an evaluation's end."""
        text = answer.model_dump_json() if answer is not None else None
        with self._transaction() as db:
            db.execute(
                "UPDATE evaluations SET job = ?, answer = ?, over = ? WHERE id = ?",
                (_text(job), text, time.time(), job.id),
            )

    def remove(self, job_id: str) -> None:
        """Forget an evaluation.

        One that runs is marked, and ended by who runs it.

        Raises
        ------
        NotFoundError
            There is no such evaluation.
        """
        with self._transaction() as db:
            if _job(_row(db, job_id)).state is JobState.RUNNING:
                db.execute("UPDATE evaluations SET cancelled = 1 WHERE id = ?", (job_id,))
            else:
                db.execute("DELETE FROM evaluations WHERE id = ?", (job_id,))

    def give_back(self, job: EvaluationJob) -> None:
        """Let a running evaluation wait again, as if it had not been begun."""
        update = {"state": JobState.QUEUED, "attempts": job.attempts - 1, "phases": []}
        self.write(job.model_copy(update=update))

    def is_cancelled(self, job_id: str) -> bool:
        """Whether a running evaluation is to be ended."""
        with self._transaction() as db:
            cursor = db.execute("SELECT cancelled FROM evaluations WHERE id = ?", (job_id,))
            return bool((cursor.fetchone() or (0,))[0])

    def forget(self, job_id: str) -> None:
        """Remove what is left of a cancelled evaluation."""
        with self._transaction() as db:
            db.execute("DELETE FROM evaluations WHERE id = ?", (job_id,))

    def take(self) -> EvaluationJob | None:
        """The evaluation whose turn it is, running from now on; None where none waits.

        It stays the first until it is over, so that it comes again if this process dies.
        """
        with self._transaction() as db:
            # Cancelled while nobody ran it.
            db.execute("DELETE FROM evaluations WHERE cancelled")
            oldest = "SELECT * FROM evaluations WHERE over IS NULL ORDER BY number"
            for row in db.execute(oldest).fetchall():
                try:
                    job = _job(row)
                except NotFoundError:  # damaged
                    db.execute("DELETE FROM evaluations WHERE id = ?", (row["id"],))
                    continue
                update = {"state": JobState.RUNNING, "started": now(), "phases": []}
                job = job.model_copy(update=update | {"attempts": job.attempts + 1})
                db.execute("UPDATE evaluations SET job = ? WHERE id = ?", (_text(job), job.id))
                return job
        return None

    def sweep(self, keep: float) -> None:
        """Remove what was over `keep` seconds ago, and what is more than is ever kept."""
        with self._transaction() as db:
            db.execute(
                "DELETE FROM evaluations WHERE over < ? OR number IN (SELECT number FROM "
                "evaluations WHERE over IS NOT NULL ORDER BY over DESC LIMIT -1 OFFSET ?)",
                (time.time() - keep, _MAX_FINISHED),
            )

    @contextmanager
    def elected(self) -> Iterator[bool]:
        """Whether this process may judge: at most one at a time, of all that share the folder."""
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        fd = os.open(self.root / "runner.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
        finally:
            os.close(fd)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """One transaction; it is undone where something is raised."""
        try:
            self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
            db = sqlite3.connect(
                self.root / "evaluations.sqlite3", timeout=_PATIENCE_S, isolation_level=None
            )
            with contextlib.closing(db):
                db.row_factory = sqlite3.Row
                db.execute("BEGIN IMMEDIATE")
                db.execute(_SCHEMA)
                yield db
                db.execute("COMMIT")
        except (OSError, sqlite3.Error) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise StoreError(f"the server cannot keep the evaluation: {reason}") from error


def _row(db: sqlite3.Connection, job_id: str) -> sqlite3.Row:
    cursor = db.execute("SELECT * FROM evaluations WHERE id = ? AND NOT cancelled", (job_id,))
    row: sqlite3.Row | None = cursor.fetchone()
    if row is None:
        raise _not_found()
    return row


def _job(row: sqlite3.Row) -> EvaluationJob:
    try:
        return EvaluationJob.model_validate_json(row["job"])
    except ValueError as error:  # damaged, or of another version
        raise _not_found() from error


def _with_position(db: sqlite3.Connection, row: sqlite3.Row) -> EvaluationJob:
    """An evaluation with how many are before it, where it waits."""
    job = _job(row)
    if job.state is not JobState.QUEUED:
        return job
    ahead = db.execute(
        "SELECT count(*) FROM evaluations WHERE over IS NULL AND number < ?", (row["number"],)
    )
    return job.model_copy(update={"ahead": ahead.fetchone()[0]})


def _shown_before(db: sqlite3.Connection, request: EvaluationRequest) -> list[str]:
    """What the reader of an evaluation has: what it says, and what the one before gave."""
    shown_ids = list(request.exclude)
    if request.previous is not None:
        try:
            row = _row(db, request.previous)
        except NotFoundError:
            raise InvalidInputError(
                f"previous: evaluation {request.previous} does not exist or has expired; pass what "
                "it showed as exclude"
            ) from None
        try:
            shown_ids += EvaluationAnswer.model_validate_json(row["answer"] or "").shown
        except ValueError:  # not answered yet, or of another version
            shown_ids += [str(name) for name in json.loads(row["shown"])]
    return list(dict.fromkeys(shown_ids))[-MAX_EXCLUDED:]


def _text(job: EvaluationJob) -> str:
    return job.model_dump_json(exclude={"answer", "ahead"})


def _not_found() -> NotFoundError:
    return NotFoundError(
        "no such evaluation, or it has expired: GET /v1/evaluate lists those that are stored"
    )
