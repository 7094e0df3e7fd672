"""Fold constants into Python functions: a fixed argument is resolved in the text.

This works on syntax trees of kernel files. Unused hooks, disabled options and the code behind them
are removed; the rest computes the same for those arguments.
"""

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

Tree = TypeVar("Tree", bound=ast.AST)
Bindings = dict[str, ast.expr]
"""Parameter → the constant that it always is."""
_COMPARE: Final[dict[type, Callable[[Any, Any], bool]]] = {
    ast.Eq: lambda a, b: a == b, ast.NotEq: lambda a, b: a != b,
    ast.Is: lambda a, b: a is b, ast.IsNot: lambda a, b: a is not b,
    ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
    ast.Gt: lambda a, b: a > b, ast.Lt: lambda a, b: a < b,
}  # fmt: skip
_NOTHING: Final = object()
# Parameters of kernels that take a function of values on their way in or out.
_HOOKS: Final = {"BEFORE": "inputs", "AFTER": "results"}
# Attribute of a statement that a comment stands above.
COMMENT: Final = "comment"


def is_identity(node: ast.stmt) -> bool:
    """Whether a function returns its first argument unchanged."""
    if not isinstance(node, ast.FunctionDef) or not node.args.args:
        return False
    body = [statement for statement in node.body if not is_docstring(statement)]
    return (
        len(body) == 1
        and isinstance(body[0], ast.Return)
        and (isinstance(body[0].value, ast.Name) and body[0].value.id == node.args.args[0].arg)
    )


