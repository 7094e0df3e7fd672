"""A process with PyTorch and Triton's interpreter loaded: what needs them runs in forks of it.

Loading them takes longer than most of what then runs. Run as `python loaded.py SOCKET PID`, it
returns once the process listens at SOCKET, which ends with the process PID. Each connection asks
for one fork by a packet of JSON with descriptors, and is answered by two: the fork's process id,
and when it has ended, its exit status (minus the signal's number). A judge that starts in a test,
or in such a fork, is a fork too (`forking_popen`).
"""

import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

PACKET_BYTES = 1 << 16
MOST_HANDLES = 8
# Above every number that a fork is to know a descriptor by.
_ASIDE = 512
MODULES = (
    "torch", "triton.experimental.gluon", "triton.runtime.interpreter", "judge.sandbox.zygote",
    "kb.verify.compare", "kb.verify.kernel_module", "agent.optimize.judge_main",
)  # fmt: skip
JUDGE = "agent.optimize.judge_main"
ZYGOTE = "judge.sandbox.zygote"


def begin(place: Path) -> None:
    """Start the process, for as long as these tests run; it listens at `place`/socket."""
    root = Path(__file__).parents[1]
    parent = os.getppid() if "PYTEST_WORKER" in os.environ else os.getpid()
    passive = {"OMP_WAIT_POLICY": "PASSIVE"}  # as the judge has it for the interpreter
    with (place / "errors").open("w") as errors:
        done = subprocess.run(
            [sys.executable, __file__, place / "socket", str(parent)],
            env={**os.environ, **passive, "TRITON_INTERPRET": "1", "PYTHONPATH": str(root)},
            stdin=subprocess.DEVNULL, stdout=errors, stderr=errors, check=False,
        )  # fmt: skip
    assert done.returncode == 0, (place / "errors").read_text()[-3000:]


class Forked:
    """A fork of the process, used as `subprocess.Popen` is.

    Parameters
    ----------
    arguments
        A script, or `-m` and a module, with its own arguments.
    handles
        By the number that the fork is to know each by: descriptors of this process.
    """

    def __init__(
        self,
        place: Path,
        arguments: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        handles: Mapping[int, int],
        stdin: IO[bytes] | None = None,
    ) -> None:
        job = {"arguments": arguments, "cwd": cwd, "env": dict(env), "handles": list(handles)}
        self.returncode: int | None = None
        self.stdin = stdin
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.connect(str(place / "socket"))
        socket.send_fds(self._socket, [json.dumps(job).encode()], list(handles.values()))
        self.pid = int(self._socket.recv(PACKET_BYTES))

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self._socket.settimeout(timeout)
            try:
                self.returncode = int(self._socket.recv(PACKET_BYTES))
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0) from None
            self._socket.close()
        return self.returncode

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def kill(self) -> None:
        """End it and what it started, as it leads a session."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)


def forking_popen(place: Callable[[], Path]) -> type[subprocess.Popen[Any]]:
    """What to put in the place of `subprocess.Popen`: judges, and the processes that interpreting
    judges fork from, are forks of the process that listens at `place()`/socket."""

    class Popen(subprocess.Popen):  # type: ignore[type-arg]
        def __new__(cls, command: Any, *_: Any, **options: Any) -> Any:
            if not _can_fork(command, options.get("env")):
                return super().__new__(cls)
            return _fork(place(), command[1:], **options)

    return Popen


def _can_fork(command: Any, env: Mapping[str, str] | None) -> bool:
    if not isinstance(command, list) or command[:2] != [sys.executable, "-m"]:
        return False
    interprets = (env or {}).get("TRITON_INTERPRET") == "1" and "--torch" in command
    return command[2] == JUDGE or (command[2] == ZYGOTE and interprets)


def _fork(
    place: Path, arguments: list[str], *, stdin: int, stdout: IO[bytes] | int,
    stderr: IO[bytes] | int, env: Mapping[str, str], pass_fds: Sequence[int],
    cwd: str | None = None, start_new_session: bool = True,
) -> Forked:  # fmt: skip
    assert start_new_session
    with contextlib.ExitStack() as stack:
        handles = {each: each for each in pass_fds}
        writer = None
        if stdin == subprocess.PIPE:
            handles[0], writing = os.pipe()
            stack.callback(os.close, handles[0])
            writer = os.fdopen(writing, "wb")
        for number, to in ((1, stdout), (2, stderr)):
            if not isinstance(to, int):
                handles[number] = to.fileno()
            elif to == subprocess.DEVNULL:
                handles[number] = os.open(os.devnull, os.O_WRONLY)
                stack.callback(os.close, handles[number])
        return Forked(
            place, arguments, cwd=cwd or str(Path.cwd()), env=env, handles=handles, stdin=writer
        )


def _serve(listening: socket.socket, folder: Path, parent: int) -> None:
    """Fork until the parent ends."""
    wake, waker = os.pipe()
    for end in (wake, waker):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(waker)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    poll = select.poll()
    for each in (listening, wake, os.pidfd_open(parent)):
        poll.register(each, select.POLLIN)
    running: dict[int, socket.socket] = {}
    while True:
        ready = {handle for handle, _ in poll.poll()}
        if wake in ready:
            os.read(wake, PACKET_BYTES)
            while running and (ended := os.waitpid(-1, os.WNOHANG))[0]:
                with running.pop(ended[0]) as asker, contextlib.suppress(OSError):
                    asker.send(str(os.waitstatus_to_exitcode(ended[1])).encode())
        if listening.fileno() in ready:
            asker, _ = listening.accept()
            packet, handles, _, _ = socket.recv_fds(asker, PACKET_BYTES, MOST_HANDLES)
            child = os.fork()
            if child == 0:
                _become(json.loads(packet), handles, folder)
            for handle in handles:
                os.close(handle)
            running[child] = asker
            asker.send(str(child).encode())
        if ready - {wake, listening.fileno()}:
            for child in running:
                os.kill(child, signal.SIGTERM)
            return


def _become(job: dict[str, list[str]], handles: list[int], folder: Path) -> None:
    """Run a script or module, and end as a process that was started for it would."""
    status = 1
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for place, handle in enumerate(handles):
            os.dup2(handle, _ASIDE + place)
        os.closerange(3, _ASIDE)
        for place, number in enumerate(job["handles"]):
            os.dup2(_ASIDE + place, int(number))
        os.closerange(_ASIDE, _ASIDE + len(handles))
        os.environ.clear()
        os.environ.update(job["env"])
        os.chdir(str(job["cwd"]))
        subprocess.Popen = forking_popen(lambda: folder)  # type: ignore[misc]
        first, *own = job["arguments"]
        if first == "-m":
            sys.argv = own
            runpy.run_module(own[0], run_name="__main__", alter_sys=True)
        else:
            sys.argv = [first, *own]
            interpreter = sys.modules["triton.runtime.interpreter"]
            importlib.import_module("kb.interpreter").make_faster(interpreter)
            runpy.run_path(first, run_name="__main__")
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def main() -> None:
    del sys.path[0]  # the folder of this script
    gc.disable()
    for module in MODULES:
        importlib.import_module(module)
    importlib.import_module("judge.sandbox.entries").preload()
    gc.freeze()
    gc.enable()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(sys.argv[1])
        listening.listen(64)
        if os.fork() == 0:
            os.setsid()
            _serve(listening, Path(sys.argv[1]).parent, int(sys.argv[2]))
    os._exit(0)


if __name__ == "__main__":
    main()
