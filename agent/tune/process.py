"""Runs `python -m agent.tune` as its parent sees it: ask, wait, end."""

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

from agent.tune.request import Ranking, Request, Screening, Tuned
from kb.errors import KbError

# Starting a zygote and workers, waiting for another's turn on the card.
_START_SECONDS: Final = 120.0
_WAIT_SECONDS: Final = 1200.0


class TuneProcess:
    """Runs `python -m agent.tune`, one at a time; the next one starts while a result is judged."""

    def __init__(self, command: Sequence[str] = (sys.executable, "-m", "agent.tune")) -> None:
        self._command = tuple(command)
        self._process: subprocess.Popen[bytes] | None = None
        self._spare: subprocess.Popen[bytes] | None = None
        self._ahead = False

    def prepare(self) -> None:
        """Start a process that waits for a request, now and after each."""
        self._ahead = True
        if self._spare is None:
            self._spare = self._start("--ahead")

    def _start(self, *options: str) -> "subprocess.Popen[bytes]":
        command = [*self._command, *options]
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def _taken(self) -> "subprocess.Popen[bytes]":
        """The one that waits, if it still does; else a new one."""
        spare, self._spare = self._spare, None
        if spare is not None and spare.poll() is None:
            return spare
        if spare is not None:
            _end(spare)
        return self._start()

    def run(self, request: Request, say: Callable[[str], None]) -> Tuned:
        """Tune in a new process.

        Raises
        ------
        KbError
            It failed, died, or took far longer than it was given.
        """
        return Tuned.model_validate(self._ask(request, "tuned", say))

    def rank(self, request: Screening, say: Callable[[str], None]) -> Ranking:
        """Screen in a new process; raises as `run` does."""
        return Ranking.model_validate(self._ask(request, "ranking", say))

    def _ask(self, request: Request | Screening, wanted: str, say: Callable[[str], None]) -> Any:
        process = self._process = self._taken()
        limit = request.seconds + _START_SECONDS + _WAIT_SECONDS
        timer = threading.Timer(limit, process.kill)
        timer.daemon = True
        timer.start()
        errors: list[bytes] = []
        assert process.stderr is not None
        reader = threading.Thread(target=_drain, args=(process.stderr, errors), daemon=True)
        reader.start()
        last: dict[str, Any] = {}
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            with contextlib.suppress(OSError):
                process.stdin.write(request.model_dump_json().encode())
                process.stdin.close()
            for line in process.stdout:
                with contextlib.suppress(ValueError):
                    told = json.loads(line)
                    if isinstance(told, dict):
                        last = told
                        if "say" in told:
                            say(f"tune: {told['say']}")
        finally:
            timer.cancel()
            if process.poll() is None and wanted not in last and "error" not in last:
                process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
            process.wait()
            reader.join(1)
            self._process = None
            if self._ahead:
                self.prepare()
        if wanted in last:
            return last[wanted]
        said = b"".join(errors).decode(errors="replace").strip().splitlines()
        reason = last.get("error") or (said[-1] if said else f"status {process.returncode}")
        raise KbError(f"tuning failed: {reason}")

    def close(self) -> None:
        """End what runs or waits; nothing is started ahead any more."""
        self._ahead = False
        if self._process is not None:
            with contextlib.suppress(OSError):
                self._process.terminate()
        spare, self._spare = self._spare, None
        if spare is not None:
            _end(spare)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End a process that was asked nothing."""
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
    process.kill()
    process.wait()


def _drain(stream: Any, into: list[bytes]) -> None:
    """Read to the end, keeping the last part."""
    while part := stream.read1(1 << 16):
        into.append(part)
        del into[:-4]
