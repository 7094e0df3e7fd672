"""The routes of ingest over HTTP. All of them need an admin token."""

import os
import shutil
import subprocess
import sys
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from pydantic import TypeAdapter, ValidationError
from starlette.datastructures import FormData, UploadFile
from starlette.responses import Response

from kb.errors import InvalidInputError
from server.jobs.models import Job, JobList, SourceName
from server.jobs.store import JobStore, safe_path
from server.middleware.auth import require_admin
from server.problems import error_responses
from server.settings import Settings
from server.state import state_of

_NAME: TypeAdapter[str] = TypeAdapter(SourceName)
# `source`, and room for what a form may add.
_MAX_FIELDS = 8
_FORM: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["source", "files"],
                    "properties": {
                        "source": {
                            "type": "string",
                            "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$",
                            "description": "Name of the source; a new upload replaces it.",
                        },
                        "files": {
                            "type": "array",
                            "minItems": 1,
                            "items": {"type": "string", "format": "binary"},
                            "description": "Files, named relative to the source's root.",
                        },
                    },
                }
            }
        },
    }
}


router = APIRouter(prefix="/v1", dependencies=[Depends(require_admin)], responses=error_responses())


def _store(request: Request) -> JobStore:
    return JobStore(state_of(request).settings.state_dir)


Store = Annotated[JobStore, Depends(_store)]


@router.post(
    "/ingest",
    operation_id="ingest",
    status_code=202,
    response_model=Job,
    openapi_extra=_FORM,
    summary="Upload files as a source",
)
async def ingest(request: Request, response: Response, store: Store) -> Job:
    """Starts a job; `GET /v1/jobs/{id}` returns its state. No file on the server is read."""
    state = state_of(request)
    settings = state.settings
    limits = {"max_files": settings.max_upload_files, "max_fields": _MAX_FIELDS}
    async with request.form(**limits) as form:
        job = await state.pool.run(lambda: _accept(store, form, settings))
    response.headers["Location"] = f"/v1/jobs/{job.id}"
    return job


@router.get(
    "/jobs",
    operation_id="listJobs",
    response_model=JobList,
    summary="Ingest jobs, newest first",
)
async def jobs(request: Request, store: Store) -> JobList:
    """Jobs of all workers."""
    return JobList(jobs=await state_of(request).pool.run(store.all))


@router.get(
    "/jobs/{job_id}", operation_id="getJob", response_model=Job, summary="State of an ingest job"
)
async def job(request: Request, job_id: str, store: Store) -> Job:
    """The job as it is now."""
    return await state_of(request).pool.run(lambda: store.read(job_id))


def _accept(store: JobStore, form: FormData, settings: Settings) -> Job:
    """Take the files of an upload and start its job."""
    try:
        source = _NAME.validate_python(form.get("source"))
    except ValidationError as error:
        raise InvalidInputError(
            "source: give the upload a name of letters, digits, '.', '_' and '-'"
        ) from error
    uploads = [upload for upload in form.getlist("files") if isinstance(upload, UploadFile)]
    if not uploads:
        raise InvalidInputError("files: send at least one file")
    paths = [safe_path(upload.filename or "") for upload in uploads]
    if len(set(paths)) < len(paths):
        raise InvalidInputError("files: two files have the same name")
    new_job, folder = store.create(source, settings.max_jobs)
    lock = store.lock(new_job.id)
    try:
        for upload, path in zip(uploads, paths, strict=True):
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("xb") as file:
                shutil.copyfileobj(upload.file, file)
        new_job.files = len(paths)
        store.write(new_job)
        _start(store, new_job, settings, lock)
    except BaseException as error:
        store.discard(new_job)
        if isinstance(error, FileExistsError | NotADirectoryError | IsADirectoryError):
            raise InvalidInputError("files: one name is both a file and a folder") from error
        raise
    finally:
        os.close(lock)  # the process has its own
    return new_job


def _start(store: JobStore, new_job: Job, settings: Settings, lock: int) -> None:
    """Start the job's process. It outlives the worker: a restart does not lose it."""
    log = (store.root / new_job.id / "log").open("wb")
    command = [sys.executable, "-m", "server.jobs.work"]
    command += [str(settings.state_dir), str(settings.index), new_job.id]
    try:
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(lock,),
            start_new_session=True,
        )
    finally:
        log.close()
