"""Read a PyTorch module: which operators it applies to which shapes. Nothing is executed.

KernelBench's form (`Model`, `get_inputs`, `get_init_inputs`) gives shapes; another module or a
function is read with unknown ones where the file states none.
"""

import ast
import re
import warnings
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any

from kb.dtypes import full_dtype
from kb.errors import InvalidInputError
from kb.parsing import PARSING
from kb.problems.expressions import ReadingLimitError
from kb.problems.loops import TimeLoop
from kb.problems.recording import Recorder
from kb.problems.values import (
    UNKNOWN,
    Class,
    Function,
    Instance,
    Library,
    Operator,
    Scope,
    Tensor,
    tensors_in,
)

MAX_PROBLEM_CHARS = 200_000
# Deeper nesting than this is generated text; Python's own parser gives up near it too.
_MAX_NESTING = 400
_NOT_A_PROBLEM = re.compile(r"@\s*(?:\w+\.)*jit\b|__global__|\bimport\s+triton\b")
_MODULE = re.compile(r"\bclass\s+\w+\s*\(\s*(?:\w+\.)*Module\s*\)\s*:")


@dataclass(slots=True)
class Problem:
    """A module as it was read."""

    name: str
    operators: list[Operator]
    inputs: list[Tensor]
    """In the order of `forward`."""
    outputs: list[Tensor]
    parameters: list[Tensor]
    """Those that operators use, each once."""
    unknown: tuple[str, ...] = ()
    """Operators that the vocabulary lacks."""
    loops: tuple[TimeLoop, ...] = ()
    decided: bool = True
    """Whether what it computes depends on no value: branches are read one way, and loops once."""
    whole: bool = True
    """Whether it was read to its end: limits stop what takes too many steps."""


def is_problem(text: str) -> bool:
    """Whether a text is a PyTorch module and no kernel."""
    return bool(_MODULE.search(text)) and not _NOT_A_PROBLEM.search(text)


def read_problem(text: str, name: str = "problem", dtype: str | None = None) -> Problem:
    """Read a module or a function of PyTorch.

    Parameters
    ----------
    dtype
        Of what is float32 in the text, where the module runs in another, such as bfloat16; `bf16`
        and the like are known.

    Raises
    ------
    InvalidInputError
        It is not Python, is too large or too deeply nested, or holds neither a module nor a
        function. The message begins with `name`.
    """
    tree = parse(text, name)
    recorder = Recorder()
    whole = True
    try:
        scope = recorder.run_module(tree)
    except (ReadingLimitError, RecursionError):
        raise InvalidInputError(
            f"{name}: takes too many steps to read: give the module without generated code"
        ) from None
    target = _target(scope)
    if target is None:
        raise InvalidInputError(
            f"{name}: holds no PyTorch module: give a class with `forward`, or a function"
        )
    inputs: list[Any] = []
    results: Any = None
    try:
        inputs = _inputs(recorder, scope)
        for tensor in tensors_in(inputs):  # before views of them are made
            tensor.origin = "input"
        results = _run(recorder, scope, target, inputs)
    except (ReadingLimitError, RecursionError):
        whole = False
    tensors = [input_ for input_ in inputs if isinstance(input_, Tensor)]
    if not tensors:
        tensors = _tensors_used(recorder.operators, "input")
    problem = Problem(
        name=getattr(target.node, "name", "function"),  # a lambda has none
        operators=recorder.operators,
        inputs=tensors,
        outputs=tensors_in([results]),
        parameters=_tensors_used(recorder.operators, "parameter"),
        unknown=tuple(recorder.unknown),
        loops=tuple(recorder.loops),
        decided=not recorder.undecided,
        whole=whole,
    )
    if dtype is not None:
        _set_dtype(problem, str(full_dtype(dtype)))
    return problem


def _set_dtype(problem: Problem, dtype: str) -> None:
    """Take what is float32 to be of `dtype`."""
    used = (t for op in problem.operators for t in (*op.inputs, *op.outputs))
    for input_ in (*problem.inputs, *problem.parameters, *problem.outputs, *used):
        if input_.dtype == "float32":
            input_.dtype = dtype


def parse(text: str, name: str) -> ast.Module:
    """Return the syntax of a problem.

    Raises
    ------
    InvalidInputError
        It is not Python, is too large or too deeply nested. The message begins with `name`.
    """
    if len(text) > MAX_PROBLEM_CHARS:
        raise InvalidInputError(f"{name}: longer than {MAX_PROBLEM_CHARS:,} characters")
    if _nesting(text) > _MAX_NESTING:
        raise InvalidInputError(f"{name}: nested too deeply to read")
    try:
        with PARSING, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as an invalid escape in a string
            return ast.parse(text)
    except SyntaxError as error:
        raise InvalidInputError(f"{name}:{error.lineno or 1}: not Python: {error.msg}") from error
    except ValueError as error:
        raise InvalidInputError(f"{name}:1: not Python: {error}") from error
    except (RecursionError, MemoryError) as error:
        raise InvalidInputError(f"{name}: nested too deeply to read") from error


