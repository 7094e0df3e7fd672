"""The judge's side of the sandbox: start a zygote, spawn sandboxed processes, end them."""

import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import judge
from judge.sandbox import entries, environment
from judge.sandbox.layers import Layer, LayerName
from judge.sandbox.policy import Policy
from judge.sandbox.sandboxed import GENTLE_SECONDS, Exit, ExitReason, Sandboxed
from judge.sandbox.watch import INTERVAL_SECONDS, Watch
from kb.errors import KbError

__all__ = ["Exit", "ExitReason", "SandboxError", "Sandboxed", "Zygote", "readable",
           "session_folder"]  # fmt: skip

_PACKET_BYTES = 1 << 16
# Importing torch and Triton takes seconds, from a cold disk far longer.
_START_SECONDS = 120.0
_SPAWN_SECONDS = 60.0


class SandboxError(KbError):
    """A sandboxed process could not be started."""


class Zygote(AbstractContextManager["Zygote"]):
    """A process with torch loaded (CUDA not initialised) from which sandboxed processes fork.

    A context manager; closing it ends everything forked from it. So does the judge's death.

    Parameters
    ----------
    interpret
        Load Triton with TRITON_INTERPRET=1 (kernels run on the CPU).
    torch
        Import torch and triton before forking. Off: a quick start for what does not need them.

    Raises
    ------
    SandboxError
        The zygote did not come up.
    """

    def __init__(self, *, interpret: bool = False, torch: bool = True) -> None:
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._running: dict[int, Sandboxed] = {}
        self._early: dict[int, dict[str, Any]] = {}  # exits that came before `spawn` returned
        self._answers: dict[int, dict[str, Any]] = {}
        self._answered = threading.Condition()
        self._requests = 0
        self._lost = False
        self._socket, child = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        variables = environment.allowed_variables() | {"PYTHONPATH": _import_path()}
        if interpret:
            variables[environment.INTERPRET] = "1"
            # Tensors are small, and threads that spin after each operator take the other
            # worker's core.
            variables["OMP_WAIT_POLICY"] = "PASSIVE"
        command = [sys.executable, "-m", "judge.sandbox.zygote", "--socket", str(child.fileno())]
        command += ["--torch"] if torch else []
        with child, tempfile.TemporaryFile() as errors:
            self._process = subprocess.Popen(
                command,
                cwd="/",
                env=variables,
                pass_fds=[child.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
            )
            child.close()
            if not readable(self._socket, _START_SECONDS) or not self._socket.recv(_PACKET_BYTES):
                self._process.kill()
                self._process.wait()
                self._socket.close()
                errors.seek(0)
                lines = errors.read().decode(errors="replace").strip().splitlines()
                reason = lines[-1] if lines else "it took too long"
                raise SandboxError(f"the process that candidates fork from did not start: {reason}")
        self._watch = Watch()
        self._events = threading.Thread(target=self._listen, name="zygote events", daemon=True)
        self._events.start()

    @property
    def pid(self) -> int:
        """Process id of the zygote."""
        return self._process.pid

    def spawn(self, entry: str, policy: Policy) -> Sandboxed:
        """Fork a process, sandbox it by `policy`, and run `entry` in it.

        `entry` is "module:function" out of `entries.ENTRIES`; the function is called as
        ``function(channel: socket.socket, policy: Policy)`` with everything else closed, working
        folder `policy.scratch`, stdin empty, stdout and stderr captured. Returns once the sandbox
        stands and `Sandboxed.layers` is known.

        Raises
        ------
        SandboxError
            Unknown entry, a path that is missing, or it could not be set up in time.
        """
        if entry not in entries.ENTRIES:
            raise SandboxError(f"{entry} is not a function that may run in the sandbox")
        for path in (policy.scratch, *policy.read):
            if not path.is_absolute() or not path.exists():
                raise SandboxError(f"{path} must be an absolute path that exists")
        until = time.monotonic() + _SPAWN_SECONDS
        channel, child = socket.socketpair()
        output_reader, output = os.pipe()
        report, report_writer = os.pipe()
        try:
            pid = self._ask(entry, policy, [child.fileno(), output, report_writer])
        except BaseException:
            for handle in (output_reader, report):
                os.close(handle)
            channel.close()
            raise
        finally:
            child.close()
            os.close(output)
            os.close(report_writer)
        process = Sandboxed(self.signal, pid, policy, channel, output_reader)
        with self._lock:
            self._running[pid] = process
            early = self._early.pop(pid, None)
            lost = self._lost
        if early is not None:
            self._handle_exit(early)
        if lost:
            process.lose()
        try:
            self._await_layers(process, report, until)
        except BaseException:
            process.kill()
            raise
        self._watch.add(process)
        return process

    def signal(self, pid: int, number: int) -> None:
        """Send a signal to a supervisor that still runs."""
        with suppress(OSError):  # the zygote is gone, and so is the supervisor
            self._send({"do": "kill", "pid": pid, "signal": int(number)}, [])

    def close(self) -> None:
        """End every process and the zygote itself."""
        with self._lock:
            running = list(self._running.values())
        for process in running:
            process.kill()
        self._watch.close()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        try:
            self._process.wait(GENTLE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._events.join()
        self._socket.close()

    def _send(self, request: dict[str, Any], handles: list[int]) -> None:
        with self._sending:
            socket.send_fds(self._socket, [json.dumps(request).encode()], handles)

    def _ask(self, entry: str, policy: Policy, handles: list[int]) -> int:
        """Request a process; returns its supervisor's id."""
        with self._answered:
            self._requests += 1
            number = self._requests
        policy_json = policy.model_dump(mode="json")
        request = {"do": "spawn", "id": number, "entry": entry, "policy": policy_json}
        try:
            self._send(request, handles)
        except OSError as error:
            raise SandboxError(f"the zygote is gone: {error}") from error
        with self._answered:
            self._answered.wait_for(lambda: number in self._answers or self._lost, _SPAWN_SECONDS)
            answer = self._answers.pop(number, None)
        if answer is None:
            raise SandboxError("the zygote does not answer")
        if answer["event"] != "spawned":
            raise SandboxError(f"a sandboxed process could not be forked: {answer['error']}")
        return int(answer["pid"])

    @staticmethod
    def _await_layers(process: Sandboxed, report: int, until: float) -> None:
        text = b""
        with os.fdopen(report, "rb", buffering=0) as pipe:
            while True:
                remaining = until - time.monotonic()
                if remaining <= 0 or not readable(pipe, remaining):
                    raise SandboxError("a sandbox took too long to set up")
                chunk = pipe.read(_PACKET_BYTES)
                if not chunk:
                    break
                text += chunk
        answer: dict[str, Any]
        answer = json.loads(text) if text else {"error": f"it died: {process.output()[-500:]}"}
        if "error" in answer:
            raise SandboxError(f"the sandbox could not be set up: {answer['error']}")
        watch = Layer(
            name=LayerName.WATCH,
            active=True,
            detail=f"memory and processes every {INTERVAL_SECONDS} s, output",
        )
        process.layers = [*(Layer.model_validate(layer) for layer in answer["layers"]), watch]

    def _listen(self) -> None:
        while True:
            try:
                packet = self._socket.recv(_PACKET_BYTES)
            except OSError:
                packet = b""
            if not packet:
                break
            event = json.loads(packet)
            if event["event"] == "exit":
                self._handle_exit(event)
            else:
                with self._answered:
                    self._answers[event["id"]] = event
                    self._answered.notify_all()
        with self._answered:
            self._lost = True
            self._answered.notify_all()
        with self._lock:
            running = list(self._running.values())
            self._running.clear()
        for process in running:
            self._watch.remove(process)
            process.lose()

    def _handle_exit(self, event: dict[str, Any]) -> None:
        with self._lock:
            process = self._running.pop(event["pid"], None)
            if process is None:
                self._early[event["pid"]] = event
                return
        self._watch.remove(process)
        process.end(event["code"], event["signal"])

    def __exit__(self, *_: object) -> None:
        self.close()


def _import_path() -> str:
    """Return the folders from which the zygote imports what the judge does."""
    checkout = str(Path(judge.__file__).parent.parent)
    inherited = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    return os.pathsep.join([checkout, *(str(Path(entry).resolve()) for entry in inherited)])


def readable(what: Any, seconds: float) -> bool:
    """Whether there is something to read, or an end, within so many seconds. `select.select` takes
    no descriptor above 1,023, and a server has many."""
    poller = select.poll()
    poller.register(what, select.POLLIN)
    return bool(poller.poll(max(0.0, seconds) * 1000))


def session_folder() -> Path:
    """Make a temporary folder for one session's scratch folders.

    Only its owner can list it, but others can pass through it (mode 0o711): as root, sandboxed
    processes run under another user id and must reach their own folders in it.
    """
    folder = Path(tempfile.mkdtemp(prefix="kernel-kb-session-"))
    folder.chmod(0o711)
    return folder
