"""Runs programs of the profile (the profiler, the compiling process) inside the sandbox."""

import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judge.sandbox.launch import Exit, ExitReason, SandboxError, Zygote, session_folder
from judge.sandbox.layers import Layer, LayerName, missing
from judge.sandbox.policy import GIB, Policy
from judge.sandbox.removal import remove
from judge.sandbox.script import request
from kb.files import read_regular

# ncu saves and restores what a kernel writes between its passes, in host memory if need be.
_MEMORY_BYTES = 64 * GIB
# Until then a program prints what shows that it is under way, where that is known.
_ALIVE_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class ProgramRun:
    """A program that has ended."""

    exit: Exit
    output: str
    """What it printed; head and tail where it was long."""
    layers: tuple[Layer, ...]
    scratch: Path
    """The folder that it could write to."""

    @property
    def timed_out(self) -> bool:
        """Whether it was ended for its time."""
        return self.exit.reason is ExitReason.TIME

    def last_line(self) -> str:
        """Its last line, or how it ended."""
        lines = [line.strip() for line in self.output.splitlines() if line.strip()]
        return lines[-1] if lines else self.exit.describe()


class Programs(AbstractContextManager["Programs"]):
    """Starts programs in the sandbox, each with a folder of its own; a context manager.

    Everything is deleted at the end.

    Parameters
    ----------
    zygote
        What processes fork from; by default one is started and ended with this.
    trust
        False refuses to run files where the layers of the sandbox are not enough for code that
        comes over a network or from a model.
    """

    def __init__(self, zygote: Zygote | None = None, *, trust: bool = True) -> None:
        self._own = zygote is None
        self._zygote = Zygote() if zygote is None else zygote
        self._trust = trust
        self.folder = session_folder()
        self._count = 0

    def write_file(self, name: str, contents: str | bytes) -> Path:
        """Write a file that programs may be allowed to read; its path."""
        folder = self.folder / "given"
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)  # as root, programs run under another user id
        path = folder / name
        path.write_bytes(contents.encode() if isinstance(contents, str) else contents)
        path.chmod(0o644)
        return path

    def run(
        self,
        arguments: Sequence[str],
        *,
        timeout: float,
        read: Sequence[Path] = (),
        gpu: bool = False,
        without: frozenset[LayerName] = frozenset(),
        environment: dict[str, str] | None = None,
        alive: str | None = None,
    ) -> ProgramRun:
        """Run a program to its end. `{scratch}` in an argument stands for its folder.

        Parameters
        ----------
        timeout
            Seconds after which it is ended.
        read
            Files and folders that it may read besides Python, CUDA and the compilers.
        gpu
            Whether it may use the GPU, and sockets of a loopback of its own (for the profiler).
        without
            Layers of the sandbox that are left out.
        alive
            What it prints once it is under way; without that it is ended earlier.

        Raises
        ------
        judge.sandbox.launch.SandboxError
            If it cannot be started, or must not be.
        """
        # `exec` closes the channel: no descriptor is inherited.
        source = "import os\nos.execvp({arguments}[0], {arguments})\n"
        policy = self._policy(read, environment, gpu=gpu, without=without)
        return self._end(source, arguments, policy, timeout, alive)

    def call(
        self,
        module: str,
        *arguments: str,
        timeout: float,
        read: Sequence[Path] = (),
        environment: dict[str, str] | None = None,
    ) -> ProgramRun:
        """Call `main` of a module of this project in a fork that has torch loaded already.

        `{scratch}` in an argument stands for its folder; the parameters are those of `run`.
        """
        source = f"from {module} import main\nmain(*{{arguments}})\n"
        return self._end(source, arguments, self._policy(read, environment), timeout)

    def _policy(
        self, read: Sequence[Path], environment: dict[str, str] | None, **more: Any
    ) -> Policy:
        self._count += 1
        scratch = self.folder / f"program{self._count}"
        scratch.mkdir()
        return Policy(
            scratch=scratch,
            read=tuple(read),
            loopback=more.get("gpu", False),
            memory_bytes=_MEMORY_BYTES,
            environment={"PYTHONPATH": _installed()} | (environment or {}),
            **more,
        )

    def _end(
        self,
        source: str,
        arguments: Sequence[str],
        policy: Policy,
        timeout: float,
        alive: str | None = None,
    ) -> ProgramRun:
        expanded = [argument.replace("{scratch}", str(policy.scratch)) for argument in arguments]
        with self._zygote.spawn("judge.sandbox.script:main", policy) as process:
            if not self._trust and (lacking := missing(process.layers)):
                raise SandboxError(
                    f"refused to run untrusted code: the sandbox here does not isolate {lacking[0]}"
                )
            process.channel.sendall(request(source.replace("{arguments}", repr(expanded))))
            result = None
            if alive is not None and timeout > _ALIVE_TIMEOUT_S:
                result = process.wait(_ALIVE_TIMEOUT_S)
                timeout = timeout - _ALIVE_TIMEOUT_S if alive in process.output() else 0.0
            result = result or process.wait(timeout) or process.kill(ExitReason.TIME)
            return ProgramRun(result, process.output(), tuple(process.layers), policy.scratch)

    def __exit__(self, *_: object) -> None:
        if self._own:
            self._zygote.close()
        remove(self.folder)


def read_output(path: Path, limit: int) -> bytes | None:
    """Contents of a file that a program left: None unless it is a plain file within `limit`.

    Links are not followed: the program could point them at what only this process may read.
    """
    try:
        return read_regular(path, limit=limit)
    except OSError:
        return None


def _installed() -> str:
    """Folders of installed packages that this process imports from, as PYTHONPATH has them.

    The interpreter finds its own again; others were named to this process by PYTHONPATH.
    """
    folders = [Path(entry) for entry in sys.path if Path(entry).is_absolute()]
    return os.pathsep.join(str(folder) for folder in folders if any(folder.glob("*.dist-info")))


def python_module(module: str, *arguments: str) -> list[str]:
    """The command that runs a module of this project with this interpreter."""
    return [sys.executable, str(Path(__file__).with_name("bootstrap.py")), module, *arguments]
