"""Times a list of launches inside a worker: CUDA events, replays of a graph, or the clock.

The process is untrusted once a candidate is loaded, so the times are claims; the judge holds them
against its own clock (`judge.evaluate.wall`). Still, `Timer` is made before anything is loaded and
keeps its own references, so that replacing `torch.cuda.Event.elapsed_time` and the like changes
nothing here.
"""

import contextlib
import gc
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import torch

from judge.worker.outputs import flatten

Run = Callable[..., Any]
"""Launches the contender once: called with one set's inputs, returns its outputs."""

Sets = Sequence[Sequence[Any]]
"""Inputs of launches; tensors are on the device."""

_Keep = Callable[[Any, Any], Any]
"""Makes of outputs and their stream what is held."""

_CapturedGraph = tuple[Any, list[Any]]
"""A graph and the outputs that its launches write."""

# Runs before a capture, on the stream it is prepared on: the first compiles and tunes, the second
# allocates what a tuned run needs, the third shows that nothing is left to set up.
_WARM_UPS: Final = 3


class Timer:
    """Times launches of one contender, and holds their outputs and its graph.

    Parameters
    ----------
    device
        "cuda:N" or "cpu".
    clock
        Seconds from any start; used by method "clock".
    """

    def __init__(self, device: str, clock: Callable[[], float] = time.perf_counter) -> None:
        self.outputs: list[Any] = []
        """Outputs of launches 0, 1, …, as the contender returned them."""
        self._cuda = torch.device(device).type == "cuda"
        self._clock = clock
        self._gc_functions = (gc.isenabled, gc.disable, gc.enable)
        self._graph: _CapturedGraph | None = None
        self._graph_key: list[Any] = []
        if self._cuda:
            self._functions = _CudaFunctions(torch.device(device))

    def time(
        self,
        run: Run,
        sets: Sets,
        order: Sequence[int],
        method: str,
        *,
        hold_cycles: int = 0,
        per_replay: int = 1,
        keep: bool = False,
        copy_outputs: bool = False,
    ) -> list[float]:
        """Launch `run` on `sets[i]` for every i of `order`, and time each launch.

        The parameters are those of `messages.Time`. What was held before is let go first, so that
        its memory can be used again.

        Parameters
        ----------
        method
            "events": launches are queued between two CUDA events each and awaited once, at the end.
            "graph": the first `per_replay` launches are captured in a CUDA graph that is replayed
            `len(order) / per_replay` times. The same call on the same tensors replays it without
            capturing again, so whoever times a graph calls once to capture, changes the contents,
            and calls again. "clock": each launch between two readings of the clock, the device
            awaited.

        Returns
        -------
        list of float
            Milliseconds per launch; with "graph" one figure per replay, divided by its launches.

        Raises
        ------
        ValueError
            The method does not exist on this device, or `order` does not fit.
        CaptureError
            The contender cannot be captured.
        """
        self.outputs = []
        if method == "clock":
            return self._time_by_clock(run, sets, order, keep=keep)
        if not self._cuda:
            raise ValueError(f"method {method!r} needs a CUDA device")
        if method == "events":
            retain = self._functions.copies if copy_outputs else lambda outputs, _: outputs
            return self._time_by_events(run, sets, order, hold_cycles, retain if keep else None)
        if method == "graph":
            return self._time_replays(run, sets, order, hold_cycles, per_replay, keep=keep)
        raise ValueError(f"no method {method!r}: events, graph and clock exist")

    def probe(self, run: Run, inputs: Sequence[Any]) -> str | None:
        """Why one launch cannot be captured in a CUDA graph and replayed; None if it can."""
        if not self._cuda:
            return "there is no CUDA device"
        try:
            self._capture(run, [inputs])
        except CaptureError as error:
            return str(error)
        return None

    def forget(self) -> None:
        """Let go of held outputs and of the graph."""
        self.outputs = []
        self._graph = None

    def _time_by_clock(
        self, run: Run, sets: Sets, order: Sequence[int], *, keep: bool
    ) -> list[float]:
        times = []
        with self._gc_disabled():
            for index in order:
                self._synchronize()
                start = self._clock()
                outputs = run(*sets[index])
                self._synchronize()
                times.append((self._clock() - start) * 1e3)
                if keep:
                    self.outputs.append(outputs)
        return times

    def _time_by_events(
        self, run: Run, sets: Sets, order: Sequence[int], hold: int, keep: _Keep | None = None
    ) -> list[float]:
        cuda = self._functions
        stream = cuda.current_stream(cuda.device)
        pairs = [(cuda.event(), cuda.event()) for _ in order]
        self._synchronize()
        with self._gc_disabled():
            for index, (start, end) in zip(order, pairs, strict=True):
                if hold:
                    cuda.sleep(hold)
                cuda.record(start, stream)
                outputs = run(*sets[index])
                cuda.record(end, stream)
                if keep is not None:
                    self.outputs.append(keep(outputs, stream))
            self._synchronize()
        return [float(cuda.elapsed_time(start, end)) for start, end in pairs]

    def _time_replays(
        self, run: Run, sets: Sets, order: Sequence[int], hold: int, per_replay: int, *, keep: bool
    ) -> list[float]:
        captured_order = list(order[:per_replay])
        replays, remainder = divmod(len(order), per_replay)
        if remainder or captured_order * replays != list(order):
            raise ValueError(f"the order does not repeat every {per_replay} launches")
        launches = [sets[index] for index in captured_order]
        key = [[_identity(value) for value in inputs] for inputs in launches]
        if self._graph is None or self._graph_key != key:
            self._graph = None  # frees its memory for the next one
            self._graph, self._graph_key = self._capture(run, launches), key
        graph, outputs = self._graph
        replay = self._functions.replay
        times = self._time_by_events(replay, [[graph]], [0] * replays, hold)
        if keep:
            self.outputs = list(outputs)
        return [ms / per_replay for ms in times]

    def _capture(self, run: Run, launches: Sets) -> _CapturedGraph:
        """Capture the launches one after another in one graph, and replay it once."""
        cuda = self._functions
        previous = cuda.current_stream(cuda.device)
        graph = cuda.new_graph()
        try:
            side = cuda.new_stream(cuda.device)
            side.wait_stream(previous)
            with cuda.on_stream(side):
                for _ in range(_WARM_UPS):
                    run(*launches[0])
            previous.wait_stream(side)
            self._synchronize()
            # Calls of other threads, such as a pinned allocation by a data loader, are their own
            # business: only this thread's must be capturable.
            with cuda.capture(graph, capture_error_mode="thread_local"):
                outputs = [run(*inputs) for inputs in launches]
            cuda.replay(graph)
            self._synchronize()
        except Exception as error:
            self._recover(previous)
            raise CaptureError(f"{type(error).__name__}: {error}") from None
        return graph, outputs

    def _recover(self, stream: Any) -> None:
        """Leave a failed capture behind.

        torch keeps the capture's stream current, and its random generator believes itself captured
        until a capture ends well and would refuse to draw numbers: so a trivial one follows.
        """
        cuda = self._functions
        cuda.set_stream(stream)
        for _ in range(2):  # the first reports the failed capture once more
            with contextlib.suppress(Exception):
                self._synchronize()
        with contextlib.suppress(Exception):
            graph = cuda.new_graph()
            value = cuda.zeros(1, device=cuda.device)
            with cuda.capture(graph, capture_error_mode="thread_local"):
                value.add_(1)
            self._synchronize()
        cuda.set_stream(stream)

    def _synchronize(self) -> None:
        if self._cuda:
            self._functions.synchronize()  # of the current device, which the worker set

    @contextlib.contextmanager
    def _gc_disabled(self) -> Iterator[None]:
        """No garbage collection meanwhile: it stops the host for milliseconds."""
        enabled, disable, enable = self._gc_functions
        was_enabled = enabled()
        disable()
        try:
            yield
        finally:
            if was_enabled:
                enable()