def _nesting(text: str) -> int:
    """The deepest nesting of brackets, those in strings and comments included."""
    deepest = depth = 0
    for bracket in re.finditer(r"[()\[\]{}]", text):
        depth = depth + 1 if bracket[0] in "([{" else max(depth - 1, 0)
        deepest = max(deepest, depth)
    return deepest


def _target(scope: Scope) -> Class | Function | None:
    """The class or function that is the problem: `Model`, else the last that stands for all."""
    modules = [v for v in scope.names.values() if isinstance(v, Class) and _is_module(v)]
    if modules:
        named = scope.names.get("Model")
        return named if isinstance(named, Class) and _is_module(named) else modules[-1]
    functions = {k: v for k, v in scope.names.items() if isinstance(v, Function)}
    for name in ("forward", "reference", "kernel_function", "main"):
        if name in functions:
            return functions[name]
    hidden = {"get_inputs", "get_init_inputs", "make_inputs"}
    public = [v for k, v in functions.items() if k not in hidden and not k.startswith("_")]
    return public[-1] if public else None


def _is_module(cls: Class, depth: int = 0) -> bool:
    return depth < 8 and any(
        (isinstance(base, Library) and base.path.rpartition(".")[2] == "Module")
        or (isinstance(base, Class) and _is_module(base, depth + 1))
        for base in cls.bases
    )


def _call(recorder: Recorder, scope: Scope, name: str) -> Any:
    function = scope.names.get(name)
    return recorder.call(function, [], {}) if isinstance(function, Function) else UNKNOWN


def _inputs(recorder: Recorder, scope: Scope) -> list[Any]:
    result = _call(recorder, scope, "get_inputs")
    if isinstance(result, Tensor):
        return [result]
    if isinstance(result, dict):
        return list(result.values())
    return list(result) if isinstance(result, list | tuple) else []


def _run(recorder: Recorder, scope: Scope, target: Class | Function, inputs: list[Any]) -> Any:
    if isinstance(target, Function):
        recorder.recording, recorder.undecided = True, False
        return recorder.call(target, inputs or _placeholders(target, skip=0), {})
    init_args: Any = _call(recorder, scope, "get_init_inputs")
    kwargs: dict[str, Any] = {}
    if isinstance(init_args, dict):
        init_args, kwargs = [], {k: v for k, v in init_args.items() if isinstance(k, str)}
    positional: Any = list(init_args) if isinstance(init_args, list | tuple) else []
    # Also in use: [positional arguments, named arguments].
    if len(positional) == 2 and isinstance(positional[0], list) and isinstance(positional[1], dict):
        kwargs = {k: v for k, v in positional[1].items() if isinstance(k, str)}
        positional = positional[0]
    instance = recorder.call(target, positional, kwargs)
    if not isinstance(instance, Instance):
        return None
    forward = recorder.attribute(instance, "forward")
    if not inputs and isinstance(forward, Function):
        inputs = _placeholders(forward, skip=1)
    recorder.recording, recorder.undecided = True, False
    return recorder.call(forward, inputs, {})


def _placeholders(function: Function, skip: int) -> list[Any]:
    """A tensor of unknown shape for each argument without a default."""
    arguments = function.node.args
    names = [*arguments.posonlyargs, *arguments.args][skip:]
    count = max(len(names) - len(arguments.defaults), 0)
    plain = {"int", "float", "bool", "str"}
    return [
        UNKNOWN if getattr(name.annotation, "id", "") in plain else Tensor(None, origin="input")
        for name in names[:count]
    ]


def _tensors_used(operators: list[Operator], origin: str) -> list[Tensor]:
    """Each once: of views of the same memory all that one of them takes."""
    by_memory = defaultdict[int, dict[tuple[str, ...], Tensor]](dict)
    for tensor in (input_ for op in operators for input_ in op.inputs if input_.origin == origin):
        parts = by_memory[tensor.number]
        largest = parts.setdefault(tensor.part, tensor)
        if (tensor.elements or 0) > (largest.elements or 0):
            parts[tensor.part] = tensor
    return [_union(parts) for parts in by_memory.values()]


def _union(parts: dict[tuple[str, ...], Tensor]) -> Tensor:
    """What parts of one memory hold together; all of it where that is not known."""
    outer = [
        tensor
        for part, tensor in parts.items()
        if not any(part[:n] in parts for n in range(len(part)))
    ]
    first = outer[0]
    if len(outer) == 1 and first.elements is not None:
        return first
    sizes = [tensor.elements for tensor in outer]
    total = sum(size for size in sizes if size is not None)
    memory = first.memory
    elements = memory if None in sizes else total if memory is None else min(total, memory)
    return replace(first, shape=None if elements is None else (elements,), part=())
