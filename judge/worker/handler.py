"""What a worker does for each command."""

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import torch

from judge.sandbox.environment import INTERPRET
from judge.worker import flops, graph, inputs
from judge.worker import messages as m
from judge.worker.bench_sources import SourceBench, Task
from judge.worker.buffers import OpenBuffers, synchronize
from judge.worker.contender import load_kernel, load_model, warm_up
from judge.worker.events import Run, Timer
from judge.worker.interpreted import Watch
from judge.worker.observe import Observer
from judge.worker.oracle import Oracle
from judge.worker.outputs import flatten, output_specs
from judge.worker.poison import poisoned
from judge.worker.problem import LoadedProblem
from judge.worker.values import decode

# Calls whose outputs are held; the judge drops them, this only stops a mistake.
_MOST_HELD: Final = 64


class NotReadyError(Exception):
    """A command came before the one that it needs."""


class Handler:
    """The state of one worker, and a method `_do_NAME` for every command."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._buffers = OpenBuffers()
        self._problem: LoadedProblem | None = None
        self._loading: m.LoadProblem | None = None
        self._oracle: Oracle | None = None
        self._run: Run | None = None
        self._timer: Timer | None = None
        self._observer: Observer | None = None
        self._bench = SourceBench(folder)
        self._device = torch.device("cpu")
        self._outputs_by_call: dict[int, list[Any]] = {}
        self._calls = 0
        self._clock = time.perf_counter
        self._watch = Watch() if os.environ.get(INTERPRET) == "1" else None
        # Taken now: what untrusted code does to the class later changes nothing.
        self._methods: dict[str, Callable[[Any], m.Reply | None]] = {
            name.removeprefix("_do_"): getattr(self, name)
            for name in dir(self)
            if name.startswith("_do_")
        }

    def do(self, command: m.AnyCommand, descriptors: list[int]) -> m.Reply:
        """Carry out one command; whatever the untrusted code raises passes through."""
        if isinstance(command, m.Open):
            self._buffers.open(command.buffers, descriptors)
            return m.Done()
        return self._methods[command.do](command) or m.Done()

    # Buffers

    def _do_close(self, command: m.Close) -> None:
        self._wait()
        self._buffers.close(command.names)

    # The problem

    def _do_load_problem(self, command: m.LoadProblem) -> m.Reply:
        self._prepare(command.device, command.precision)
        self._loading = command
        return self._execute_problem(command)

    def _do_use_variant(self, command: m.UseVariant) -> m.Reply:
        if self._loading is None:
            raise NotReadyError("no problem is loaded")
        changes = {"source": command.source, "seed": command.seed}
        carried = self._oracle.carried if self._oracle is not None else None
        return self._execute_problem(self._loading.model_copy(update=changes), carried)

    def _execute_problem(self, command: m.LoadProblem, carried: list[str] | None = None) -> m.Reply:
        self._problem = self._oracle = self._run = None
        self._forget()
        self._problem = LoadedProblem(command, self._folder)
        self._oracle = Oracle(self._problem, carried)
        return self._problem.describe()

    def _do_describe_inputs(self, command: m.DescribeInputs) -> m.Reply:
        return m.Inputs(inputs=inputs.describe(self._the_problem(), command.seed))

    def _do_make_inputs(self, command: m.MakeInputs) -> None:
        problem = self._the_problem()
        inputs.make(problem, command.seed, command.kind, command.into, self._buffers)
        self._wait()

    def _do_export_parameters(self, command: m.ExportParameters) -> None:
        tensors = [tensor for _, tensor in self._the_problem().tensors()]
        self._write(tensors, command.into)

    def _do_oracle(self, command: m.Oracle) -> m.Reply:
        self._the_problem()
        assert self._oracle is not None
        reply = self._oracle.run(command, self._arguments(command.inputs), self._buffers)
        self._wait()
        return reply

    def _do_flops(self, command: m.Flops) -> m.Reply:
        return flops.count(self._the_problem(), command.seed)

    def _do_export_graph(self, command: m.ExportGraph) -> m.Reply:
        return graph.export(command, self._folder)

    # The contender

    def _do_contender(self, command: m.Contender) -> None:
        self._forget()
        problem = self._the_problem()
        warm_up(command.form, self._device)
        self._run = load_model(problem.model, command.form, problem.dtype)

    def _do_load_kernel(self, command: m.LoadKernel) -> m.Reply:
        observer = self._prepare(command.device, command.precision)
        self._forget()
        self._run = None
        self._run = load_kernel(command, self._tensors(command), self._folder)
        self._wait()
        return m.Kernel(observed=observer.glance([]))

    def _do_call(self, command: m.Call) -> m.Reply:
        run, arguments = self._the_contender(), self._arguments(command.inputs)
        if len(self._outputs_by_call) >= _MOST_HELD:
            raise NotReadyError(f"the outputs of {_MOST_HELD} calls are held: drop some")
        assert self._observer is not None
        watch, fields = self._watch, dict[str, Any]()
        self._wait()
        with contextlib.ExitStack() as stack:
            if command.poison:
                stack.enter_context(poisoned(self._device))
            hidden = None
            if watch is not None:
                if command.hide:
                    hidden = stack.enter_context(watch.hidden(arguments))
                watch.begin(command.most_accesses)
            start = self._clock()
            if command.observe:
                returned, log = self._observer.watch(lambda: run(*arguments))
            else:
                returned, log = run(*arguments), None
        self._wait()
        seconds = self._clock() - start
        tensors = flatten(returned)
        if watch is not None:
            fields |= watch.counts()
        if hidden is not None:
            fields |= {"outside": hidden.outside, "computed": sorted(hidden.computed)[:20]}
        if log is not None:
            observed = self._observer.glance([*log.pop("notes"), *(watch.notes if watch else [])])
            fields["observed"] = observed.model_copy(update=log)
        self._calls += 1
        self._outputs_by_call[self._calls] = tensors
        return m.Called(call=self._calls, outputs=output_specs(tensors), seconds=seconds, **fields)

    def _do_fetch(self, command: m.Fetch) -> None:
        if command.launch is not None:
            outputs = self._timer.outputs if self._timer is not None else []
            if not 0 <= command.launch < len(outputs):
                raise NotReadyError(f"launch {command.launch} is not held")
            tensors = flatten(outputs[command.launch])
        elif command.call in self._outputs_by_call:
            tensors = self._outputs_by_call[command.call]
        else:
            raise NotReadyError(f"call {command.call} is not held")
        self._write(tensors, command.into)

    def _do_drop(self, command: m.Drop) -> None:
        for call in command.calls:
            self._outputs_by_call.pop(call, None)
        if command.launches and self._timer is not None:
            self._timer.outputs = []

    def _do_time(self, command: m.Time) -> m.Reply:
        run, timer = self._the_contender(), self._the_timer()
        if (highest := max(command.order)) >= len(command.sets) or min(command.order) < 0:
            raise NotReadyError(f"there is no input set {highest}")
        ms = timer.time(
            run,
            [self._arguments(set_) for set_ in command.sets],
            command.order,
            command.method,
            hold_cycles=command.hold_cycles,
            per_replay=command.per_replay,
            keep=command.keep,
            copy_outputs=command.copy_outputs,
        )
        self._wait()
        outputs = output_specs(flatten(timer.outputs[0])) if timer.outputs else []
        return m.Times(ms=ms, kept=len(timer.outputs), outputs=outputs)

    def _do_bench_sources(self, command: m.BenchSources) -> m.Reply:
        kernel = command.kernel
        self._prepare(kernel.device, kernel.precision)
        self._forget()
        sets = [self._arguments(set_) for set_ in command.sets]
        task = Task(command, self._tensors(kernel), sets, self._the_timer(), self._wait)
        return self._bench.run(task)

    def _do_probe(self, command: m.Probe) -> m.Reply:
        why_not = self._the_timer().probe(self._the_contender(), self._arguments(command.inputs))
        return m.Capturable(capturable=why_not is None, reason=m.one_line(why_not or ""))

    # What several need

    def _prepare(self, device: str, precision: m.Precision) -> Observer:
        """Make, before untrusted code is loaded, what holds references to the originals."""
        self._device = torch.device(device)
        if self._device.type == "cuda":
            torch.cuda.set_device(self._device)
            torch.cuda.init()
        if self._timer is None or self._observer is None:
            self._timer = Timer(device)
            self._observer = Observer(device, precision)
        return self._observer

    def _the_problem(self) -> LoadedProblem:
        if self._problem is None:
            raise NotReadyError("no problem is loaded")
        return self._problem

    def _the_contender(self) -> Run:
        if self._run is None:
            raise NotReadyError("no contender is loaded")
        return self._run

    def _the_timer(self) -> Timer:
        if self._timer is None:
            raise NotReadyError("no contender is loaded")
        return self._timer

    def _tensors(self, command: m.LoadKernel) -> dict[str, Any]:
        pairs = zip(command.parameters, command.buffers, strict=True)
        return {parameter.name: self._buffers[buffer] for parameter, buffer in pairs}

    def _arguments(self, arguments: Sequence[m.Argument]) -> list[Any]:
        return [
            self._buffers[arg.buffer] if isinstance(arg, m.BufferArgument) else decode(arg.value)
            for arg in arguments
        ]

    def _write(self, tensors: list[Any], into: m.Into) -> None:
        if len(tensors) != len(into):
            raise NotReadyError(f"there are {len(tensors)} tensors for {len(into)} buffers")
        for tensor, name in zip(tensors, into, strict=True):
            if name is not None:
                self._buffers.write(name, tensor)
        self._wait()

    def _wait(self) -> None:
        synchronize(self._device)

    def _forget(self) -> None:
        self._outputs_by_call.clear()
        if self._timer is not None:
            self._timer.forget()
