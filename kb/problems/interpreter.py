"""A bounded reading of Python syntax trees: numbers are computed, tensors have shapes.

No code runs.

It covers what constructors and `forward` methods of modules are written in. What it does not settle
becomes `UNKNOWN`; both steps and sizes are limited, so that hostile text costs little.
"""

import ast
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

from kb.problems.arithmetic import truth_of
from kb.problems.expressions import MAX_DEPTH, Expressions, ReadingLimitError
from kb.problems.values import (
    UNKNOWN,
    Class,
    Function,
    Instance,
    Layer,
    Library,
    Scope,
    Several,
    Tensor,
)

# Operators that are recorded; a loop that makes more is not read on, only counted.
MAX_OPERATORS: Final = 4000
# Of what is assigned to parts of a tensor, so many are remembered.
_MAX_STORED: Final = 15
BUILTINS: Final = {
    name: Library(f"builtins.{name}")
    for name in (
        "abs", "bool", "dict", "enumerate", "float", "getattr", "hasattr", "int", "isinstance",
        "len", "list", "map", "max", "min", "range", "reversed", "round", "set", "setattr",
        "sorted", "sum", "tuple", "zip",
    )
}  # fmt: skip


# Statements that leave what comes after them undone.
_EXITS: Final = (ast.Raise, ast.Return, ast.Continue, ast.Break)


class _Return(Exception):
    def __init__(self, value: Any) -> None:
        self.value = value


class _Break(Exception):
    pass


class _Continue(Exception):
    pass


class _Raised(Exception):
    pass


