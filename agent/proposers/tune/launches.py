"""Where a file launches its Triton kernels, and which literals the arguments come from."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from agent.proposers.tune.kernel_facts import KernelFacts, all_parameters, callee, kernel_facts
from judge.problem.syntax import assignment, named_values
from kb.pasted.source_triton import is_jit

# Names may be defined in terms of each other.
_DEPTH: Final = 8
OPTIONS: Final = ("num_warps", "num_stages", "num_ctas")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True, eq=False)
class Launch:
    """One `kernel[grid](...)`."""

    call: ast.Call
    grid: ast.expr
    """What is in the brackets."""
    kernel: KernelFacts | None
    """None where the kernel is not in this file."""
    function: Function | None
    """The function that contains it."""
    arguments: dict[str, ast.expr]
    """By the kernel's parameter; defaults of the kernel's signature where nothing is passed."""
    options: dict[str, ast.expr]
    """`num_warps` and the like, as far as they are given."""
    complete: bool
    """False: something is unpacked that cannot be followed."""
    autotuned: bool
    """A decorator chooses what is not passed."""


class Module:
    """A parsed file: its kernels, launches, and what its names stand for."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self._assigned: dict[ast.AST, dict[str, list[ast.expr]]] = {}
        self.parents = {
            child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)
        }
        # All nodes below the module, in the same order.
        self.kernels = {
            node.name: kernel_facts(node)
            for node in self.parents
            if isinstance(node, ast.FunctionDef) and is_jit(node)
        }
        self.launches = [
            self._launch(node, func)
            for node in self.parents
            if isinstance(node, ast.Call) and isinstance(func := node.func, ast.Subscript)
            if self._kernel(func) or any(keyword.arg in OPTIONS for keyword in node.keywords)
        ]

    def function_of(self, node: ast.AST) -> Function | None:
        """The innermost function around a node; a lambda is none."""
        above = self.parents.get(node)
        while above is not None and not isinstance(above, Function):
            above = self.parents.get(above)
        return above

    def literals(self, node: ast.expr, depth: int = _DEPTH) -> list[ast.Constant]:
        """Integer literals that an expression can be, through names, `min` and `if`."""
        if depth == 0:
            return []
        match node:
            case ast.Constant(value=bool()):
                return []
            case ast.Constant(value=int()):
                return [node]
            case ast.Name():
                inner: Sequence[ast.expr] = self.values(node)
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                inner = self._attribute(node, name)
            case ast.IfExp(body=body, orelse=orelse):
                inner = (body, orelse)
            case ast.Call() if callee(node) in {"min", "constexpr"}:
                # `max(16, …)` is a least size that something needs, and no choice.
                inner = node.args
            case ast.Subscript(value=ast.Name() as base, slice=ast.Constant(value=str(key))):
                entries = [self._entries(value) for value in self.values(base)]
                inner = [entry[key] for entry in entries if entry and key in entry]
            case _:
                return []
        literals = [literal for part in inner for literal in self.literals(part, depth - 1)]
        return list(dict.fromkeys(literals))

    def values(self, name: ast.Name) -> list[ast.expr]:
        """What a name is assigned where it is seen from, its default as a parameter included."""
        function = self.function_of(name)
        while function is not None:
            values = list(self._bindings_of(function).get(name.id, ()))
            values += [value for target, value in defaults(function) if target == name.id]
            if values or any(a.arg == name.id for a in all_parameters(function)):
                return values
            function = self.function_of(function)
        return list(self._bindings_of(self.tree).get(name.id, ()))

    def _bindings_of(self, scope: ast.AST) -> dict[str, list[ast.expr]]:
        """What each name is assigned in a function or module, which is read once."""
        if scope not in self._assigned:
            bindings: dict[str, list[ast.expr]] = {}
            for target, value in _bindings(scope):
                bindings.setdefault(target, []).append(value)
            self._assigned[scope] = bindings
        return self._assigned[scope]

    def resolve(self, node: ast.expr) -> ast.expr:
        """The one expression that a name stands for; the node itself where there is not one."""
        values = self.values(node) if isinstance(node, ast.Name) else []
        return values[0] if len(values) == 1 else node

    def _attribute(self, node: ast.AST, name: str) -> list[ast.expr]:
        above: ast.AST | None = node
        while above is not None and not isinstance(above, ast.ClassDef):
            above = self.parents.get(above)
        values: list[ast.expr] = []
        for child in ast.walk(above) if above is not None else ():
            match child:
                case ast.Assign(
                    targets=[ast.Attribute(value=ast.Name(id="self"), attr=attribute)], value=value
                ) if attribute == name:
                    values.append(value)
                case ast.Assign(targets=[ast.Name(id=attribute)], value=value) if (
                    attribute == name and self.parents.get(child) is above
                ):
                    values.append(value)
        return values

    def _entries(self, node: ast.expr) -> dict[str, ast.expr] | None:
        """`{"a": 1}` or `dict(a=1)` by key."""
        match node:
            case ast.Dict(keys=keys, values=values):
                return {
                    key.value: value
                    for key, value in zip(keys, values, strict=True)
                    if isinstance(key, ast.Constant) and isinstance(key.value, str)
                }
            case ast.Call(func=ast.Name(id="dict"), args=[], keywords=keywords):
                return {keyword.arg: keyword.value for keyword in keywords if keyword.arg}
        return None

    def _kernel(self, func: ast.Subscript) -> KernelFacts | None:
        return self.kernels.get(func.value.id) if isinstance(func.value, ast.Name) else None

    def _launch(self, call: ast.Call, func: ast.Subscript) -> Launch:
        kernel = self._kernel(func)
        kwargs, complete = self._keywords(call)
        arguments: dict[str, ast.expr] = {}
        autotuned = False
        if kernel is not None:
            autotuned = any(
                "autotune" in ast.dump(decorator) for decorator in kernel.node.decorator_list
            )
            names = [parameter.arg for parameter in all_parameters(kernel.node)]
            arguments = dict(defaults(kernel.node))
            for position, argument in enumerate(call.args):
                if isinstance(argument, ast.Starred):
                    free = [n for n in names[position:] if n not in kwargs and n not in arguments]
                    arguments |= _after_starred(call.args[position:], free)
                    break
                if position < len(names):
                    arguments[names[position]] = argument
        arguments |= {name: value for name, value in kwargs.items() if name not in OPTIONS}
        options = {name: value for name, value in kwargs.items() if name in OPTIONS}
        return Launch(
            call=call,
            grid=func.slice,
            kernel=kernel,
            function=self.function_of(call),
            arguments=arguments,
            options=options,
            complete=complete,
            autotuned=autotuned,
        )

    def _keywords(self, call: ast.Call) -> tuple[dict[str, ast.expr], bool]:
        kwargs: dict[str, ast.expr] = {}
        complete = True
        for keyword in call.keywords:
            if keyword.arg:
                kwargs[keyword.arg] = keyword.value
                continue
            entries = self._entries(self.resolve(keyword.value))
            complete = complete and entries is not None
            kwargs |= entries or {}
        return kwargs, complete