class CaptureError(RuntimeError):
    """A contender cannot be captured in a CUDA graph; the message says why."""


class _CudaFunctions:
    """References to what timing calls, taken while torch is as it was imported."""

    def __init__(self, device: torch.device) -> None:
        cuda = torch.cuda
        self.device = device
        self.sleep = torch._C._cuda_sleep
        self.record = cuda.Event.record
        self.elapsed_time = cuda.Event.elapsed_time
        self.synchronize = torch._C._cuda_synchronize
        self.current_stream = cuda.current_stream
        self.set_stream = cuda.set_stream
        self.on_stream = cuda.stream
        self.new_stream = cuda.Stream
        self.new_graph = cuda.CUDAGraph
        self.replay = cuda.CUDAGraph.replay
        self.capture = cuda.graph
        self.zeros = torch.zeros
        self._event = cuda.Event
        self._clone = torch.Tensor.clone

    def event(self) -> Any:
        return self._event(enable_timing=True)

    def copies(self, outputs: Any, stream: Any) -> Any:
        """Copies of all tensors in the outputs, made on a stream."""
        with self.on_stream(stream):
            return [self._clone(output) for output in flatten(outputs)]


def _identity(value: Any) -> Any:
    """What a captured launch has baked in: addresses of tensors, everything else by value."""
    if isinstance(value, torch.Tensor):
        return ("tensor", value.data_ptr(), tuple(value.shape), str(value.dtype))
    return repr(value)
