"""The judge's handle on its workers: a session of them, and typed commands to each."""

import contextlib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from judge.evaluate.exchange import (
    CommandFailedError,
    Exchange,
    WorkerDiedError,
    WorkerError,
    WorkerTimedOutError,
)
from judge.problem.forms import ModelForm
from judge.sandbox import processes
from judge.sandbox.launch import Sandboxed, Zygote, session_folder
from judge.sandbox.layers import Layer
from judge.sandbox.policy import GIB, Policy
from judge.sandbox.removal import remove
from judge.worker import messages as m

if TYPE_CHECKING:
    from judge.evaluate.buffers import Exported, Exporter, Lent

__all__ = ["CommandFailedError", "Session", "Worker", "WorkerDiedError", "WorkerError",
           "WorkerTimedOutError"]  # fmt: skip

# Shared buffers opened by one message; Linux passes at most 253 descriptors (SCM_MAX_FD).
MAX_DESCRIPTORS: Final = 64

# A worker of a large problem on the CPU; on a GPU it needs a few GiB.
_MOST_MEMORY: Final = 64 * GIB

# Caches of torch.compile and Triton, and libraries that nvcc builds: tens of MB each.
_SCRATCH_BYTES: Final = 2 * GIB

WORKER_ENTRY: Final = "judge.worker.main:main"

# Wall-clock limits in seconds; callers pass their own where they know better.
# Executing a file may build a CUDA extension (nvcc with torch's headers took 100 s once).
LOAD_SECONDS: Final = 300.0
# A first call may compile: torch.compile with max-autotune benchmarks many configurations.
CALL_SECONDS: Final = 600.0
# Everything else moves at most a few GB.
COMMAND_SECONDS: Final = 120.0


