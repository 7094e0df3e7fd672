"""Compiles Triton kernels ahead of their launches, in forked processes, into Triton's own cache.

Each version of a kernel is called once with a Triton that notes what it would compile and launches
nothing. Child processes compile what was noted; they never touch the device. The launch that
follows finds the result in `TRITON_CACHE_DIR`.
"""

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from judge.worker.messages import MAX_ERROR_CHARS, one_line

Run = Callable[..., Any]
CompileJobs = list[tuple[str, list[Callable[[], Any]]]]
"""Versions by name, and what each would compile, as functions that do."""

# How long to wait for a child before looking at the clock again, in seconds.
_LOOK: Final = 0.05


class _ManyConfigurationsError(Exception):
    """An autotuned kernel would time its configurations, which needs launches."""


@dataclass(slots=True)
class _Child:
    """A process that compiles for one version."""

    process: int
    pipe: int
    """Where its error, if any, is read."""
    limit: float
    text: bytearray = field(default_factory=bytearray)


@dataclass(frozen=True, slots=True)
class Compiled:
    """What came of compiling one version."""

    error: str = ""
    """Why it could not be compiled."""
    done: bool = False
    """All was compiled. Neither done nor an error: there was no time."""
    slow: bool = False
    """The error is that it took longer than one may."""


def collect_jobs(runs: Mapping[str, Run], inputs: Sequence[Any]) -> CompileJobs:
    """Note what each of `runs` (loaded versions by name) would compile for `inputs`."""
    try:
        from triton import knobs  # noqa: PLC0415 (may be missing)
    except ImportError:
        return []
    if knobs.runtime.interpret:
        return []
    jobs_by_name = ((name, _jobs_of_call(run, inputs)) for name, run in runs.items())
    return [(name, jobs) for name, jobs in jobs_by_name if jobs]


def compile_jobs(
    versions: CompileJobs, processes: int, seconds: float, deadline: float
) -> dict[str, Compiled]:
    """Compile what was noted; nothing here touches the device.

    Parameters
    ----------
    seconds
        The longest that one may take.
    deadline
        On `time.perf_counter`; what runs then is ended.

    Returns
    -------
    By name; versions that Triton has nothing to compile for, or that cannot be called without
    launching, are left out.
    """
    results: dict[str, Compiled] = {}
    waiting = list(reversed(versions))
    running: dict[str, _Child] = {}
    try:
        while waiting or running:
            now = time.perf_counter()
            if now > deadline:
                unfinished = [*running, *(name for name, _ in waiting)]
                results |= dict.fromkeys(unfinished, Compiled())
                break
            while waiting and len(running) < processes:
                name, jobs = waiting.pop()
                running[name] = _start(jobs, now + seconds)
            _collect(running, results, seconds)
    finally:
        for child in running.values():
            _end(child)
    return results


def _jobs_of_call(run: Run, inputs: Sequence[Any]) -> list[Callable[[], Any]]:
    """What one call would compile, as functions that do."""
    jobs: list[Callable[[], Any]] = []
    with _recording(jobs):
        try:
            run(*inputs)
        except Exception:
            # Such as one that reads a result of a launch that did not take place. It is compiled
            # when it is called; what was noted so far is compiled ahead.
            return jobs
    return jobs


@contextlib.contextmanager
def _recording(jobs: list[Callable[[], Any]]) -> Iterator[None]:
    """Replace what compiles by what notes; a launch of nothing returns at once (Triton 3.2-3.9)."""
    from triton.runtime.autotuner import Autotuner  # noqa: PLC0415 (may be missing)
    from triton.runtime.jit import JITFunction  # noqa: PLC0415

    compiling, tuning = JITFunction._do_compile, Autotuner.run

    def record(function: Any, _key: Any, signature: Any, device: Any, *rest: Any) -> None:
        constexprs, options, attributes, _ = rest
        _, _, target, _, _ = function.device_caches[device]
        source = function.ASTSource(function, signature, constexprs, attributes)
        compile_ = function.compile
        jobs.append(lambda: compile_(source, target=target, options=options.__dict__))

    def refuse(tuner: Any, *args: Any, **kwargs: Any) -> Any:
        if len(tuner.configs) > 1:
            raise _ManyConfigurationsError
        return tuning(tuner, *args, **kwargs)

    JITFunction._do_compile, Autotuner.run = record, refuse
    try:
        yield
    finally:
        JITFunction._do_compile, Autotuner.run = compiling, tuning


def _start(jobs: Sequence[Callable[[], Any]], limit: float) -> _Child:
    """Fork a process that compiles and reports."""
    reader, writer = os.pipe()
    process = os.fork()
    if process:
        os.close(writer)
        os.set_blocking(reader, False)
        return _Child(process, reader, limit)
    code = 1
    try:
        os.close(reader)
        # Its own group: a compiler that it started is ended with it.
        os.setpgid(0, 0)
        for job in jobs:
            job()
        code = 0
    except BaseException as error:
        with contextlib.suppress(BaseException):
            os.write(writer, f"{type(error).__name__}: {error}".encode()[: 4 * MAX_ERROR_CHARS])
    finally:
        os._exit(code)


def _collect(running: dict[str, _Child], results: dict[str, Compiled], seconds: float) -> None:
    """Take what children said, and whoever ended or took too long."""
    waiting = select.poll()
    for child in running.values():
        waiting.register(child.pipe, select.POLLIN)
    ready = {pipe for pipe, _ in waiting.poll(_LOOK * 1000)}
    now = time.perf_counter()
    for name, child in list(running.items()):
        ended = False
        if child.pipe in ready:
            part = os.read(child.pipe, 1 << 16)
            child.text += part
            ended = not part
        if ended:
            code = os.waitstatus_to_exitcode(os.waitpid(child.process, 0)[1])
            os.close(child.pipe)
            del running[name]
            text = one_line(child.text.decode(errors="replace"))
            error = "" if code == 0 else text or f"the compiler ended with {code}"
            results[name] = Compiled(error, done=code == 0)
        elif now > child.limit:
            _end(child)
            del running[name]
            results[name] = Compiled(f"compiling takes more than {seconds:g} s", slow=True)


def _end(child: _Child) -> None:
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(OSError):
            kill(child.process, signal.SIGKILL)
    with contextlib.suppress(OSError):
        os.waitpid(child.process, 0)
    with contextlib.suppress(OSError):
        os.close(child.pipe)
