"""The short form of a kernel file: what a reader needs to run it, and nothing else.

It is derived from the corpus file's syntax tree and contains kernels, the helpers, constants and
imports they use, and the host function that allocates and launches. References, inputs, tables of
tunables, unused hooks, argument checks and code only for the CPU interpreter are left out. The
result is a file that runs.
"""

import ast
import builtins
import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from kb.context.assuming import FOR_TMA, NOTHING, Assumptions, assume, drop_precision, require
from kb.context.calls import (
    Uses,
    bound_name,
    has_call,
    is_unresolved,
    names_of,
    passed_argument,
    read_names,
    remove_argument,
    uses_in,
)
from kb.context.docstrings import summary
from kb.context.folding import Bindings, clone_tree, fold, is_constant, is_docstring, is_identity
from kb.context.printing import Printer
from kb.parsing import PARSING

ENTRY = "kernel_function"
# Names that a kernel file gives to its checks; recipes leave them behind as well.
CHECKING = frozenset({"reference", "make_inputs", "agrees", "library"})
# What docstrings say of operands whose layout a request may settle.
_STRIDES = re.compile(r",? (?:of )?any strides")
# Bytes of an element whose products ignore the precision asked of float32 ones.
_HALF_BYTES = 2
# A constant that reaches one helper reaches the next in the next pass; files have four levels.
_MAX_PASSES = 6
# A pass folds one argument of each function; kernels have up to ten, and helpers come after them.
_MAX_FOLDS = 24
_WRITES = frozenset({"store", "atomic_add", "atomic_max", "atomic_min", "atomic_cas",
                     "atomic_xchg", "atomic_or", "atomic_and", "debug_barrier",
                     "device_assert", "static_assert", "inline_asm_elementwise"})  # fmt: skip


Options = tuple[tuple[str, str | int | None], ...]
"""Parameters of a host function that a problem settles, with what they always are."""


@dataclass(frozen=True, slots=True)
class ShortForm:
    """A kernel file's short form."""

    code: str
    """With its comments."""
    bare: str
    """Without comments."""


@lru_cache(maxsize=512)
def short_form(
    code: str, options: Options = (), assumed: Assumptions = NOTHING
) -> ShortForm | None:
    """Return the short form of a Triton kernel file, or None if it has no host function.

    Parameters
    ----------
    code
        The file.
    options
        Parameters of `kernel_function` that are always one string, number or None, such as `kind`.
    assumed
        What is known of the tensors: branches for other dtypes, layouts and devices are left out.
    """
    try:
        with PARSING:
            module = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    functions = {node.name: node for node in module.body if isinstance(node, ast.FunctionDef)}
    if ENTRY not in functions:
        return None
    file = _File(module, functions)
    file.settle(assumed)
    file.specialise(dict(options), assumed.present)
    file.trim()
    file.drop_unused()
    body = file.statements()
    return ShortForm(Printer(code, comments=True).text(body), Printer(code).text(body))


