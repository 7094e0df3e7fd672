"""Between the zygote and the sandbox: a supervisor that outlives the sandboxed process.

zygote -> supervisor -> (first process of a process namespace, its init) -> sandboxed process.
The supervisor ends as the sandboxed process ended, and only after every descendant is gone.
Supervisor and init run only this module; neither is ever inside the sandbox.
"""

import io
import json
import os
import select
import signal
import socket
import struct
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from judge.sandbox import entries, linux, privileges, processes
from judge.sandbox.enter import SetupState, enter, prepare
from judge.sandbox.policy import Policy

SET_UP_FAILED = 70  # os.EX_SOFTWARE
# Killing ends at once, except for processes inside a device driver; then the kernel goes on
# without us.
GONE_SECONDS = 20.0


def supervise(entry: str, policy: Policy, channel: int, output: int, report: int) -> NoReturn:
    """Run `entry` in a sandbox below the calling process, which the zygote has just forked.

    Parameters
    ----------
    channel, output, report
        Descriptors: the process's socket, its stdout and stderr, and a pipe for one JSON object,
        {"layers"} or {"error"}, written before anything untrusted runs.
    """
    parent = os.getppid()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    _close_all_but({channel, output, report})
    os.setsid()
    _standard_streams(output)
    try:
        linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(SET_UP_FAILED)
        state = prepare(policy)
        # Cleared by a change of user.
        linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
    except Exception as error:
        _fail(report, error)
    fds = (channel, output, report)
    if state.process_namespace:
        status = _below_init(state, entry, *fds)
    else:
        linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
        child = _fork(lambda: _run_sandboxed(state, entry, *fds, die_with_parent=True))
        status = _wait(child, fds)
        _end_descendants(state)
    _end_as(status)


def _below_init(state: SetupState, entry: str, *fds: int) -> int:
    """Run the sandboxed process below an init; the kernel kills all that is left when it ends."""
    reader, writer = os.pipe()

    def init() -> NoReturn:
        os.close(reader)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
        poll = select.poll()
        poll.register(writer, 0)
        if poll.poll(0):  # the supervisor died before it could take us with it
            os._exit(SET_UP_FAILED)
        child = _fork(lambda: _run_sandboxed(state, entry, *fds, die_with_parent=False))
        for fd in fds:
            os.close(fd)
        while True:
            pid, status = os.wait()
            if pid == child:
                os.write(writer, struct.pack("=i", status))
                os._exit(0)

    init_pid = _fork(init)
    os.close(writer)
    status = _wait(init_pid, fds)
    packet = os.read(reader, 4)
    return struct.unpack("=i", packet)[0] if len(packet) == 4 else status


def _fork(run: Callable[[], NoReturn]) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            run()
        finally:
            os._exit(SET_UP_FAILED)
    return pid


def _wait(child: int, fds: tuple[int, ...]) -> int:
    """Wait for `child`; SIGTERM kills it. Not dumpable: nobody reads or traces a supervisor."""
    signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGKILL))
    linux.prctl(linux.PR_SET_DUMPABLE, 0)
    for fd in fds:
        os.close(fd)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)
    os.dup2(null, 2)
    while True:
        pid, status = os.wait()
        if pid == child:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            return status


def _end_descendants(state: SetupState) -> None:
    """Kill what is left; orphans come to this process, their subreaper."""
    until = time.monotonic() + GONE_SECONDS
    while time.monotonic() < until:
        _kill_user(state)
        for pid in processes.descendants(os.getpid()):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.005)


def _kill_user(state: SetupState) -> None:
    """Kill all processes of the sandbox's own user id at once, which no fork can outrun."""
    uid = state.change_user
    if uid is None:
        if os.getuid() >= privileges.USER_BASE:
            with suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
        return
    helper = os.fork()
    if helper == 0:
        try:
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            os.kill(-1, signal.SIGKILL)
        finally:
            os._exit(0)
    os.waitpid(helper, 0)


def _end_as(status: int) -> NoReturn:
    """End the calling process as `status` says another one ended."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        with suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else SET_UP_FAILED)


def _run_sandboxed(
    state: SetupState, entry: str, channel: int, _output: int, report: int, *, die_with_parent: bool
) -> NoReturn:
    """Be the sandboxed process: enter, report, run the entry function."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    supervisor = os.getppid()
    try:
        _close_all_but({channel, report})
        os.setsid()
        layers = enter(state)
        if die_with_parent:  # after the change of user, which clears it
            linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != supervisor:
                os._exit(SET_UP_FAILED)
        layer_report = {"layers": [layer.model_dump() for layer in layers]}
        function = entries.load(entry)
        os.write(report, json.dumps(layer_report).encode())
        os.close(report)
    except BaseException as error:
        _fail(report, error)
    code = 1
    try:
        with socket.socket(fileno=channel) as connection:
            function(connection, state.policy)
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code & 0xFF)


def _fail(report: int, error: BaseException) -> NoReturn:
    with suppress(OSError):
        text = f"{type(error).__name__}: {error}"
        os.write(report, json.dumps({"error": text[:2000]}).encode())
    os._exit(SET_UP_FAILED)


def _close_all_but(keep: set[int]) -> None:
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        number = int(name)
        if number > 2 and number not in keep:
            with suppress(OSError):
                os.close(number)


def _standard_streams(output: int) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(output, 1)
    os.dup2(output, 2)
    for name, number in (("stdout", 1), ("stderr", 2)):
        raw = io.FileIO(number, "w", closefd=False)
        text = io.TextIOWrapper(
            io.BufferedWriter(raw), "utf-8", "backslashreplace", line_buffering=True
        )
        setattr(sys, name, text)