class Session(contextlib.AbstractContextManager["Session"]):
    """The sandboxed workers and exported buffers of one evaluation; a context manager.

    Parameters
    ----------
    device
        "cpu" or "cuda:N".
    interpret
        Triton kernels run in its interpreter (device "cpu").
    zygote
        To fork from, left open at the end; None starts one of the session's own.
    """

    def __init__(
        self, device: str, *, interpret: bool = False, zygote: Zygote | None = None
    ) -> None:
        from judge.evaluate.buffers import Exporter  # noqa: PLC0415 (it imports torch)

        self.device = device
        self.layers: list[Layer] = []
        """What holds the workers."""
        # Mapped buffers included. The machine must not run out before the watch sees it.
        available = processes.machine_memory("MemAvailable")
        self._memory_bytes = min(_MOST_MEMORY, available * 3 // 4)
        self._started = 0
        with contextlib.ExitStack() as stack:
            self.folder = session_folder()
            stack.callback(remove, self.folder)
            self._zygote = zygote or stack.enter_context(Zygote(interpret=interpret))
            self.buffers = stack.enter_context(Exporter(device))
            self._stack = stack.pop_all()

    def worker(self, name: str) -> "Worker":
        """Start a sandboxed worker, called `name` in messages.

        Raises
        ------
        judge.sandbox.launch.SandboxError
            It could not be started.
        """
        folder_name = f"{self._started}-{re.sub(r'[^A-Za-z0-9]', '-', name)[:40]}"
        scratch = self.folder / folder_name
        scratch.mkdir()
        policy = Policy(
            scratch=scratch,
            private_scratch=True,
            scratch_bytes=_SCRATCH_BYTES,
            gpu=self.device != "cpu",
            memory_bytes=self._memory_bytes,
        )
        process = self._zygote.spawn(WORKER_ENTRY, policy)
        self.layers = self.layers or process.layers
        worker = Worker(process, name, self.buffers, folder_name)
        self._stack.callback(worker.stop)  # before the buffers are freed
        self._started += 1
        return worker

    def close(self) -> None:
        """Stop the workers, then free the buffers."""
        self._stack.close()

    def __exit__(self, *_: object) -> None:
        self.close()


class Worker(Exchange):
    """One worker process, with a method for each command, and the buffers that the judge lends it.

    After an error other than `CommandFailedError` the process is gone.

    Parameters
    ----------
    exporter
        Where its buffers come from.
    prefix
        Of their names, unlike that of any other worker.
    """

    def __init__(self, process: Sandboxed, name: str, exporter: "Exporter", prefix: str) -> None:
        super().__init__(process, name)
        self._exporter, self._prefix = exporter, prefix
        self._groups: dict[str, tuple[list[m.TensorSpec | None], Lent]] = {}
        self._lend_count = 0
        self._paused = False

    def pause(self) -> bool:
        """Stop the worker's processes until `resume`; False where that is not permitted.

        A worker that waits for its turn in timing must not use the device meanwhile.
        """
        # What is stopped cannot go on by itself; looking at each of its threads takes milliseconds.
        if not (self._paused and self.alive):
            self._paused = self.alive and self.process.pause()
        return self._paused

    def resume(self) -> None:
        """Let a paused worker go on; nothing is asked of it while it is paused."""
        if self._paused:
            self.process.resume()
            self._paused = False

    def lend(self, group: str, specs: Sequence[m.TensorSpec | None]) -> "Lent":
        """Open buffers for `specs`, None where there is no tensor.

        A group keeps its memory as long as the specs stay the same, so that a kernel sees new
        contents at old addresses.
        """
        plain = [None if s is None else m.TensorSpec(shape=s.shape, dtype=s.dtype) for s in specs]
        existing = self._groups.get(group)
        if existing is not None and existing[0] == plain:
            return existing[1]
        self.take_back(group)
        self._lend_count += 1
        lent: Lent = []
        # Kept before it is complete: what was allocated is freed if the rest cannot be had.
        self._groups[group] = (plain, lent)
        for index, spec in enumerate(plain):
            name = f"{self._prefix}.{group}.{self._lend_count}.{index}"
            lent.append(None if spec is None else self._exporter.allocate(name, spec))
        self.open([buffer for buffer in lent if buffer is not None])
        return lent

    def take_back(self, *groups: str) -> None:
        """Free groups; their tensors must not be used again."""
        for group in groups:
            _, lent = self._groups.pop(group, ([], []))
            names = [buffer.name for buffer in lent if buffer is not None]
            if names and self.alive:
                with contextlib.suppress(WorkerError):
                    self.close_buffers(names)
            self._exporter.free(names)

    def open(self, buffers: Sequence["Exported"]) -> None:
        """Let the worker map the judge's buffers."""
        for start in range(0, len(buffers), MAX_DESCRIPTORS):
            batch = buffers[start : start + MAX_DESCRIPTORS]
            shared = [exported.descriptor for exported in batch if exported.descriptor is not None]
            command = m.Open(buffers=[exported.buffer for exported in batch])
            self.ask(command, m.Done, COMMAND_SECONDS, shared)

    def close_buffers(self, names: Sequence[str]) -> None:
        """Make the worker unmap buffers; do this before freeing them."""
        self.ask(m.Close(names=list(names)), m.Done, COMMAND_SECONDS)

    def load_problem(self, command: m.LoadProblem) -> m.Problem:
        """Execute a problem file and build its model."""
        return self.ask(command, m.Problem, LOAD_SECONDS)

    def use_variant(self, source: str, *, seed: int = 0) -> m.Problem:
        """Execute another text of the same problem (other constants); device and dtype stay."""
        return self.ask(m.UseVariant(source=source, seed=seed), m.Problem, LOAD_SECONDS)

    def describe_inputs(self, seed: int) -> list[m.InputSpec]:
        """Shapes, dtypes and values of what `make_inputs` would write."""
        return self.ask(m.DescribeInputs(seed=seed), m.Inputs, COMMAND_SECONDS).inputs

    def make_inputs(
        self, seed: int, into: Sequence[str | None], kind: m.ValueKind = m.ValueKind.GIVEN
    ) -> None:
        """Write the inputs into open buffers, by position; None for those without a tensor."""
        command = m.MakeInputs(seed=seed, kind=kind, into=list(into))
        self.ask(command, m.Done, COMMAND_SECONDS)

    def export_parameters(self, into: Sequence[str | None]) -> None:
        """Write the model's tensors into open buffers, in the order of `Problem.parameters`."""
        self.ask(m.ExportParameters(into=list(into)), m.Done, COMMAND_SECONDS)

    def oracle(self, command: m.Oracle) -> m.OracleOutputs:
        """Run the model in float64."""
        return self.ask(command, m.OracleOutputs, CALL_SECONDS)

    def contender(self, form: ModelForm) -> None:
        """Make the problem's model what `call` and `time` run."""
        self.ask(m.Contender(form=form), m.Done, COMMAND_SECONDS)

    def load_kernel(self, command: m.LoadKernel) -> m.Kernel:
        """Execute a kernel file and make it what `call` and `time` run."""
        return self.ask(command, m.Kernel, LOAD_SECONDS)

    def call(
        self,
        inputs: Sequence[m.Argument],
        *,
        poison: bool = False,
        observe: bool = False,
        hide: bool = False,
        most_accesses: int | None = None,
        timeout: float = CALL_SECONDS,
    ) -> m.Called:
        """Call the contender once; its outputs are held until `drop`."""
        command = m.Call(
            inputs=list(inputs), poison=poison, observe=observe, hide=hide,
            most_accesses=most_accesses,
        )  # fmt: skip
        return self.ask(command, m.Called, timeout)

    def fetch(
        self, into: Sequence[str | None], *, call: int | None = None, launch: int | None = None
    ) -> None:
        """Copy held outputs of one call or one kept launch into open buffers."""
        self.ask(m.Fetch(call=call, launch=launch, into=list(into)), m.Done, COMMAND_SECONDS)

    def drop(self, calls: Sequence[int] = (), *, launches: bool = False) -> None:
        """Let go of held outputs."""
        self.ask(m.Drop(calls=list(calls), launches=launches), m.Done, COMMAND_SECONDS)

    def time(self, command: m.Time, *, timeout: float = CALL_SECONDS) -> m.Times:
        """Launch and time; `last_seconds` has the judge's own wall clock of it."""
        return self.ask(command, m.Times, timeout)

    def bench_sources(self, command: m.BenchSources, *, timeout: float) -> m.Benched:
        """Compile and time many versions of one kernel; what it says of them are claims."""
        return self.ask(command, m.Benched, timeout)

    def probe(self, inputs: Sequence[m.Argument]) -> m.Capturable:
        """Try to capture the contender in a CUDA graph."""
        return self.ask(m.Probe(inputs=list(inputs)), m.Capturable, CALL_SECONDS)

    def export_graph(self, command: m.ExportGraph) -> m.Graph:
        """Export a problem's model as operators, on fake tensors."""
        return self.ask(command, m.Graph, LOAD_SECONDS)

    def flops(self, seed: int = 0) -> m.Operations:
        """Count the model's floating-point operations without running it."""
        return self.ask(m.Flops(seed=seed), m.Operations, COMMAND_SECONDS)

    def stop(self) -> None:
        """End the worker and free its groups; never raises, may be repeated."""
        self.resume()
        super().stop()
        self.take_back(*self._groups)