class _File:
    def __init__(self, module: ast.Module, functions: dict[str, ast.FunctionDef]) -> None:
        self._module = module
        self._functions = functions
        self._identities = {name for name, node in functions.items() if is_identity(node)}
        self._folded: Bindings = {}
        """Options of the host function that are no parameters any more."""
        self._uses_cache: dict[ast.stmt, Uses] = {}
        """What was found in trees that were not changed since."""

    # Constants

    def settle(self, assumed: Assumptions) -> None:
        """Fold what the request settles about tensors: dtype, layout, sizes, device."""
        if assumed == NOTHING:
            return
        operands = [argument.arg for argument in self._functions[ENTRY].args.args]
        for_tma = self._functions.get(FOR_TMA)
        # A function that is annotated to return a tuple returns pairs.
        pairs = for_tma is not None and isinstance(for_tma.returns, ast.Subscript)
        for name, function in self._functions.items():
            if function.decorator_list:
                if assumed.itemsize == _HALF_BYTES:
                    drop_precision(function)
                continue
            bindings = assume(function, assumed, operands, pairs=pairs)
            self._functions[name] = fold(function, bindings, self._identities)
        entry = self._functions[ENTRY]
        if assumed.transposed and ast.get_docstring(entry) is not None:
            text = str(entry.body[0].value.value)  # type: ignore[attr-defined]
            entry.body[0].value = ast.Constant(_STRIDES.sub("", text))  # type: ignore[attr-defined]

    def specialise(self, options: dict[str, str | int | None], fixed: tuple[str, ...] = ()) -> None:
        """Fold options that are never given, from the host function inwards."""
        entry = self._functions[ENTRY]
        bindings: Bindings = {}
        arguments = entry.args
        defaults = arguments.defaults
        optional = arguments.args[len(arguments.args) - len(defaults) :]
        for argument, default in zip(optional, defaults, strict=True):
            name = argument.arg
            if name in options:
                bindings[name] = ast.Constant(options[name])
            elif self._is_hook(name, default):
                bindings[name] = default
        for name, value in options.items():
            if name not in bindings and any(arg.arg == name for arg in arguments.args):
                bindings[name] = ast.Constant(value)
        if bindings:
            self._functions[ENTRY] = fold(entry, bindings, self._identities)
            params = {argument.arg for argument in self._functions[ENTRY].args.args}
            self._folded = {name: value for name, value in bindings.items() if name not in params}
        require(self._functions[ENTRY], fixed)
        for _ in range(_MAX_FOLDS):
            if not self._propagate():
                break

    def _is_hook(self, name: str, default: ast.expr) -> bool:
        if isinstance(default, ast.Name) and default.id in self._identities:
            return True
        operands = isinstance(default, ast.Tuple) and not default.elts
        return operands or (name == "out_dtype" and isinstance(default, ast.Constant))

    def _propagate(self) -> bool:
        """Fold into helpers and kernels what every caller gives as the same constant."""
        changed = False
        for name, function, calls in self._helpers():
            for place, argument in enumerate(list(function.args.args)):
                values = [passed_argument(call, place, argument.arg, function) for call in calls]
                first = values[0]
                if first is None or not is_constant(first, self._identities):
                    continue
                if any(value is None or ast.dump(value) != ast.dump(first) for value in values):
                    continue
                folded = fold(function, {argument.arg: first}, self._identities)
                if len(folded.args.args) == len(function.args.args) or is_unresolved(folded, first):
                    continue
                for call in calls:
                    remove_argument(call, place, argument.arg)
                self._uses_cache.clear()
                self._functions[name] = folded
                changed = True
                break
        return self.drop_unused() or changed

    def _helpers(self) -> Iterator[tuple[str, ast.FunctionDef, list[ast.Call]]]:
        """Functions that are used by being called alone, and their calls."""
        self._uses_cache.clear()
        reached = self._reachable()
        for name in list(self._functions):
            if name == ENTRY or name not in reached or name in self._identities:
                continue
            callers = [self._functions[other] for other in reached if other in self._functions]
            calls = [call for caller in callers for call in self._uses(caller).calls.get(name, ())]
            if calls and not self._escapes(name, reached):
                yield name, self._functions[name], calls

    def _escapes(self, name: str, reached: set[str]) -> bool:
        """Whether a function is used other than by being called."""
        used = called = 0
        for other in reached:
            node = self._functions.get(other)
            if node is None or other == name:
                continue
            uses = self._uses(node)
            used += uses.names[name]
            called += len(uses.calls.get(name, ()))
        return used != called

    def _uses(self, node: ast.stmt) -> Uses:
        if node not in self._uses_cache:
            self._uses_cache[node] = uses_in(node)
        return self._uses_cache[node]

    def drop_unused(self) -> bool:
        """Take parameters that nothing reads out of functions and of their calls."""
        changed = False
        for name, function, calls in self._helpers():
            names_read = read_names(function.body)
            for place, argument in reversed(list(enumerate(function.args.args))):
                if argument.arg in names_read:
                    continue
                values = [passed_argument(call, place, argument.arg, function) for call in calls]
                if any(value is None or has_call(value) for value in values):
                    continue
                for call in calls:
                    remove_argument(call, place, argument.arg)
                self._uses_cache.clear()
                unused: Bindings = {argument.arg: ast.Constant(None)}
                function = fold(function, unused, set())  # noqa: PLW2901 (the next works on it)
                self._functions[name] = function
                changed = True
        return changed

    # What is left out

    def trim(self) -> None:
        """Drop checks of arguments, work for the CPU interpreter, and what nothing uses then."""
        for name, function in self._functions.items():
            trimmed = clone_tree(function)
            jit = bool(trimmed.decorator_list)
            docstring = trimmed.body[0] if name == ENTRY and is_docstring(trimmed.body[0]) else None
            trimmed.body = [
                statement for statement in trimmed.body if not is_docstring(statement)
            ] or trimmed.body
            if not jit:
                trimmed.body = _strip_checks(trimmed.body)
                trimmed.returns = None
                for argument in (*trimmed.args.args, *trimmed.args.kwonlyargs):
                    argument.annotation = None
            for _ in range(_MAX_PASSES):
                if not _drop_dead(trimmed.body, read_names(trimmed.body), jit):
                    break
            if docstring is not None:
                trimmed.body.insert(0, self._summary(docstring))
            self._functions[name] = trimmed
        # Calls of functions that only checked arguments go.
        empty = {name for name, node in self._functions.items() if not node.body}
        for node in self._functions.values():
            node.body = [s for s in node.body if not _calls_one_of(s, empty)] or [ast.Pass()]

    def _summary(self, docstring: ast.stmt) -> ast.stmt:
        assert isinstance(docstring, ast.Expr) and isinstance(docstring.value, ast.Constant)
        text = summary(str(docstring.value.value), self._folded)
        return ast.copy_location(ast.Expr(ast.Constant(text)), docstring)

    def _reachable(self) -> set[str]:
        """Names of the file that the host function uses, directly or through others."""
        defined = self._definitions()
        waiting, reached = [ENTRY], set[str]()
        while waiting:
            name = waiting.pop()
            if name in reached:
                continue
            reached.add(name)
            node = self._functions.get(name) or defined[name]
            waiting += sorted(self._uses(node).names.keys() & defined.keys() - reached)
        return reached

    def _definitions(self) -> dict[str, ast.stmt]:
        statements: dict[str, ast.stmt] = {}
        for statement in self._module.body:
            for name in names_of(statement):
                statements[name] = self._functions.get(name, statement)
        return statements

    def statements(self) -> list[ast.stmt]:
        """Top-level statements of the short form, in the file's order."""
        reached = self._reachable() - CHECKING
        body: list[ast.stmt] = []
        for statement in self._module.body:
            if isinstance(statement, ast.FunctionDef):
                if statement.name in reached:
                    body.append(self._functions[statement.name])
            elif isinstance(statement, ast.Import | ast.ImportFrom):
                aliases = [a for a in statement.names if bound_name(a) in reached]
                if aliases:
                    import_ = copy.copy(statement)
                    import_.names = aliases
                    body.append(import_)
            elif not is_docstring(statement) and any(n in reached for n in names_of(statement)):
                body.append(statement)
        return body


