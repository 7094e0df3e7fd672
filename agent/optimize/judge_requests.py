"""Requests to a judging process. Each class defines its reply and how to answer it."""

import contextlib
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel, Field

from judge.evaluate.options import Options
from judge.evaluate.result import Ceilings, Evaluation, Model
from judge.loading import loading_torch
from judge.options import RunOptions
from judge.profile.result import Profile
from judge.progress import Progress, Say, Step

R = TypeVar("R", bound=BaseModel)


class JudgeState:
    """State that a judging process keeps between requests."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._zygotes: dict[bool, Future[Any]] = {}
        self.ceilings: dict[str | None, Ceilings] = {}
        """Last measured ceilings, by device."""

    def zygote(self, *, interpret: bool) -> Any:
        """The process that workers fork from: started once, since loading torch takes seconds."""
        self.prepare(interpret=interpret)
        return self._zygotes[interpret].result()

    def prepare(self, *, interpret: bool) -> None:
        """Begin to start what `zygote` returns, unless it was begun before."""
        from judge.sandbox.launch import Zygote  # noqa: PLC0415 (only where one is needed)

        if interpret in self._zygotes:
            return
        executor = ThreadPoolExecutor(1, thread_name_prefix="zygote")
        future = self._zygotes[interpret] = executor.submit(Zygote, interpret=interpret)
        self._stack.callback(lambda: future.result().close())
        executor.shutdown(wait=False)

    def forget(self) -> None:
        """End the processes that workers fork from; the next request starts another."""
        with contextlib.suppress(Exception):
            self._stack.close()
        self._stack, self._zygotes = contextlib.ExitStack(), {}


class Request(Model, Generic[R]):
    """A request; `answer` runs in the judging process.

    A class of any module can be one: the process imports it by its name.
    """

    reply: ClassVar[type[BaseModel]]
    """Type of the reply: `R`."""

    def answer(self, state: JudgeState, say: Say) -> R:
        """Do what is asked.

        Raises
        ------
        KbError
            It cannot be done.
        """
        raise NotImplementedError


class DeviceInfo(Model):
    """Usable devices: the first one and all others of its model."""

    devices: tuple[str, ...]
    gpu: str | None = None
    """Name of the card, as its driver says it; None on the CPU."""
    versions: dict[str, str] = Field(default_factory=dict)


class Describe(Request[DeviceInfo], RunOptions):
    """Ask which devices there are."""

    reply = DeviceInfo

    def answer(self, state: JudgeState, say: Say) -> DeviceInfo:  # noqa: ARG002 (see `Request`)
        """See `Request.answer`."""
        from judge.evaluate.host import describe_host, resolve_device  # noqa: PLC0415

        state.prepare(interpret=self.interpret)
        with loading_torch():
            device = resolve_device(self.device, interpret=self.interpret)
        host = describe_host(device)
        devices = [device]
        if device != "cpu" and self.device is None:
            import torch  # noqa: PLC0415

            names = [torch.cuda.get_device_name(n) for n in range(torch.cuda.device_count())]
            devices = [f"cuda:{n}" for n, name in enumerate(names) if name == host.gpu]
        return DeviceInfo(devices=tuple(devices), gpu=host.gpu, versions=host.versions)


class EvaluationReply(Model):
    """An evaluation and its cost."""

    evaluation: Evaluation
    gpu_seconds: float = 0.0
    """GPU seconds, without `baseline_seconds`."""
    baseline_seconds: float = 0.0
    """Seconds of compiling and tuning baselines."""


class Evaluate(Request[EvaluationReply], Options):
    """Judge a kernel file."""

    reply = EvaluationReply

    problem: Path
    kernel: Path

    def answer(self, state: JudgeState, say: Say) -> EvaluationReply:
        """See `Request.answer`."""
        with loading_torch():
            from judge.evaluate.judge import evaluate  # noqa: PLC0415

        watch = Stopwatch()

        def report(progress: Progress) -> None:
            watch.record(progress.step)
            say(progress)

        evaluation = evaluate(
            self.problem,
            self.kernel,
            self,
            zygote=state.zygote(interpret=self.interpret),
            # A search measures them once, its last evaluation anew.
            ceilings=state.ceilings.get(self.device) if self.quick else None,
            on_progress=report,
        )
        if evaluation.ceilings is not None:
            state.ceilings[self.device] = evaluation.ceilings
        total, compiling = watch.seconds()
        return EvaluationReply(
            evaluation=evaluation,
            gpu_seconds=0.0 if self.interpret else total - compiling,
            baseline_seconds=compiling,
        )


class ProfileReply(Model):
    """A profile and its GPU seconds."""

    profile: Profile
    gpu_seconds: float = 0.0


class TakeProfile(Request[ProfileReply], RunOptions):
    """Profile a kernel file."""

    reply = ProfileReply

    problem: Path
    kernel: Path

    def answer(self, state: JudgeState, say: Say) -> ProfileReply:
        """See `Request.answer`."""
        from judge.evaluate.clocks import card_id  # noqa: PLC0415 (these load torch)
        from judge.evaluate.gpulock import locked  # noqa: PLC0415
        from judge.problem.kernel import KernelFile  # noqa: PLC0415
        from judge.problem.source import ProblemFile  # noqa: PLC0415
        from judge.profile.profiler import Request as ProfileRequest  # noqa: PLC0415
        from judge.profile.profiler import profile  # noqa: PLC0415

        device = self.device or "cuda:0"
        request = ProfileRequest.like(
            self,
            problem=ProblemFile.read(self.problem),
            kernel=KernelFile.read(self.kernel),
            device=device,
            locked=True,
            say=say,
        )
        # Held here, so that waiting for it is no time on the card.
        with locked(card_id(device), say=say):
            start = time.perf_counter()
            result = profile(request, state.zygote(interpret=False))
            return ProfileReply(profile=result, gpu_seconds=time.perf_counter() - start)


class Stopwatch:
    """Measures GPU time and baseline compilation of an evaluation from its steps."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._since: float | None = None
        self._compiling: float | None = None
        self._compiled = 0.0

    def record(self, step: Step) -> None:
        """Take note of a step."""
        moment = self._clock()
        if self._since is None and step is Step.HOLD:
            self._since = moment
        if self._compiling is not None:
            self._compiled += moment - self._compiling
        self._compiling = moment if step is Step.COMPILE else None

    def seconds(self) -> tuple[float, float]:
        """Seconds since the card was had, and those of them in which baselines compiled."""
        if self._since is None:
            return 0.0, 0.0
        self.record(Step.WORK)
        return self._clock() - self._since, self._compiled