def _after_starred(rest: Sequence[ast.expr], free: Sequence[str]) -> dict[str, ast.expr]:
    """What follows the last `*something` fills the last parameters that no keyword fills."""
    last = max(i for i, arg in enumerate(rest) if isinstance(arg, ast.Starred))
    plain = rest[last + 1 :]
    return dict(zip(free[-len(plain) :], plain, strict=False)) if plain else {}


def number(literal: ast.Constant) -> int:
    """The value of an integer literal.

    Raises
    ------
    TypeError
        It is another literal.
    """
    if type(literal.value) is not int:
        raise TypeError(f"{literal.value!r} is no integer")
    return literal.value


def defaults(function: Function) -> Iterator[tuple[str, ast.expr]]:
    """Parameters that have a default, and it."""
    args = function.args
    by_position = [*args.posonlyargs, *args.args]
    if args.defaults:
        for argument, default in zip(
            by_position[-len(args.defaults) :], args.defaults, strict=True
        ):
            yield argument.arg, default
    for argument, keyword in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        if keyword is not None:
            yield argument.arg, keyword


def _bindings(scope: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Assignments of a function or module, those of functions and classes inside left out."""
    for child in ast.iter_child_nodes(scope):
        if isinstance(child, Function | ast.ClassDef | ast.Lambda):
            continue
        if (binding := assignment(child)) is not None:
            targets, value = binding
            for target in targets:
                yield from named_values(target, value)
        yield from _bindings(child)
