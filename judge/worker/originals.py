"""Finds functions of torch and Python that a candidate has replaced.

References are taken when the worker is imported, before anything untrusted is loaded. The answer
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

# What measures, waits, compares, draws, allocates or copies: names by their owner.
_WATCHED: Final = {
    "time": "perf_counter perf_counter_ns monotonic time sleep",
    "gc": "disable",
    "json": "dumps loads",
    "socket.socket": "send sendall",
    "builtins": "float abs min max",
    "torch.cuda": "synchronize current_stream default_stream stream set_stream graph mem_get_info",
    "torch.cuda.Event": "__init__ __new__ record elapsed_time synchronize query wait",
    "torch.cuda.Stream": "record_event synchronize wait_stream",
    "torch.cuda.CUDAGraph": "replay capture_begin capture_end",
    "torch": (
        "allclose isclose equal eq ne all any isnan isfinite testing.assert_close manual_seed rand "
        "randn randint empty empty_like zeros as_tensor frombuffer compile no_grad"
    ),
    "torch.Tensor": (
        "__eq__ __ne__ __sub__ allclose equal eq copy_ clone detach to view cpu numpy abs max "
        "normal_ uniform_"
    ),
    "torch.nn.Module": "__call__ _call_impl load_state_dict to",
    "torch.profiler": "profile",
    "pydantic.BaseModel": "model_dump_json model_validate_json",
}
_OWN: Final = "judge.worker"
_MODULES: Final = (builtins, gc, json, pydantic, socket, time, torch)
_ROOTS: Final = {module.__name__: module for module in _MODULES}


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
    functions: dict[str, tuple[dict[str, Any], str]] = {}
    for module_name, module in list(sys.modules.items()):
        if not module_name.startswith(_OWN):
            continue
        classes = {
            name: value
            for name, value in vars(module).items()
            if isinstance(value, type) and value.__module__.startswith(_OWN)
        }
        for class_name, holder in {"": module, **classes}.items():
            for name, value in vars(holder).items():
                if isinstance(value, types.FunctionType):
                    path = ".".join(filter(None, (module_name, class_name, name)))
                    functions[path] = (vars(holder), name)
    return functions


def _state(value: Any) -> tuple[Any, ...]:
    """Return what tells a function from a changed one; the parts are compared by identity."""
    function = getattr(value, "__func__", value)
    return (function, *(getattr(function, name, None) for name in ("__code__", "__closure__")))


def remember() -> Callable[[], list[str]]:
    """Take references now; the result names what is no longer the original."""
    paths = [f"{owner}.{name}" for owner, names in _WATCHED.items() for name in names.split()]
    originals = {path: _state(_resolve(path)) for path in paths}
    own_functions = {
        path: (owner, name, owner[name], owner[name].__code__)  # a closure cannot be replaced
        for path, (owner, name) in _own_functions().items()
    }
    resolve, state, same = _resolve, _state, _same

    def changed() -> list[str]:
        names = [path for path, old in originals.items() if not same(state(resolve(path)), old)]
        names += [
            path
            for path, (owner, name, function, code) in own_functions.items()
            if function.__code__ is not code or owner.get(name) is not function
        ]
        return names

    return changed


def _same(current: tuple[Any, ...], original: tuple[Any, ...]) -> bool:
    return all(a is b for a, b in zip(current, original, strict=True))


patched = functools.cache(remember)
"""Returns the check against the first state, which `judge.worker.main` asks for when imported."""
