"""The shapes of ingest jobs."""

from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

SourceName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]


class JobState(StrEnum):
    """The state of a job."""

    QUEUED = "queued"
    """Its files have arrived; another job or writer is running."""
    RUNNING = "running"
    DONE = "done"
    """Published, or nothing had changed."""
    FAILED = "failed"
    """Nothing was published; `error` says why."""


class Job(BaseModel):
    """One upload on its way into the index."""

    model_config = ConfigDict(extra="forbid")

    id: str
    source: SourceName
    state: JobState
    files: int
    stage: str | None = None
    """The current step: reading, embedding or publishing."""
    done: int = 0
    total: int | None = None
    """Steps of the stage, where known."""
    created: str
    finished: str | None = None
    error: str | None = None
    generation: str | None = None
    """The generation that holds the upload, once done."""
    chunks: int | None = None
    embedded: int | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen."""
        return self.state in (JobState.DONE, JobState.FAILED)


class JobList(BaseModel):
    """The answer of `GET /v1/jobs`, newest first."""

    model_config = ConfigDict(extra="forbid")

    jobs: list[Job]
