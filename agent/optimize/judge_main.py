"""The process that evaluates and profiles for a run: `python -m agent.optimize.judge_main FD`.

A process of its own, so that whatever happens to torch, the driver or the card while it judges ends
it and not the run. It reads one JSON request a line from stdin, and writes to the descriptor FD
lines of progress ({"say": ...}) and one answer for each request ({"ok": ...} or {"error": ...}). It
ends with its parent: when stdin ends, whatever it is doing.
"""

import contextlib
import json
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, TypeAdapter

from agent.evaluate.options import CALL_SECONDS
from agent.optimize.candidate import Model
from kb.errors import KbError

_BASELINE_LINES = ("starting compile", "starting max-autotune")
_WORKING = "starting workers"


class Describe(Model):
    """Which devices there are. → {devices, gpu, properties, versions}."""

    do: Literal["describe"] = "describe"
    device: str | None = None
    interpret: bool = False


class Evaluate(Model):
    """Judge a kernel file. → {evaluation, gpu_seconds, baseline_seconds}."""

    do: Literal["evaluate"] = "evaluate"
    problem: str
    kernel: str
    device: str
    dtype: str | None = None
    tf32: bool = False
    interpret: bool = False
    trust: bool = False
    against: tuple[str, ...] = ()
    baselines: tuple[str, ...] = ()
    quick: bool = False
    """Times for ranking: fewer launches, and the card's ceilings of an earlier evaluation."""
    call_seconds: float = CALL_SECONDS
    """The longest that one call of a kernel may take, compilation included."""


class TakeProfile(Model):
    """Profile a kernel file. → {profile, gpu_seconds}."""

    do: Literal["profile"] = "profile"
    problem: str
    kernel: str
    device: str
    dtype: str | None = None
    tf32: bool = False
    untrusted: bool = False
    """Refuse where the sandbox is not enough for code from strangers."""


Request = Describe | Evaluate | TakeProfile
_REQUEST: TypeAdapter[Request] = TypeAdapter(
    Describe | Evaluate | TakeProfile  # told apart by `do`
)
Say = Callable[[str], None]


class Answer(Model):
    """What the parent gets for a request."""

    ok: dict[str, Any] | None = None
    error: str | None = None
    kind: str = Field(default="")
    """Class of the error."""


