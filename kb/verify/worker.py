"""Run the checking process and survive it: a crash or a hang costs one kernel, not the run."""

import contextlib
import json
import os
import queue
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO, Any

from kb.verify.origin import START_TIMEOUT_S, Origin
from kb.verify.result import CheckResult

INTERPRETING = "kb.verify.interpret"
COMPILING = "kb.verify.compile_triton"


Job = dict[str, Any]
"""One kernel for the checking process, which reads it as JSON: `slug`, `path`, `language`, `sizes`,
`dtypes`, `check_params` and `interpretable`."""


@dataclass(slots=True)
class _Current:
    """What the checking process is at."""

    slug: str = ""
    check: str = ""
    case: str = ""
    since: float = 0.0


def run_jobs(
    jobs: Sequence[Job],
    on_result: Callable[[CheckResult], None],
    case_timeout_s: float,
    origin: Origin,
    module: str = INTERPRETING,
) -> None:
    """Check every kernel in one child process, and in a fresh one after a crash or a hang."""
    remaining = list(jobs)
    while remaining:
        current = _Current()
        problem = _run_child(
            remaining, on_result, case_timeout_s, current, origin=origin, module=module
        )
        if problem is None:
            return
        if not current.slug:
            for job in remaining:
                on_result(CheckResult(job["slug"], "start", False, problem, 0.0))
            return
        seconds = time.perf_counter() - current.since
        where = f"{current.case}: " if current.case else ""
        on_result(CheckResult(current.slug, current.check, False, where + problem, seconds))
        at = next(i for i, job in enumerate(remaining) if job["slug"] == current.slug)
        remaining = remaining[at + 1 :]


def _run_child(
    jobs: Sequence[Job],
    on_result: Callable[[CheckResult], None],
    case_timeout_s: float,
    current: _Current,
    *,
    origin: Origin,
    module: str,
) -> str | None:
    """Run the child to its end; what went wrong with the process itself, or None."""
    with tempfile.TemporaryFile() as errors:
        jobs_from, jobs_to = os.pipe()
        events_from, events_to = os.pipe()
        feed, events = os.fdopen(jobs_to, "wb"), os.fdopen(events_from, "rb")
        try:
            child = origin.fork(module, [jobs_from, events_to, errors.fileno()])
        except OSError as error:
            feed.close()
            events.close()
            return f"the checking process did not start: {error}"
        finally:
            os.close(jobs_from)
            os.close(events_to)
        payload = json.dumps(jobs).encode()
        threading.Thread(target=_feed, args=(feed, payload), daemon=True).start()
        try:
            problem = _follow(events, on_result, case_timeout_s, current)
        finally:
            code = origin.end(child)
        if problem != "":
            return problem
        cause = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
        return f"the checking process died ({cause}){_last_line(errors)}"


def _feed(stream: IO[bytes], payload: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), stream:  # the child died; its exit status tells
        stream.write(payload)


def _follow(
    stream: IO[bytes],
    on_result: Callable[[CheckResult], None],
    case_timeout_s: float,
    current: _Current,
) -> str | None:
    """Pass results on until the child is done (None), dies ("") or hangs (a message)."""
    events: queue.Queue[dict[str, Any] | None] = queue.Queue()
    threading.Thread(target=_read, args=(stream, events), daemon=True).start()
    timeout = START_TIMEOUT_S
    while True:
        try:
            event = events.get(timeout=timeout)
        except queue.Empty:
            return f"no result after {timeout:.0f} s: stopped"
        if event is None:
            return ""
        match event["event"]:
            case "ready":
                timeout = case_timeout_s
            case "done":
                return None
            case "begin":
                current.slug, current.check = event["slug"], event["check"]
                current.case, current.since = event["case"], time.perf_counter()
            case "end":
                del event["event"]
                on_result(CheckResult(**event))


def _read(stream: IO[bytes], events: "queue.Queue[dict[str, Any] | None]") -> None:
    with stream:
        for line in stream:
            events.put(json.loads(line))
    events.put(None)


def _last_line(errors: IO[bytes]) -> str:
    errors.seek(0)
    lines = [line for line in errors.read().decode(errors="replace").splitlines() if line.strip()]
    return f": {lines[-1].strip()}" if lines else ""
