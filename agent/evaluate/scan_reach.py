"""Which functions of a kernel file a call runs, and which of them are compiled for the GPU."""

import ast
from dataclasses import dataclass, field

from agent.evaluate.scan_names import Names
from agent.problem.syntax import definitions

Function = ast.FunctionDef | ast.AsyncFunctionDef
ENTRIES = ("ModelNew", "kernel_function")
_COMPILERS = frozenset({"jit", "autotune", "heuristics", "kernel"})
_COMPILER_PACKAGES = ("triton", "cutlass", "numba", "tilelang", "helion", "gluon")


@dataclass
class Reach:
    """What calls of the entry points run."""

    functions: list[Function] = field(default_factory=list)
    """Host functions that a call runs; `ModelNew.__init__` is none of them."""
    building: list[Function] = field(default_factory=list)
    """Host functions that `ModelNew.__init__` runs."""
    device: list[Function] = field(default_factory=list)
    """Functions compiled for the GPU, in the whole file."""
    launched: bool = False
    """Whether the host functions name one of `device`."""
    entries: list[Function] = field(default_factory=list)
    """`kernel_function` and `ModelNew.forward`."""


def is_device(function: Function, names: Names) -> bool:
    """Whether a decorator compiles the function for the GPU."""
    for decorator in function.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = names.resolve(called) or ""
        package, last = name.partition(".")[0], name.rpartition(".")[2]
        if last in _COMPILERS and package in _COMPILER_PACKAGES:
            return True
    return False


def reach(module: ast.Module, names: Names) -> Reach:
    """Follow names and `self.method` from the entry points through the file."""
    functions = [node for node in ast.walk(module) if isinstance(node, Function)]
    found = Reach(device=[each for each in functions if is_device(each, names)])
    defined = definitions(module)
    methods = _methods(module)
    found.functions, used = _follow(_roots(found, defined), found.device, defined, methods)
    found.launched = bool(used & {each.name for each in found.device})
    entry = defined.get("ModelNew")
    if isinstance(entry, ast.ClassDef):
        builders: list[ast.AST] = [
            each for each in entry.body if isinstance(each, Function) and each.name == "__init__"
        ]
        found.building, _ = _follow(builders, found.device, defined, methods)
    return found


def _follow(
    waiting: list[ast.AST],
    device: list[Function],
    defined: dict[str, ast.stmt],
    methods: dict[str, list[Function]],
) -> tuple[list[Function], set[str]]:
    """The host functions that `waiting` leads to, and all names used on the way."""
    functions: list[Function] = []
    used: set[str] = set()
    seen: set[int] = set()
    called = {"__init__"}  # which runs when something is built, not when it is called
    while waiting:
        start = waiting.pop()
        if id(start) in seen or start in device:
            continue
        seen.add(id(start))
        if isinstance(start, Function):
            functions.append(start)
        if isinstance(start, ast.ClassDef):  # made or applied: any of its methods may run
            waiting += [each for each in start.body if isinstance(each, Function)]
            continue
        for node in ast.walk(start):
            if isinstance(node, ast.Name):
                if node.id in used:
                    continue
                used.add(node.id)
                target = defined.get(node.id)
                if target is not None and not isinstance(target, ast.Import | ast.ImportFrom):
                    waiting.append(target)
            elif isinstance(node, ast.Attribute) and node.attr not in called:
                called.add(node.attr)
                waiting += methods.get(node.attr, [])
    return functions, used


def _methods(module: ast.Module) -> dict[str, list[Function]]:
    found: dict[str, list[Function]] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.ClassDef):
            for each in node.body:
                if isinstance(each, Function):
                    found.setdefault(each.name, []).append(each)
    return found


def _roots(found: Reach, defined: dict[str, ast.stmt]) -> list[ast.AST]:
    """What a call starts with; `kernel_function` and `forward` are noted as entries."""
    roots: list[ast.AST] = []
    for entry in ENTRIES:
        statement = defined.get(entry)
        if isinstance(statement, ast.ClassDef):
            called = [
                each
                for each in statement.body
                if isinstance(each, Function) and each.name in ("forward", "__call__")
            ]
            found.entries += [each for each in called if each.name == "forward"]
            roots += called
            own = {each.name for each in statement.body if isinstance(each, Function)}
            for base in statement.bases:
                inherited = defined.get(base.id) if isinstance(base, ast.Name) else None
                if isinstance(inherited, ast.ClassDef):
                    roots += [
                        each
                        for each in inherited.body
                        if isinstance(each, Function) and each.name not in own | {"__init__"}
                    ]
        elif statement is not None:
            found.entries += [statement] if isinstance(statement, Function) else []
            roots.append(statement)
    return roots