class Interpreter(Expressions):
    """Statements and functions; what calls and operators do is a subclass's."""

    undecided = False
    """Whether a branch or a loop was met whose condition is not known."""

    @property
    def place(self) -> int:
        """How many operators were met so far."""
        return 0

    def record_loop(self, places: Sequence[int]) -> None:
        """Take note of a loop: the place before its first step, and after each."""

    # Statements

    def run(self, body: Iterable[ast.stmt], scope: Scope) -> None:
        """Read statements in order."""
        for statement in body:
            self._step()
            self._statement(statement, scope)

    def _statement(self, node: ast.stmt, scope: Scope) -> None:  # noqa: PLR0912
        match node:
            case ast.Assign(targets=targets, value=value):
                result = self.eval(value, scope)
                for target in targets:
                    self.assign(target, result, scope)
            case ast.AnnAssign(target=target, value=value) if value is not None:
                self.assign(target, self.eval(value, scope), scope)
            case ast.AugAssign(target=target, op=op, value=value):
                old = self.eval(target, scope)
                self.assign(target, self._binary(op, old, self.eval(value, scope)), scope)
            case ast.Expr(value=value):
                self.eval(value, scope)
            case ast.Return(value=value):
                raise _Return(None if value is None else self.eval(value, scope))
            case ast.If(test=test, body=body, orelse=orelse):
                self._branch(self.eval(test, scope), body, orelse, scope)
            case ast.For(target=target, iter=source, body=body, orelse=orelse):
                places = [self.place]
                with suppress(_Break):
                    for item in self.items(self.eval(source, scope)):
                        if self.place < MAX_OPERATORS:
                            self.assign(target, item, scope)
                            with suppress(_Continue):
                                self.run(body, scope)
                        places.append(self.place)
                self.record_loop(places)
                self.run(orelse, scope)
            case ast.While(test=test, body=body):
                self._while(test, body, scope)
            case ast.With(items=items, body=body):
                for item in items:
                    self.eval(item.context_expr, scope)
                self.run(body, scope)
            case ast.Try(body=body, finalbody=final):
                with suppress(_Raised):
                    self.run(body, scope)
                self.run(final, scope)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                scope.names[node.name] = Function(node, scope)
            case ast.ClassDef():
                self._class(node, scope)
            case ast.Import() | ast.ImportFrom():
                _import(node, scope)
            case ast.Raise():
                raise _Raised
            case ast.Break():
                raise _Break
            case ast.Continue():
                raise _Continue

    def _while(self, test: ast.expr, body: list[ast.stmt], scope: Scope) -> None:
        with suppress(_Break):
            while (truth := truth_of(self.eval(test, scope))) is not False:
                with suppress(_Continue):
                    self.run(body, scope)
                if truth is None:  # it depends on values: once stands for all
                    self.undecided = True
                    return

    def _branch(
        self, test: Any, body: list[ast.stmt], orelse: list[ast.stmt], scope: Scope
    ) -> None:
        truth = truth_of(test)
        if truth is not None:
            self.run(body if truth else orelse, scope)
            return
        self.undecided = True
        # What goes on is more likely to be what the module is for.
        leaves = any(isinstance(statement, _EXITS) for statement in body)
        try:
            self.run(orelse if leaves else body, scope)
        except _Raised:
            self.run(orelse, scope)

    def _class(self, node: ast.ClassDef, scope: Scope) -> None:
        cls = Class(node, [self.eval(base, scope) for base in node.bases])
        inner = Scope({}, scope)
        with suppress(_Raised, _Return, _Break, _Continue):
            self.run([statement for statement in node.body if not _is_docstring(statement)], inner)
        cls.names = inner.names
        for name in cls.names.values():
            if isinstance(name, Function):
                name.scope = scope  # methods do not see the names of their class
        scope.names[node.name] = cls

    def assign(self, target: ast.expr, value: Any, scope: Scope) -> None:
        """Bind a target to a value, taking sequences apart."""
        match target:
            case ast.Name(id=name):
                scope.names[name] = value
            case ast.Attribute(value=owner, attr=name):
                object_ = self.eval(owner, scope)
                if isinstance(object_, Instance):
                    object_.attributes[name] = value
                elif isinstance(object_, Layer) and isinstance(value, Tensor):
                    object_.share(name, value)
                elif isinstance(object_, Class):
                    object_.names[name] = value
            case ast.Subscript(value=owner, slice=index):
                collection = self.eval(owner, scope)
                key = self.eval(index, scope)
                if isinstance(collection, Tensor) and isinstance(value, Tensor):
                    collection.stored[:] = [*collection.stored[-_MAX_STORED:], value]
                    if collection.origin == "input" and isinstance(key, Tensor):
                        self.operate("index_put", [collection, key, value])
                elif isinstance(collection, dict | list) and isinstance(key, int | str):
                    with suppress(IndexError):
                        collection[key] = value  # type: ignore[index]
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                self._unpack(targets, value, scope)
            case ast.Starred(value=inner):
                self.assign(inner, value, scope)

    def _unpack(self, targets: list[ast.expr], value: Any, scope: Scope) -> None:
        items = self.items(value) if isinstance(value, list | tuple | Tensor) else []
        if isinstance(items, Several):
            items = items * len(targets)
        starred = next((n for n, t in enumerate(targets) if isinstance(t, ast.Starred)), None)
        if starred is not None and items:
            behind = len(targets) - starred - 1
            middle = items[starred : len(items) - behind]
            items = [*items[:starred], middle, *items[len(items) - behind :]]
        for number, target in enumerate(targets):
            self.assign(target, items[number] if number < len(items) else UNKNOWN, scope)

    def apply(self, function: Function, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Return what a function of the file returns for these arguments."""
        node = function.node
        values = [function.bound, *args] if function.bound is not None else list(args)
        scope = Scope({}, function.scope)
        arguments = node.args
        names = [arg.arg for arg in (*arguments.posonlyargs, *arguments.args)]
        defaults = arguments.defaults
        for name, default in zip(names[len(names) - len(defaults) :], defaults, strict=True):
            scope.names[name] = self.eval(default, function.scope)
        for arg, kw_default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
            if kw_default is not None:
                scope.names[arg.arg] = self.eval(kw_default, function.scope)
        scope.names.update(zip(names, values, strict=False))
        parameters = {*names, *(arg.arg for arg in arguments.kwonlyargs)}
        scope.names.update({key: value for key, value in kwargs.items() if key in parameters})
        if arguments.vararg is not None:
            scope.names[arguments.vararg.arg] = tuple(values[len(names) :])
        if arguments.kwarg is not None:
            rest = {key: value for key, value in kwargs.items() if key not in parameters}
            scope.names[arguments.kwarg.arg] = rest
        for name in names:
            scope.names.setdefault(name, UNKNOWN)
        self._depth += 1
        try:
            if self._depth > MAX_DEPTH:
                raise ReadingLimitError
            if isinstance(node, ast.Lambda):
                return self.eval(node.body, scope)
            self.run(node.body, scope)
        except _Return as returned:
            return returned.value
        except (_Break, _Continue, _Raised):
            return UNKNOWN
        finally:
            self._depth -= 1
        return None

    def run_module(self, module: ast.Module) -> Scope:
        """Read the top level of a file, and return its names."""
        scope = Scope({"__name__": "problem"}, Scope(dict(BUILTINS)))
        for statement in module.body:
            with suppress(_Return, _Break, _Continue, _Raised):
                self.run([statement], scope)
        return scope


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _import(node: ast.Import | ast.ImportFrom, scope: Scope) -> None:
    for alias in node.names:
        if isinstance(node, ast.Import):
            path = alias.name if alias.asname else alias.name.partition(".")[0]
            scope.names[alias.asname or path] = Library(path)
        elif alias.name != "*":
            scope.names[alias.asname or alias.name] = Library(f"{node.module}.{alias.name}")