class Server:
    """Answers requests one after the other; what they have in common is kept."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._zygote: Any = None
        self._ceilings: dict[str, Any] = {}
        """By device, as last measured."""

    def answer(self, request: Request, say: Say) -> dict[str, Any]:
        """Do what is asked.

        Raises
        ------
        KbError
            It cannot be done.
        """
        match request:
            case Describe():
                return describe(request)
            case Evaluate():
                return self._evaluate(request, say)
            case TakeProfile():
                return self._profile(request, say)

    def _evaluate(self, request: Evaluate, say: Say) -> dict[str, Any]:
        from agent.evaluate.judge import evaluate  # noqa: PLC0415 (loads torch)
        from agent.evaluate.options import Options  # noqa: PLC0415

        options = Options(
            dtype=request.dtype,
            device=None if request.interpret else request.device,
            interpret=request.interpret,
            against=tuple(Path(each) for each in request.against),
            baselines=request.baselines,
            trust=request.trust,
            timing=not request.interpret,
            quick=request.quick,
            tf32=request.tf32,
            call_seconds=request.call_seconds,
        )
        watch = Stopwatch()

        def told(line: str) -> None:
            watch.hear(line)
            say(line)

        found = evaluate(
            Path(request.problem),
            Path(request.kernel),
            options,
            zygote=self._workers(interpret=request.interpret),
            # A search measures them once, its last evaluation anew.
            ceilings=self._ceilings.get(request.device) if request.quick else None,
            on_progress=told,
        )
        if found.ceilings is not None:
            self._ceilings[request.device] = found.ceilings
        held, compiling = watch.seconds()
        return {
            "evaluation": found.model_dump(mode="json"),
            "gpu_seconds": 0.0 if request.interpret else held - compiling,
            "baseline_seconds": compiling,
        }

    def _profile(self, request: TakeProfile, say: Say) -> dict[str, Any]:
        from agent.evaluate.clocks import card_id  # noqa: PLC0415
        from agent.evaluate.gpulock import locked  # noqa: PLC0415
        from agent.problem.kernel import KernelFile  # noqa: PLC0415
        from agent.problem.source import ProblemFile  # noqa: PLC0415
        from agent.profile.profiler import Request as ProfileRequest  # noqa: PLC0415
        from agent.profile.profiler import profile  # noqa: PLC0415

        asked = ProfileRequest(
            problem=ProblemFile.read(Path(request.problem)),
            kernel=KernelFile.read(Path(request.kernel)),
            device=request.device,
            dtype=request.dtype,
            precision="tf32" if request.tf32 else "ieee",
            locked=True,
            untrusted=request.untrusted,
            say=say,
        )
        # Held here, so that waiting for it is no time on the card.
        with locked(card_id(request.device), say=say):
            start = time.perf_counter()
            found = profile(asked, self._workers(interpret=False))
            seconds = time.perf_counter() - start
        return {"profile": found.model_dump(mode="json"), "gpu_seconds": seconds}

    def _workers(self, *, interpret: bool) -> Any:
        """The process that workers fork from: started once, since loading torch takes seconds."""
        from agent.sandbox.launch import Zygote  # noqa: PLC0415

        if self._zygote is None:
            self._zygote = self._stack.enter_context(Zygote(interpret=interpret))
        return self._zygote

    def forget(self) -> None:
        """End the process that workers fork from; the next request starts another."""
        with contextlib.suppress(Exception):
            self._stack.close()
        self._stack, self._zygote = contextlib.ExitStack(), None


class Stopwatch:
    """Reads off an evaluation's lines how long it held the card, and how long baselines compiled.

    The first line after the card is locked says that workers start; a line that says that a
    compiled baseline starts is followed by the next one when it is compiled.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._since: float | None = None
        self._compiling: float | None = None
        self._compiled = 0.0

    def hear(self, line: str) -> None:
        """Take note of a line."""
        moment = self._clock()
        if self._since is None and line == _WORKING:
            self._since = moment
        if self._compiling is not None:
            self._compiled += moment - self._compiling
        self._compiling = moment if line in _BASELINE_LINES else None

    def seconds(self) -> tuple[float, float]:
        """Seconds since the card was had, and those of them in which baselines compiled."""
        if self._since is None:
            return 0.0, 0.0
        self.hear("")
        return self._clock() - self._since, self._compiled


def describe(request: Describe) -> dict[str, Any]:
    """Devices that candidates may be shared out to: the first, and all of its kind."""
    from agent.evaluate.host import describe_host, resolve_device  # noqa: PLC0415

    device = resolve_device(request.device, interpret=request.interpret)
    host = describe_host(device)
    found: dict[str, Any] = {"devices": [device], "gpu": host.gpu, "versions": host.versions}
    if device == "cpu":
        return found
    import torch  # noqa: PLC0415

    properties = torch.cuda.get_device_properties(int(device.partition(":")[2]))
    found["capability"] = [properties.major, properties.minor]
    if request.device is None:
        names = [torch.cuda.get_device_name(each) for each in range(torch.cuda.device_count())]
        found["devices"] = [f"cuda:{i}" for i, name in enumerate(names) if name == host.gpu]
    return found


def main(descriptor: int) -> None:
    """Serve until stdin ends."""
    with os.fdopen(descriptor, "w", encoding="utf-8") as replies:
        sending = threading.Lock()

        def send(data: dict[str, Any]) -> None:
            with sending:
                replies.write(json.dumps(data) + "\n")
                replies.flush()

        server = Server()
        for line in _requests():
            try:
                request = _REQUEST.validate_json(line)
                send({"ok": server.answer(request, lambda said: send({"say": said}))})
            except KbError as error:
                server.forget()  # it may be what is broken
                send({"error": str(error), "kind": type(error).__name__})
            except Exception as error:
                server.forget()
                send({"error": f"{type(error).__name__}: {error}", "kind": type(error).__name__})
        server.forget()


def _requests() -> Iterator[str]:
    waiting: queue.Queue[str] = queue.Queue()

    def listen() -> None:
        for line in sys.stdin:
            waiting.put(line)
        # The parent is gone or wants an end: nothing that runs here is of use to anybody.
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    while True:
        yield waiting.get()


if __name__ == "__main__":
    main(int(sys.argv[1]))
