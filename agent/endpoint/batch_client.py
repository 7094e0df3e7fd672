"""Sends a folder's requests to an endpoint's Batch API, and fetches the replies.

Next to `sent/NNNN.jsonl` is `sent/NNNN.json`, written before the requests are moved and after
each call that the endpoint answered. A kill between a call and its note is found by the digest in
the batch's metadata, so that nothing is sent twice.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ConfigDict, ValidationError

from agent.endpoint.batch import SENT, URL, BatchFolder, requests_in
from agent.endpoint.errors import EndpointError, one_line
from agent.optimize.files import write_atomically
from kb.errors import InvalidInputError

if TYPE_CHECKING:
    import openai

_MARK: Final = "kernel_kb"
_ENDED: Final = frozenset({"completed", "expired", "cancelled"})
_FAILED: Final = "failed"


class BatchState(BaseModel):
    """State of one file of requests."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    batch: str | None = None
    """Its id at the endpoint; None: not sent yet."""
    fetched: bool = False
    """Its replies are in the folder."""


@dataclass(frozen=True, slots=True)
class BatchClient:
    """One folder and one endpoint."""

    folder: BatchFolder
    client: "openai.OpenAI"

    def step(self) -> list[str]:
        """Send what is not sent, fetch what is there; a line for each batch that is not done.

        Raises
        ------
        EndpointError
            The endpoint cannot be reached, refuses, or found a file faulty.
        KbError
            The folder cannot be written.
        """
        import openai  # noqa: PLC0415

        try:
            self.folder.mark_sent(lambda path: _write_state(path, BatchState()))
            return [line for path in self._sent_files() if (line := self._advance(path))]
        except openai.OpenAIError as error:
            raise EndpointError(
                f"the Batch API of {self.client.base_url} failed: {one_line(error)}; what was "
                "sent is recorded: repeat the same command"
            ) from error

    def _sent_files(self) -> Iterator[Path]:
        """Files of requests that this sent or began to send, in order."""
        for note in sorted((self.folder.root / SENT).glob("[0-9]*.json")):
            if note.with_suffix(".jsonl").exists():
                yield note.with_suffix(".jsonl")

    def _advance(self, path: Path) -> str | None:
        state = _read_state(path)
        if state.fetched:
            return None
        if state.batch is None:
            state = BatchState(batch=self._find_or_create(path))
            _write_state(path, state)
        assert state.batch is not None
        batch = self.client.batches.retrieve(state.batch)
        if batch.status == _FAILED:
            path.rename(path.with_suffix(".failed"))
            errors = batch.errors.data if batch.errors is not None and batch.errors.data else []
            why = one_line(errors[0].message if errors else "no reason is given")
            raise EndpointError(
                f"the endpoint rejected all of {path.name}: {why}; its requests are written "
                "again when the runs continue"
            )
        if batch.status not in _ENDED:
            counts = batch.request_counts
            done = f", {counts.completed} of {counts.total} done" if counts is not None else ""
            return f"{state.batch}: {batch.status}{done}"
        self._fetch(path, batch)
        _write_state(path, BatchState(batch=state.batch, fetched=True))
        return None

    def _find_or_create(self, path: Path) -> str:
        """The id of the file's batch, which an earlier process may have made."""
        mark = hashlib.sha256(path.read_bytes()).hexdigest()[:32]
        for batch in self.client.batches.list(limit=100):
            if (batch.metadata or {}).get(_MARK) == mark and batch.status != _FAILED:
                return batch.id
        with path.open("rb") as file:
            uploaded = self.client.files.create(file=file, purpose="batch")
        created = self.client.batches.create(
            input_file_id=uploaded.id, endpoint=URL, completion_window="24h", metadata={_MARK: mark}
        )
        return created.id

    def _fetch(self, path: Path, batch: Any) -> None:
        """Write replies and errors to `results-NNNN.jsonl`, whole."""
        file_ids = [file_id for file_id in (batch.output_file_id, batch.error_file_id) if file_id]
        texts = [self.client.files.content(file_id).text for file_id in file_ids]
        lines = [line for text in texts for line in text.splitlines() if line.strip()]
        answered_ids = {_id_of(line) for line in lines}
        for request_id, _ in requests_in(path):
            if request_id not in answered_ids:
                error = {"code": f"batch_{batch.status}", "message": f"the batch {batch.status}"}
                lines.append(json.dumps({"id": batch.id, "custom_id": request_id, "error": error}))
        text = "\n".join(lines) + "\n"
        write_atomically(self.folder.root / f"results-{path.stem}.jsonl", text)


def _id_of(line: str) -> str | None:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return data.get("custom_id") if isinstance(data, dict) else None


def _write_state(path: Path, state: BatchState) -> None:
    write_atomically(path.with_suffix(".json"), state.model_dump_json() + "\n")


def _read_state(path: Path) -> BatchState:
    note = path.with_suffix(".json")
    try:
        return BatchState.model_validate_json(note.read_bytes())
    except (OSError, ValidationError) as error:
        raise InvalidInputError(f"{note} is damaged: {one_line(error, 200)}") from error
