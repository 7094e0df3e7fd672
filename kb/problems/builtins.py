"""Python's own functions as constructors and `forward` methods use them, with bounded results."""

import math
from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Any

from kb.problems.arithmetic import LARGEST, MAX_ITEMS, truth_of
from kb.problems.values import UNKNOWN, Container, Instance, Several, Tensor

if TYPE_CHECKING:
    from kb.problems.recording import Recorder

_NUMBERS: dict[str, Callable[..., Any]] = {
    function.__name__: function for function in (abs, int, float, max, min, round, sum, sorted)
}


def builtin(recorder: "Recorder", name: str, values: list[Any]) -> Any:  # noqa: PLR0911, PLR0912
    """Return what a function of Python gives; `UNKNOWN` where that is not settled."""
    first = values[0] if values else None
    match name:
        case "range":
            bounds = [value for value in values if isinstance(value, int)]
            all_ints = len(bounds) == len(values) and all(abs(bound) <= LARGEST for bound in bounds)
            return list(range(*bounds)[:MAX_ITEMS]) if all_ints and values else UNKNOWN
        case "len":
            if isinstance(first, Tensor):
                return first.shape[0] if first.shape and first.shape[0] is not None else UNKNOWN
            sized = isinstance(first, list | tuple | dict | str | Container)
            known = sized and not isinstance(first, Several)
            return len(recorder.items(first)) if known else UNKNOWN
        case "enumerate":
            start = values[1] if len(values) > 1 and isinstance(values[1], int) else 0
            items = recorder.items(first)
            if isinstance(items, Several):
                return Several([(UNKNOWN, items[0])])
            return list(enumerate(items, start))
        case "zip":
            return _zipped([recorder.items(value) for value in values])
        case "list" | "reversed" | "set" | "tuple" if isinstance(first, Several):
            return first
        case "list" | "reversed" | "set":
            items = recorder.items(first)
            return items[::-1] if name == "reversed" else items
        case "tuple":
            return tuple(recorder.items(first))
        case "dict":
            return dict(first) if isinstance(first, dict) else {}
        case "map":
            return [recorder.call(first, [item], {}) for item in recorder.items(values[1])]
        case "bool":
            truth = truth_of(first)
            return UNKNOWN if truth is None else truth
        case "hasattr" | "getattr":
            return _attribute(recorder, name, values)
        case "setattr":
            if isinstance(first, Instance) and isinstance(values[1], str):
                first.attributes[values[1]] = values[2]
            return None
        case "isinstance":
            return _is_one(first, values[1] if len(values) > 1 else None)
    summed = first if name == "sum" and isinstance(first, list | tuple) else ()
    if any(isinstance(item, Tensor) for item in summed):
        return reduce(lambda total, item: recorder.operate("add", [total, item]), summed)
    if name == "float" and isinstance(first, str):
        return math.inf if first.strip().lower() in {"inf", "+inf", "infinity"} else UNKNOWN
    flat: Any = values if len(values) > 1 or name in {"abs", "int", "float", "round"} else first
    items = list(flat) if isinstance(flat, list | tuple) else [flat]
    if not all(isinstance(item, int | float) for item in items):
        return UNKNOWN
    if name == "int" and isinstance(first, float) and abs(first) > LARGEST:
        return UNKNOWN
    return _NUMBERS[name](*values) if name in _NUMBERS else UNKNOWN


def _zipped(columns: list[list[Any]]) -> list[Any]:
    lengths = [len(column) for column in columns if not isinstance(column, Several)]
    filled = [
        column * min(lengths, default=1) if isinstance(column, Several) else column
        for column in columns
    ]
    rows = list(zip(*filled, strict=False))
    return rows if lengths else Several(rows)


def _attribute(recorder: "Recorder", name: str, values: list[Any]) -> Any:
    owner, key = values[0], values[1]
    is_known = isinstance(owner, Instance) and isinstance(key, str)
    is_set = is_known and (key in owner.attributes or recorder.has_method(owner, key))
    if name == "hasattr":
        return is_set if is_known else UNKNOWN
    if not is_set and len(values) > 2:
        return values[2]
    return recorder.attribute(owner, key) if isinstance(key, str) else UNKNOWN


def _is_one(value: Any, kinds: Any) -> Any:
    paths = [getattr(kind, "path", "") for kind in (kinds if isinstance(kinds, tuple) else [kinds])]
    plain = {"int": int, "float": float, "list": list, "tuple": tuple, "dict": dict, "bool": bool}
    types = tuple(plain[p.rpartition(".")[2]] for p in paths if p.rpartition(".")[2] in plain)
    if isinstance(value, Tensor):
        return any(path.endswith("Tensor") for path in paths)
    if types and isinstance(value, int | float | list | tuple | dict | str | type(None)):
        return isinstance(value, types)
    return UNKNOWN
