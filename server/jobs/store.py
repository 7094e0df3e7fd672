"""Jobs on disk, so that every worker can tell of every job.

A job's process holds the lock on its folder from birth to death. A job that is not over and whose
lock is free was interrupted.
"""

import fcntl
import os
import re
import secrets
import shutil
from pathlib import Path, PurePosixPath

from kb.clock import now
from kb.errors import InvalidInputError, NotFoundError
from server.jobs.models import Job, JobState
from server.problems import OverloadedError

_ID = re.compile(r"[0-9a-f]{16}")
# Any letter or digit of any script, and the marks that file names commonly have; no leading dot.
_PART = re.compile(r"\w[\w.+@=, -]*")
_MAX_DEPTH = 16
_MAX_PATH = 400
# Finished jobs that are still listed.
_KEPT = 100


class JobStore:
    """The jobs of one state folder."""

    def __init__(self, state_dir: Path) -> None:
        self.root = state_dir / "jobs"
        self.uploads = state_dir / "uploads"

    def create(self, source: str, most_waiting: int) -> tuple[Job, Path]:
        """A new job, and the empty folder for its files.

        Raises
        ------
        OverloadedError
            Too many jobs wait or run already.
        """
        jobs = self.all()
        if sum(not job.is_over for job in jobs) >= most_waiting:
            raise OverloadedError("too many ingest jobs are waiting: try again when some are done")
        for job in jobs[_KEPT:]:
            if job.is_over:
                shutil.rmtree(self.root / job.id, ignore_errors=True)
        job = Job(
            id=secrets.token_hex(8), source=source, state=JobState.QUEUED, files=0, created=now()
        )
        files = self.root / job.id / "files"
        files.mkdir(parents=True, mode=0o700)
        return job, files

    def write(self, job: Job) -> None:
        """Replace what is on disk of a job, whole."""
        folder = self.root / job.id
        part = folder / f"job.json.{os.getpid()}"
        part.write_text(job.model_dump_json(), encoding="utf-8")
        part.replace(folder / "job.json")

    def read(self, job_id: str) -> Job:
        """A job as it is now.

        Raises
        ------
        NotFoundError
            There is no such job.
        """
        missing = NotFoundError("no job has this id: GET /v1/jobs lists all jobs")
        if not _ID.fullmatch(job_id):
            raise missing
        folder = self.root / job_id
        try:
            # The lock first: a job that ends in between is then seen as over, not as interrupted.
            alive = not _is_free(folder / "lock")
            job = Job.model_validate_json((folder / "job.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise missing from error
        if not job.is_over and not alive:
            interrupted = "interrupted; nothing was published: upload again"
            return job.model_copy(update={"state": JobState.FAILED, "error": interrupted})
        return job

    def all(self) -> list[Job]:
        """All jobs, the newest first."""
        jobs = []
        for path in self.root.glob("*/job.json"):
            try:
                jobs.append(self.read(path.parent.name))
            except NotFoundError:
                continue  # deleted just now
        return sorted(jobs, key=lambda job: (job.created, job.id), reverse=True)

    def lock(self, job_id: str) -> int:
        """Lock a job; returns the descriptor, to be handed to the job's process."""
        fd = os.open(self.root / job_id / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return fd

    def discard(self, job: Job) -> None:
        """Forget a job that was never begun."""
        shutil.rmtree(self.root / job.id, ignore_errors=True)


def safe_path(name: str) -> PurePosixPath:
    """A client's file name as a relative path below the upload's folder.

    Raises
    ------
    InvalidInputError
        It is absolute, goes up, is hidden, or holds characters that have no place in one.
    """
    parts = name.removeprefix("./").split("/")
    fine = len(parts) <= _MAX_DEPTH and len(name) <= _MAX_PATH
    if not fine or not all(_PART.fullmatch(part) for part in parts):
        raise InvalidInputError(
            "files: each file needs a plain relative name such as kernels/matmul.py"
        )
    return PurePosixPath(*parts)


def _is_free(path: Path) -> bool:
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(fd)
    return True
