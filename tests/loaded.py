"""A process with PyTorch and Triton's interpreter loaded: what needs them runs in forks of it.

Loading them takes longer than most of what then runs. Run as `python loaded.py SOCKET PID`, it
returns once the process listens at SOCKET, which ends with the process PID. Each connection asks
for one fork by a packet of JSON with descriptors, and is answered by two: the fork's process id,
and when it has ended, its exit status (minus the signal's number).
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
from collections.abc import Mapping, Sequence
from pathlib import Path

PACKET_BYTES = 1 << 16
MOST_HANDLES = 8
# Above every number that a fork is to know a descriptor by.
_ASIDE = 512
MODULES = (
    "torch", "triton.experimental.gluon", "triton.runtime.interpreter", "judge.sandbox.zygote",
    "kb.verify.compare", "kb.verify.kernel_module",
)  # fmt: skip


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
    ) -> None:
        job = {"arguments": arguments, "cwd": cwd, "env": dict(env), "handles": list(handles)}
        self.status: int | None = None
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.connect(str(place / "socket"))
        socket.send_fds(self._socket, [json.dumps(job).encode()], list(handles.values()))
        self.pid = int(self._socket.recv(PACKET_BYTES))

    def wait(self, timeout: float | None = None) -> int:
        if self.status is None:
            self._socket.settimeout(timeout)
            try:
                self.status = int(self._socket.recv(PACKET_BYTES))
            except TimeoutError:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0) from None
            self._socket.close()
        return self.status

    def kill(self) -> None:
        """End it and what it started, as it leads a session."""
        if self.status is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)


def _serve(listening: socket.socket, parent: int) -> None:
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
                _become(json.loads(packet), handles)
            for handle in handles:
                os.close(handle)
            running[child] = asker
            asker.send(str(child).encode())
        if ready - {wake, listening.fileno()}:
            for child in running:
                os.kill(child, signal.SIGTERM)
            return


def _become(job: dict[str, list[str]], handles: list[int]) -> None:
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
            _serve(listening, int(sys.argv[2]))
    os._exit(0)


if __name__ == "__main__":
    main()
