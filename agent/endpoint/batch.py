"""Requests and replies as files in OpenAI's Batch format: a model without a network.

::

    DIR/
      requests.jsonl        requests that were not sent yet
      sent/NNNN.jsonl       requests that were: `requests.jsonl` moves here when the first reply
                            to it comes, or when `kb batch` sends it
      results*.jsonl        replies, as the Batch API gives them; partial files are welcome
      batch.lock            held while these files are changed

A request's id is a digest of its content, so the same question has the same id on every machine
and in every run, and is asked once. Lines are appended and synced; a torn last line is cut.
"""

import hashlib
import json
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

from filelock import FileLock
from pydantic import ValidationError

from agent.endpoint.client import MAX_REPLY_BYTES, Reply, Wire
from agent.endpoint.errors import EndpointError, one_line
from agent.pause import WaitingError
from kb.errors import InvalidInputError, KbError

URL: Final = "/v1/chat/completions"
REQUESTS: Final = "requests.jsonl"
LOCK: Final = "batch.lock"
SENT: Final = "sent"
# A request whose replies were all errors that pass (a limit, an expired batch) is asked so often.
MAX_ATTEMPTS: Final = 3
_TRANSIENT: Final = frozenset({408, 409, 425, 429})
_OK: Final = 200
_SERVER: Final = 500
_ID_DIGITS: Final = 40


class _Response(Wire):
    status_code: int = _OK
    body: dict[str, Any] | None = None


class _Error(Wire):
    code: str | None = None
    message: str | None = None


class _Line(Wire):
    """One line of a results' file."""

    custom_id: str
    response: _Response | None = None
    error: _Error | None = None


@dataclass(slots=True)
class Result:
    """Result of one request."""

    body: dict[str, Any] | None = None
    """Body of the reply; None if there were only errors."""
    status: int | None = None
    """Status of the last error; None if the batch ended without one."""
    message: str = ""
    count: int = 0
    """Number of lines about it, replies and errors."""

    @property
    def is_transient(self) -> bool:
        """Whether the error is transient."""
        status = self.status
        return status is None or status in _TRANSIENT or status >= _SERVER


