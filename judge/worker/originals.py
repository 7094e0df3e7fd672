"""Finds functions of torch and Python that a candidate has replaced.

References are taken when this module is imported, before anything untrusted is loaded. The answer
is a claim of a process that the candidate shares: a hint for the verdict, never a proof of honesty.
"""

import builtins
import functools
import gc
import json
import socket
import sys
import time
import types
from collections.abc import Callable
from typing import Any, Final

import pydantic
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
    "pydantic.BaseModel.model_dump_json",
    "pydantic.BaseModel.model_validate_json",
)
_OWN: Final = "judge.worker"
_ROOTS: Final = {
    "builtins": builtins,
    "gc": gc,
    "json": json,
    "pydantic": pydantic,
    "socket": socket,
    "time": time,
    "torch": torch,
}


def _resolve(path: str) -> Any:
    """Return what a dotted path leads to now; None if it leads nowhere."""
    root, *parts = path.split(".")
    value: Any = _ROOTS[root]
    for part in parts:
        # Of the class itself: looked up on the class, a method is the same object every time.
        value = getattr(value, part, None)
    return value


def _own_functions() -> dict[str, tuple[dict[str, Any], str]]:
    """Every function of the worker's modules and classes: where it is kept, and its name there."""
    found: dict[str, tuple[dict[str, Any], str]] = {}
    for module_name, module in list(sys.modules.items()):
        if not module_name.startswith(_OWN):
            continue
        classes = {
            name: value
            for name, value in vars(module).items()
            if isinstance(value, type) and value.__module__.startswith(_OWN)
        }
        for place, holder in {"": module, **classes}.items():
            for name, value in vars(holder).items():
                if isinstance(value, types.FunctionType):
                    path = ".".join(filter(None, (module_name, place, name)))
                    found[path] = (vars(holder), name)
    return found


def _state(value: Any) -> tuple[Any, ...]:
    """Return what tells a function from a changed one; the parts are compared by identity."""
    function = getattr(value, "__func__", value)
    return (function, *(getattr(function, name, None) for name in ("__code__", "__closure__")))


def remember() -> Callable[[], list[str]]:
    """Take references now; the result names what is no longer the original."""
    originals = {path: _state(_resolve(path)) for path in _WATCHED}
    own = {path: (place, _state(place[0][place[1]])) for path, place in _own_functions().items()}
    resolve, state, same = _resolve, _state, _same

    def changed() -> list[str]:
        found = [path for path, was in originals.items() if not same(state(resolve(path)), was)]
        found += [
            path
            for path, ((kept, name), was) in own.items()
            if not same(state(kept.get(name)), was)
        ]
        return found

    return changed


def _same(now: tuple[Any, ...], was: tuple[Any, ...]) -> bool:
    return all(a is b for a, b in zip(now, was, strict=True))


@functools.cache
def patched() -> Callable[[], list[str]]:
    """Return the check against the process's first state; called by the worker at its start."""
    return remember()
