"""The process of one job: put the upload in place, ingest it, and tell how far it is.

Run as `python -m server.jobs.work STATE_DIR INDEX JOB_ID`.
"""

import contextlib
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock

from ingest.pipeline import Request, ingest
from kb.clock import now
from kb.embedders import load_embedder
from kb.errors import IndexBusyError, KbError
from kb.index.layout import IndexLayout
from kb.index.manifest import read_manifest
from server.jobs.models import Job, JobState
from server.jobs.store import JobStore

# Progress is written this often, in seconds.
_REPORT_EVERY = 0.2
# Another writer, such as `kb ingest`, is waited for this long, in seconds.
_PATIENCE = 600.0
_RETRY_EVERY = 1.0


class _Progress:
    """Writes an ingest's progress into the job."""

    def __init__(self, store: JobStore, job: Job) -> None:
        self._store = store
        self._job = job
        self._written = 0.0

    def stage(self, name: str, total: int | None = None) -> None:
        """A new stage begins. Only its kind is published, not the path that it reads."""
        self._job.stage, self._job.total, self._job.done = name.split(" ", 1)[0], total, 0
        self._store.write(self._job)

    def advance(self, steps: int) -> None:
        """Steps are done."""
        self._job.done += steps
        if time.monotonic() - self._written > _REPORT_EVERY:
            self._written = time.monotonic()
            self._store.write(self._job)


def work(state_dir: Path, index: Path, job_id: str) -> None:
    """Do a job to its end. Its outcome is on disk; nothing is raised for a failed one."""
    store = JobStore(state_dir)
    job = Job.model_validate_json((store.root / job_id / "job.json").read_text(encoding="utf-8"))
    try:
        with FileLock(store.root / "queue.lock"), _in_place(store, job) as folder:
            job.state = JobState.RUNNING
            store.write(job)
            _ingest(store, job, folder, index)
        job.state = JobState.DONE
    except KbError as error:
        job.state, job.error = JobState.FAILED, str(error).replace(str(state_dir), "…")
    except Exception as error:
        job.state, job.error = JobState.FAILED, f"unexpected {type(error).__name__}"
        raise
    finally:
        job.finished = now()
        store.write(job)


def _ingest(store: JobStore, job: Job, folder: Path, index: Path) -> None:
    deadline = time.monotonic() + _PATIENCE
    current = IndexLayout(index).current()
    name = read_manifest(IndexLayout(index).generation(current)).embedder if current else None
    embedder = load_embedder(name)
    while True:
        try:
            report = ingest(
                [Request(folder, name=job.source)], index, embedder, progress=_Progress(store, job)
            )
            break
        except IndexBusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_EVERY)
    job.stage, job.total, job.done = None, None, 0
    job.generation, job.chunks, job.embedded = report.generation, report.chunks, report.embedded


@contextmanager
def _in_place(store: JobStore, job: Job) -> Iterator[Path]:
    """Put the upload where its source is read from, now and at a rebuild; undo it on failure."""
    store.uploads.mkdir(parents=True, exist_ok=True, mode=0o700)
    target = store.uploads / job.source
    former = store.uploads / f".former-{job.source}"
    if former.exists():  # an earlier job was killed while its upload was in place
        shutil.rmtree(target, ignore_errors=True)
        former.rename(target)
    if target.exists():
        target.rename(former)
    (store.root / job.id / "files").rename(target)
    try:
        yield target
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        with contextlib.suppress(FileNotFoundError):
            former.rename(target)
        raise
    shutil.rmtree(former, ignore_errors=True)


if __name__ == "__main__":
    work(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