class BatchFolder:
    """A folder of requests and replies; safe to share between threads, runs and processes.

    The folder is made if it is not there.

    Raises
    ------
    InvalidInputError
        It cannot be used.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        try:
            root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidInputError(f"cannot use {root}: {error.strerror}") from error
        self._lock = threading.Lock()
        self._unsent: dict[str, str] = {}
        """Lines of `requests.jsonl`, by id."""
        self._sent: Counter[str] = Counter()
        """Number of times each id was sent."""
        self._results: dict[str, Result] = {}
        self._read_sizes: dict[Path, int] = {}
        self._digests: set[bytes] = set()
        self.notes: list[str] = []
        """Problems with the results, one line each."""
        with self._locked():
            self._read_all()

    @property
    def unsent(self) -> int:
        """Requests in `requests.jsonl`."""
        return len(self._unsent)

    @property
    def waiting(self) -> int:
        """Requests without a reply: not sent, or sent and not answered."""
        return sum(1 for request_id in self._request_ids() if self._awaits_reply(request_id))

    def result(self, custom_id: str) -> Result | None:
        """Result of a request; None if there is no final one yet."""
        result = self._results.get(custom_id)
        if result is None or result.body is not None or not result.is_transient:
            return result
        return result if result.count >= MAX_ATTEMPTS else None

    def ask(self, custom_id: str, body: Mapping[str, Any]) -> None:
        """Write a request down, unless it is waiting for its reply already.

        Raises
        ------
        KbError
            The disk is full, or the folder cannot be written.
        """
        line = json.dumps(
            {"custom_id": custom_id, "method": "POST", "url": URL, "body": dict(body)},
            ensure_ascii=False,
        )
        with self._locked():
            self._read_requests()
            if self._awaits_reply(custom_id):
                return
            try:
                with (self.root / REQUESTS).open("a", encoding="utf-8", errors="replace") as file:
                    file.write(line + "\n")
                    file.flush()
                    os.fsync(file.fileno())
            except OSError as error:
                raise KbError(f"cannot write {self.root / REQUESTS}: {error.strerror}") from error
            self._unsent[custom_id] = line
            self._read_sizes = self._file_sizes()

    def mark_sent(self, before: Callable[[Path], None]) -> None:
        """Move `requests.jsonl`, if there is one, to `sent`; `before` is called with its new place
        before it is taken."""
        with self._locked():
            self._read_requests()
            if self._unsent:
                self._move_to_sent(before)

    def _request_ids(self) -> set[str]:
        return {*self._unsent, *self._sent}

    def _awaits_reply(self, custom_id: str) -> bool:
        """Whether it was sent more often than it was answered."""
        result = self._results.get(custom_id, Result())
        sent_count = self._sent[custom_id] + (custom_id in self._unsent)
        return result.body is None and sent_count > result.count

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            with self._lock, FileLock(self.root / LOCK, is_singleton=False):
                yield
        except OSError as error:
            raise KbError(f"cannot use {self.root}: {error.strerror or error}") from error

    def _read_all(self) -> None:
        """Read all files. Requests with an answer count as sent."""
        self._read_requests()
        for path in sorted(self.root.glob("results*.jsonl")):
            self._read_results(path)
        foreign_ids = sorted(self._results.keys() - self._request_ids())
        if foreign_ids:
            more = f" and {len(foreign_ids) - 3} more" if len(foreign_ids) > 3 else ""
            self.notes.append(
                f"results for requests that were not made here: {', '.join(foreign_ids[:3])}{more}"
            )
        if any(self._results.get(id_, Result()).count > self._sent[id_] for id_ in self._unsent):
            self._move_to_sent()

    def _file_sizes(self) -> dict[Path, int]:
        paths = [self.root / REQUESTS, *(self.root / SENT).glob("*.jsonl")]
        return {path: path.stat().st_size for path in paths if path.exists()}

    def _read_requests(self) -> None:
        """Read requests, if another process changed them."""
        if self._read_sizes and self._read_sizes == self._file_sizes():
            return
        self._sent = Counter()
        for path in sorted((self.root / SENT).glob("*.jsonl")):
            self._sent.update(name for name, _ in requests_in(path))
        self._unsent = dict(requests_in(self.root / REQUESTS, cut=True))
        self._read_sizes = self._file_sizes()

    def _read_results(self, path: Path) -> None:
        damaged = 0
        with path.open("rb") as file:
            while line := file.readline(4 * MAX_REPLY_BYTES):
                if not line.strip():
                    continue
                digest = hashlib.sha256(line.strip()).digest()
                if digest in self._digests:  # a partial file that was fetched twice
                    continue
                self._digests.add(digest)
                try:
                    self._add_line(_Line.model_validate_json(line))
                except ValidationError:
                    damaged += 1
        if damaged:
            self.notes.append(f"{path}: {damaged} lines are not results, or are cut off")

    def _add_line(self, line: _Line) -> None:
        result = self._results.setdefault(line.custom_id, Result())
        result.count += 1
        response = line.response
        if response is not None and response.status_code == _OK and response.body is not None:
            result.body = response.body
            return
        result.status = response.status_code if response is not None else None
        result.message = _message(line)

    def _move_to_sent(self, before: Callable[[Path], None] = lambda _: None) -> None:
        """`requests.jsonl` under the next number of `sent`; nothing is left unsent."""
        folder = self.root / SENT
        folder.mkdir(exist_ok=True)
        last = max((int(path.stem) for path in folder.glob("[0-9]*.jsonl")), default=0)
        target = folder / f"{last + 1:04d}.jsonl"
        before(target)
        (self.root / REQUESTS).rename(target)
        self._sent.update(self._unsent.keys())
        self._unsent = {}
        self._read_sizes = self._file_sizes()


@dataclass(frozen=True, slots=True)
class BatchEndpoint:
    """A model behind files; the counterpart of `Endpoint` over HTTP."""

    model: str
    """The model's name at the endpoint that will answer."""
    folder: BatchFolder
    url: ClassVar[str] = URL

    def complete(self, payload: Mapping[str, Any]) -> Reply:
        """The reply to the body of a chat-completions request, without the model's name.

        Raises
        ------
        WaitingError
            There is none yet; the request is in the folder.
        EndpointError
            It was refused, or the reply is not a chat completion.
        """
        body = {"model": self.model, **payload}
        request_id = custom_id(body)
        result = self.folder.result(request_id)
        if result is None:
            self.folder.ask(request_id, body)
            raise WaitingError(f"waiting for the reply to {request_id} in {self.folder.root}")
        if result.body is None:
            raise EndpointError(
                f"the batch in {self.folder.root} has an error for {request_id}: {result.message}",
                status_code=result.status,
                detail=result.message,
            )
        try:
            return Reply.of(result.body)
        except (ValidationError, ValueError, RecursionError) as error:
            raise EndpointError(
                f"the reply to {request_id} in {self.folder.root} is not a chat completion",
                status_code=_OK,
            ) from error

    def close(self) -> None:
        """Nothing is held."""


def custom_id(body: Mapping[str, Any]) -> str:
    """The id of a request: a digest of its body, model included."""
    return f"kb-{digest_of(body)[:_ID_DIGITS]}"


def digest_of(body: Mapping[str, Any]) -> str:
    """SHA-256 of a request's body, whatever the order of its keys."""
    text = json.dumps(body, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()


def requests_in(path: Path, *, cut: bool = False) -> Iterator[tuple[str, str]]:
    """(id, line) of a file of requests, in order; `cut` removes what a kill left of a write.

    Raises
    ------
    InvalidInputError
        A line is no request.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return
    valid = data.rfind(b"\n") + 1
    if cut and valid < len(data):
        with path.open("r+b") as file:
            file.truncate(valid)
    for number, line in enumerate(data[:valid].decode(errors="replace").split("\n"), 1):
        if not line.strip():
            continue
        try:
            yield str(json.loads(line)["custom_id"]), line
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise InvalidInputError(f"{path}:{number} is not a batch request") from error


def _message(line: _Line) -> str:
    if line.error is not None and (line.error.message or line.error.code):
        return one_line(line.error.message or line.error.code)
    body = line.response.body if line.response is not None else None
    error = (body or {}).get("error")
    reason = error.get("message") if isinstance(error, dict) else error
    return one_line(reason or "no reason is given")