def is_docstring(node: ast.stmt) -> bool:
    """Whether a statement is a string alone."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def is_constant(node: ast.expr | None, identities: set[str]) -> bool:
    """Whether an expression is a constant that code branches on, or an identity hook."""
    if isinstance(node, ast.Constant):
        return node.value is None or isinstance(node.value, bool | str)
    if isinstance(node, ast.Tuple):
        return not node.elts
    return isinstance(node, ast.Name) and node.id in identities


def fold(function: ast.FunctionDef, bindings: Bindings, identities: set[str]) -> ast.FunctionDef:
    """Return the function without the bound parameters, simplified."""
    assigned = {
        node.id
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    usable = {name: value for name, value in bindings.items() if name not in assigned}
    result = clone_tree(function)
    folder = _Folder(usable, identities)
    result.body = folder.block(result.body)
    _drop_parameters(result, set(usable))
    return result


def clone_tree(node: Tree) -> Tree:
    """Return a deep copy of a syntax tree; `copy.deepcopy` takes five times as long."""
    clone = node.__class__.__new__(node.__class__)
    for name, value in vars(node).items():
        if isinstance(value, ast.expr_context | ast.operator | ast.unaryop | ast.cmpop):
            copy: Any = value
        elif isinstance(value, ast.AST):
            copy = clone_tree(value)
        elif isinstance(value, list):
            copy = [clone_tree(item) if isinstance(item, ast.AST) else item for item in value]
        else:
            copy = value
        setattr(clone, name, copy)
    return clone


def _drop_parameters(function: ast.FunctionDef, names: set[str]) -> None:
    arguments = function.args
    pad = [None] * (len(arguments.args) - len(arguments.defaults))
    remaining = [
        (argument, default)
        for argument, default in zip(arguments.args, [*pad, *arguments.defaults], strict=True)
        if argument.arg not in names
    ]
    arguments.args = [argument for argument, _ in remaining]
    arguments.defaults = [default for _, default in remaining if default is not None]
    if len(arguments.args) != len(pad):
        function.args = arguments


@dataclass(frozen=True, slots=True)
class _Folder(ast.NodeTransformer):
    _bindings: Bindings
    _identities: set[str]

    def block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """The statements that are left of a block; where a hook was called, a comment says so."""
        statements: list[ast.stmt] = []
        comment = None
        for statement in body:
            text, whole = self._hook_of(statement)
            result = self.visit(statement)
            rest = result if isinstance(result, list) else [] if result is None else [result]
            above = comment if whole or text is None else text
            if rest and above is not None:
                setattr(rest[0], COMMENT, above)
                comment = None
            if whole:
                comment = text
            statements += rest
            if statements and isinstance(statements[-1], ast.Return | ast.Raise):
                break  # a folded branch that returns: nothing behind it is reached
        return statements

    def _hook_of(self, statement: ast.stmt) -> tuple[str | None, bool]:
        """What to say of a call of a hook that is not given; whether it is all of a statement."""
        if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
            return None, False
        for call in ast.walk(statement.value):
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
                continue
            bound = self._bindings.get(call.func.id)
            if call.func.id not in _HOOKS or not isinstance(bound, ast.Name):
                continue
            value = call.args[0] if isinstance(call.args[0], ast.Name) else statement.targets[0]
            side, name = _HOOKS[call.func.id], value.id
            return (
                f"# Work fused into {side} goes here: {name} = f({name}).",
                statement.value is call,
            )
        return None, False

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if isinstance(node.ctx, ast.Load) and node.id in self._bindings:
            return ast.copy_location(clone_tree(self._bindings[node.id]), node)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        node.body = self.block(node.body)
        return node

    def visit_If(self, node: ast.If) -> Any:
        node.test = self.visit(node.test)
        value = _value(node.test)
        if value is not _NOTHING:
            return self.block(node.body if value else node.orelse)
        node.body = self.block(node.body) or [ast.Pass()]
        node.orelse = self.block(node.orelse)
        return node

    def visit_For(self, node: ast.For) -> Any:
        node.iter = self.visit(node.iter)
        node.body = self.block(node.body) or [ast.Pass()]
        return node

    def visit_Assign(self, node: ast.Assign) -> Any:
        node.value = self.visit(node.value)
        node.targets = [self.visit(target) for target in node.targets]
        target = node.targets[0]
        same = isinstance(target, ast.Name) and isinstance(node.value, ast.Name)
        if same and target.id == node.value.id:  # type: ignore[attr-defined]
            return None
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        test = self.visit(node.test)
        value = _value(test)
        if value is not _NOTHING:
            branch: ast.expr = self.visit(node.body if value else node.orelse)
            return branch
        node.test, node.body, node.orelse = test, self.visit(node.body), self.visit(node.orelse)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        if len(node.ops) != 1:
            return node
        left, right = _value(node.left), _value(node.comparators[0])
        hooks = self._hooks(node)
        if hooks is not None:
            return ast.copy_location(ast.Constant(hooks), node)
        compare = _COMPARE.get(type(node.ops[0]))
        if compare is None or left is _NOTHING or right is _NOTHING:
            return node
        return ast.copy_location(ast.Constant(compare(left, right)), node)

    def _hooks(self, node: ast.Compare) -> bool | None:
        """`after is _unchanged`, once both are names."""
        one, two = node.left, node.comparators[0]
        names = isinstance(one, ast.Name) and isinstance(two, ast.Name)
        if not names or not {one.id, two.id} <= self._identities:  # type: ignore[attr-defined]
            return None
        equal: bool = one.id == two.id  # type: ignore[attr-defined]
        match node.ops[0]:
            case ast.Is() | ast.Eq():
                return equal
            case ast.IsNot() | ast.NotEq():
                return not equal
        return None

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        stops = isinstance(node.op, ast.Or)
        operands: list[ast.expr] = []
        for place, operand in enumerate(node.values):
            value = _value(operand)
            last = place == len(node.values) - 1
            if value is _NOTHING:
                operands.append(operand)
            elif bool(value) is stops:
                # What decides it goes alone, unless something before it has to be done.
                calls = any(isinstance(n, ast.Call) for other in operands for n in ast.walk(other))
                operands = [*operands, operand] if calls else [operand]
                break
            elif last and (not operands or not isinstance(value, bool)):
                operands.append(operand)  # `x or 0` is not `x`
        if len(operands) == 1:
            return operands[0]
        node.values = operands
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        value = _value(node.operand)
        if isinstance(node.op, ast.Not) and value is not _NOTHING:
            return ast.copy_location(ast.Constant(not value), node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        hook = isinstance(node.func, ast.Name) and node.func.id in self._identities
        return node.args[0] if hook and node.args else _dict_lookup(node) or node

    def visit_ListComp(self, node: ast.ListComp) -> ast.expr:
        self.generic_visit(node)
        generator = node.generators[0]
        source = generator.iter
        plain = (
            len(node.generators) == 1
            and isinstance(source, ast.Tuple | ast.List)
            and isinstance(generator.target, ast.Name)
            and isinstance(node.elt, ast.Name)
            and node.elt.id == generator.target.id
            and all(_value(element) is None for element in source.elts)
            and any(isinstance(test, ast.Compare) for test in generator.ifs)
        )
        # `[each for each in (None, None) if each is not None]`
        return ast.copy_location(ast.List([], ast.Load()), node) if plain else node


def _dict_lookup(call: ast.Call) -> ast.expr | None:
    """What `{"max": a, "min": b}.get(name, c)` gives for a constant name."""
    function = call.func
    if not isinstance(function, ast.Attribute) or not isinstance(function.value, ast.Dict):
        return None
    table = function.value
    keys = [_NOTHING if key is None else _value(key) for key in table.keys]
    if function.attr != "get" or len(call.args) != 2 or _NOTHING in keys:
        return None
    name = _value(call.args[0])
    if name is _NOTHING:
        return None
    return table.values[keys.index(name)] if name in keys else call.args[1]


def _value(node: ast.expr) -> Any:
    """The value of a constant expression; `_NOTHING` if it is none."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Tuple | ast.List):
        values = [_value(element) for element in node.elts]
        return _NOTHING if _NOTHING in values else tuple(values)
    return _NOTHING
