"""Finds functions of torch and Python that a candidate has replaced.

References are taken when this module is imported, before anything untrusted is loaded. The answer
is a claim of a process that the candidate shares: a hint for the verdict, never a proof of honesty.
"""

import builtins
import functools
import gc
import importlib
import json
import socket
import time
from collections.abc import Callable
from typing import Any, Final

import torch

# What measures, waits, compares, draws, allocates or copies. Not torch.manual_seed: torch wraps it
# when torch._dynamo is imported, and the judge takes no seed from this process.
_WATCHED: Final = (
    "time.perf_counter",
    "time.perf_counter_ns",
    "time.monotonic",
    "time.time",
    "time.sleep",
    "gc.disable",
    "json.dumps",
    "json.loads",
    "socket.socket.send",
    "socket.socket.sendall",
    "builtins.float",
    "builtins.abs",
    "builtins.min",
    "builtins.max",
    "torch.cuda.synchronize",
    "torch.cuda.current_stream",
    "torch.cuda.default_stream",
    "torch.cuda.stream",
    "torch.cuda.set_stream",
    "torch.cuda.graph",
    "torch.cuda.mem_get_info",
    "torch.cuda.Event.__init__",
    "torch.cuda.Event.__new__",
    "torch.cuda.Event.record",
    "torch.cuda.Event.elapsed_time",
    "torch.cuda.Event.synchronize",
    "torch.cuda.Event.query",
    "torch.cuda.Event.wait",
    "torch.cuda.Stream.record_event",
    "torch.cuda.Stream.synchronize",
    "torch.cuda.Stream.wait_stream",
    "torch.cuda.CUDAGraph.replay",
    "torch.cuda.CUDAGraph.capture_begin",
    "torch.cuda.CUDAGraph.capture_end",
    "torch.allclose",
    "torch.isclose",
    "torch.equal",
    "torch.eq",
    "torch.ne",
    "torch.all",
    "torch.any",
    "torch.isnan",
    "torch.isfinite",
    "torch.testing.assert_close",
    "torch.manual_seed",
    "torch.rand",
    "torch.randn",
    "torch.randint",
    "torch.empty",
    "torch.empty_like",
    "torch.zeros",
    "torch.as_tensor",
    "torch.frombuffer",
    "torch.compile",
    "torch.no_grad",
    "torch.Tensor.__eq__",
    "torch.Tensor.__ne__",
    "torch.Tensor.__sub__",
    "torch.Tensor.allclose",
    "torch.Tensor.equal",
    "torch.Tensor.eq",
    "torch.Tensor.copy_",
    "torch.Tensor.clone",
    "torch.Tensor.detach",
    "torch.Tensor.to",
    "torch.Tensor.view",
    "torch.Tensor.cpu",
    "torch.Tensor.numpy",
    "torch.Tensor.abs",
    "torch.Tensor.max",
    "torch.Tensor.normal_",
    "torch.Tensor.uniform_",
    "torch.nn.Module.__call__",
    "torch.nn.Module._call_impl",
    "torch.nn.Module.load_state_dict",
    "torch.nn.Module.to",
    "torch.profiler.profile",
    "agent.worker.main.main",
    "agent.worker.channel.Channel.send",
    "agent.worker.channel.Channel.receive",
    "agent.worker.events.Timer.time",
    "agent.worker.buffers.OpenBuffers.write",
    "agent.worker.outputs.flatten",
)
_ROOTS: Final = {
    "builtins": builtins,
    "gc": gc,
    "json": json,
    "socket": socket,
    "time": time,
    "torch": torch,
}


def _resolve(path: str) -> Any:
    """Return what a dotted path leads to now; None if it leads nowhere."""
    parts = path.split(".")
    if parts[0] == "agent":
        value: Any = importlib.import_module(".".join(parts[:3]))
        parts = parts[3:]
    else:
        value, parts = _ROOTS[parts[0]], parts[1:]
    for part in parts:
        # Of the class itself: looked up on the class, a method is the same object every time.
        value = getattr(value, part, None)
    return value


def _state(value: Any) -> tuple[Any, ...]:
    """Return what tells a function from a changed one; the parts are compared by identity."""
    function = getattr(value, "__func__", value)
    return (function, *(getattr(function, name, None) for name in ("__code__", "__closure__")))


def remember() -> Callable[[], list[str]]:
    """Take references now; the result names what is no longer the original."""
    originals = {path: _state(_resolve(path)) for path in _WATCHED}
    resolve, state, same = _resolve, _state, _same

    def changed() -> list[str]:
        return [path for path, was in originals.items() if not same(state(resolve(path)), was)]

    return changed


def _same(now: tuple[Any, ...], was: tuple[Any, ...]) -> bool:
    return all(a is b for a, b in zip(now, was, strict=True))


@functools.cache
def patched() -> Callable[[], list[str]]:
    """Return the check against the process's first state; called by the worker at its start."""
    return remember()
