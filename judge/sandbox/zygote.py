"""The zygote: a process with torch and Triton loaded that forks a sandbox for each request.

It runs nothing untrusted and never initialises CUDA, which would not survive a fork. It lives as
long as the judge: the end of its socket, or a new parent, ends it and with it every sandbox.

Requests and events are one JSON object a packet. Judge to zygote: {"do": "spawn", "id", "entry",
"policy"} with three descriptors (channel, output, report), {"do": "kill", "pid", "signal"}.
Zygote to judge: {"event": "ready"}, {"event": "spawned", "id", "pid"} or {"event": "refused",
"id", "error"}, {"event": "exit", "pid", "code", "signal"}.
"""

import argparse
import json
import os
import select
import signal
import socket
import sys
import warnings
from contextlib import suppress

from judge.loading import loading_torch
from judge.sandbox import entries, linux, paths, processes
from judge.sandbox.policy import Policy
from judge.sandbox.supervise import supervise

PACKET_BYTES = 1 << 16
_PARENT_CHECK_MS = 1000


class _Server:
    def __init__(self, judge: socket.socket) -> None:
        self.judge = judge
        self.parent = os.getppid()
        self.supervisors: set[int] = set()
        self.wake, waker = os.pipe()
        os.set_blocking(self.wake, False)
        os.set_blocking(waker, False)
        signal.set_wakeup_fd(waker)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def run(self) -> None:
        self.send_event({"event": "ready"})
        poll = select.poll()
        poll.register(self.judge, select.POLLIN)
        poll.register(self.wake, select.POLLIN)
        while os.getppid() == self.parent:
            ready = {handle for handle, _ in poll.poll(_PARENT_CHECK_MS)}
            if self.wake in ready:
                with suppress(BlockingIOError):
                    os.read(self.wake, PACKET_BYTES)
            self.reap()
            if self.judge.fileno() in ready and not self.serve():
                return

    def send_event(self, event: dict[str, object]) -> None:
        with suppress(OSError):  # the judge is gone: the loop is about to see that
            self.judge.send(json.dumps(event).encode())

    def serve(self) -> bool:
        """Serve one packet; False at the judge's end."""
        try:
            packet, handles, _, _ = socket.recv_fds(self.judge, PACKET_BYTES, 3)
        except OSError:
            return False
        if not packet:
            return False
        request = json.loads(packet)
        if request["do"] == "kill":
            # Only what was not reaped yet: its number cannot be another process's by now.
            if request["pid"] in self.supervisors:
                with suppress(ProcessLookupError):
                    os.kill(request["pid"], request["signal"])
            return True
        try:
            self.spawn(request, handles)
        finally:
            for handle in handles:
                os.close(handle)
        return True

    def spawn(self, request: dict[str, object], handles: list[int]) -> None:
        try:
            channel, output, report = handles
            policy = Policy.model_validate(request["policy"])
            pid = os.fork()
        except (OSError, ValueError) as error:
            self.send_event({"event": "refused", "id": request["id"], "error": str(error)})
            return
        if pid == 0:
            try:
                supervise(str(request["entry"]), policy, channel, output, report)
            finally:
                os._exit(1)
        self.supervisors.add(pid)
        self.send_event({"event": "spawned", "id": request["id"], "pid": pid})

    def reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                break
            if pid in self.supervisors:
                self.supervisors.remove(pid)
                number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
                code = None if number is not None else os.waitstatus_to_exitcode(status)
                self.send_event({"event": "exit", "pid": pid, "code": code, "signal": number})
        # What a killed supervisor left behind comes here, to the next subreaper.
        for child in processes.children(os.getpid()) or []:
            if child not in self.supervisors:
                for pid in (child, *processes.descendants(child)):
                    with suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, signal.SIGKILL)

    def end(self) -> None:
        """End every supervisor, each with all that it started."""
        for pid in self.supervisors:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        for pid in self.supervisors:
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)


def main() -> None:
    """Serve the judge on the inherited socket until it closes."""
    parser = argparse.ArgumentParser(prog="python -m judge.sandbox.zygote")
    parser.add_argument("--socket", type=int, required=True)
    parser.add_argument("--torch", action="store_true")
    options = parser.parse_args()
    judge = socket.socket(fileno=options.socket)
    judge.set_inheritable(False)
    linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
    # An interrupt at the terminal is the judge's to handle; it then closes the socket.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A search for garbage in each fork would also copy the pages of all that it looks at.
    with loading_torch():
        if options.torch:
            __import__("torch")
            with suppress(ImportError):
                __import__("triton")
                # The first launch in every process would import it, which takes as long as ten
                # calls.
                __import__("triton.experimental.gluon")
            entries.preload()
            if sys.modules["torch"].cuda.is_initialized():
                raise RuntimeError("CUDA was initialised while loading: processes could not fork")
        paths.of_machine()
    # Python 3.12 warns of forks beside threads; numpy's linear algebra keeps some, which only
    # matter to itself and which it restores in the child.
    warnings.filterwarnings("ignore", category=DeprecationWarning, message=".*fork.*")
    server = _Server(judge)
    try:
        server.run()
    finally:
        server.end()
        os._exit(0)  # taking torch down in order would take a second


if __name__ == "__main__":
    main()