def _strip_checks(body: list[ast.stmt]) -> list[ast.stmt]:
    statements: list[ast.stmt] = []
    for statement in body:
        if isinstance(statement, ast.If):
            raises = len(statement.body) == 1 and isinstance(statement.body[0], ast.Raise)
            if not statement.orelse and (raises or _for_interpreter(statement.test)):
                continue
            statement.body = _strip_checks(statement.body)
            statement.orelse = _strip_checks(statement.orelse)
            if not statement.body and not statement.orelse:
                continue
            statement.body = statement.body or [ast.Pass()]
        elif isinstance(statement, ast.For):
            statement.body = _strip_checks(statement.body)
            if not statement.body:
                continue
        statements.append(statement)
    return statements


def _for_interpreter(test: ast.expr) -> bool:
    """`… and not x.is_cuda`: only the CPU interpreter comes here."""
    return any(
        isinstance(node, ast.UnaryOp)
        and isinstance(node.op, ast.Not)
        and isinstance(node.operand, ast.Attribute)
        and node.operand.attr == "is_cuda"
        for node in ast.walk(test)
    )


def _drop_dead(body: list[ast.stmt], names_read: set[str], jit: bool) -> bool:
    """Drop assignments of names that nothing reads; True if there were some."""
    changed = False
    for statement in list(body):
        if isinstance(statement, ast.Assign) and len(body) > 1:
            assigned = _assigned(statement.targets[0])
            if assigned and assigned.isdisjoint(names_read) and _pure(statement.value, jit):
                body.remove(statement)
                changed = True
                continue
        for block in ("body", "orelse"):
            inner = getattr(statement, block, None)
            if isinstance(inner, list):
                changed = _drop_dead(inner, names_read, jit) or changed
        empty = (
            isinstance(statement, ast.If)
            and not statement.orelse
            and all(isinstance(child, ast.Pass) for child in statement.body)
        )
        if empty and len(body) > 1:
            body.remove(statement)
            changed = True
    return changed


def _assigned(target: ast.expr) -> set[str]:
    """Names that an assignment gives a value; none where it writes elsewhere."""
    parts = target.elts if isinstance(target, ast.Tuple) else [target]
    names = {part.id for part in parts if isinstance(part, ast.Name)}
    return names if len(names) == len(parts) else set()


def _pure(value: ast.expr, jit: bool) -> bool:
    for node in ast.walk(value):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            plain = isinstance(node.func, ast.Name) and hasattr(builtins, node.func.id)
            if not (jit and name and name not in _WRITES) and not plain:
                return False
    return True


def _calls_one_of(statement: ast.stmt, names: set[str]) -> bool:
    """Whether a statement is a call of one of these functions and nothing else."""
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return False
    function = statement.value.func
    return isinstance(function, ast.Name) and function.id in names
