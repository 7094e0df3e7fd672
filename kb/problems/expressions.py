"""Expressions of Python as they are read: plain values are computed, tensors have shapes."""

import ast
from typing import Any, Final

from kb.problems.arithmetic import COMPARE, MAX_ITEMS, PLAIN, bounded, truth_of
from kb.problems.values import UNKNOWN, Container, Function, Library, Scope, Several, Tensor

# A network of 120 layers takes some 20,000; a hostile loop stops within 0.2 s.
MAX_STEPS = 120_000
# Items whose copying takes about as long as a step.
# Characters of a formatted string, at most.
_MAX_STRING: Final = 200
_COPIES_PER_STEP = 32
# Of nested calls and expressions together.
MAX_DEPTH = 120

_ON_TENSORS: Final[dict[type, str]] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floor_divide",
    ast.Mod: "remainder", ast.Pow: "pow", ast.MatMult: "matmul", ast.BitAnd: "bitwise_and",
    ast.BitOr: "bitwise_or", ast.BitXor: "bitwise_xor", ast.LShift: "bitwise_left_shift",
    ast.RShift: "bitwise_right_shift", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge",
    ast.Eq: "eq", ast.NotEq: "ne", ast.USub: "neg", ast.Invert: "bitwise_not",
}  # fmt: skip


class ReadingLimitError(Exception):
    """The text takes more steps than a module needs."""


class Expressions:
    """Evaluates expressions; statements, calls, operators and attributes are a subclass's."""

    def __init__(self) -> None:
        self._steps = 0
        self._depth = 0

    # What a subclass gives.
    def call(self, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Return what a call gives."""
        raise NotImplementedError

    def operate(self, name: str, operands: list[Any]) -> Any:
        """Return the result of an operator on operands of which one is a tensor."""
        raise NotImplementedError

    def attribute(self, owner: Any, name: str) -> Any:
        """Return an attribute of a value."""
        raise NotImplementedError

    def take_index(self, tensor: Tensor, index: Any) -> Any:
        """Return a part of a tensor."""
        raise NotImplementedError

    def assign(self, target: ast.expr, value: Any, scope: Scope) -> None:
        """Bind a target to a value."""
        raise NotImplementedError

    def _step(self) -> None:
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise ReadingLimitError

    def items(self, source: Any) -> list[Any]:
        """Return what a loop over a value goes through: one unknown item where it is not known."""
        if isinstance(source, Container):
            return list(source.items)
        if isinstance(source, dict):
            return list(source)[:MAX_ITEMS]
        if isinstance(source, Several):
            self.undecided = True
            return source
        if isinstance(source, list | tuple | str | range):
            # Copies cost time too: a loop that makes many runs out of steps.
            self._steps += len(source) // _COPIES_PER_STEP
            return list(source[:MAX_ITEMS])
        if isinstance(source, Tensor) and source.shape and source.shape[0] is not None:
            return [self.take_index(source, 0) for _ in range(min(source.shape[0], MAX_ITEMS))]
        self.undecided = True
        return Several([self.take_index(source, 0) if isinstance(source, Tensor) else UNKNOWN])

    def eval(self, node: ast.expr, scope: Scope) -> Any:
        """Return what an expression stands for."""
        self._step()
        self._depth += 1
        try:
            if self._depth > MAX_DEPTH:
                raise ReadingLimitError
            return self._expression(node, scope)
        except (ArithmeticError, ValueError, TypeError, LookupError, AttributeError):
            return UNKNOWN  # what Python would refuse as well
        finally:
            self._depth -= 1

    def _expression(self, node: ast.expr, scope: Scope) -> Any:  # noqa: PLR0911, PLR0912
        match node:
            case ast.Constant(value=value):
                return value if isinstance(value, PLAIN) or value is Ellipsis else UNKNOWN
            case ast.Name(id=name):
                return scope.get(name)
            case ast.Attribute(value=owner, attr=name):
                return self.attribute(self.eval(owner, scope), name)
            case ast.Call():
                return self._call(node, scope)
            case ast.BinOp(left=left, op=op, right=right):
                return self._binary(op, self.eval(left, scope), self.eval(right, scope))
            case ast.UnaryOp(op=op, operand=operand):
                return self._unary(op, self.eval(operand, scope))
            case ast.BoolOp(op=op, values=values):
                return self._boolean(op, values, scope)
            case ast.Compare(left=left, ops=ops, comparators=others):
                return self._compare(left, ops, others, scope)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                truth = truth_of(self.eval(test, scope))
                return self.eval(orelse if truth is False else body, scope)
            case ast.Tuple(elts=elts) | ast.Set(elts=elts):
                return tuple(self._elements(elts, scope))
            case ast.List(elts=elts):
                return self._elements(elts, scope)
            case ast.Dict(keys=keys, values=values):
                pairs = [(k, v) for k, v in zip(keys, values, strict=True) if k is not None]
                return {self.eval(key, scope): self.eval(value, scope) for key, value in pairs}
            case ast.Subscript(value=owner, slice=index):
                return self._subscript(self.eval(owner, scope), self.eval(index, scope))
            case ast.Slice(lower=lower, upper=upper, step=step):
                bounds = (None if e is None else self.eval(e, scope) for e in (lower, upper, step))
                return slice(*bounds)
            case ast.ListComp() | ast.GeneratorExp() | ast.SetComp():
                return self._comprehension(node, scope)
            case ast.JoinedStr(values=values):
                return self._format_string([self.eval(part, scope) for part in values])
            case ast.FormattedValue(value=value, conversion=-1, format_spec=None):
                return self.eval(value, scope)
            case ast.Lambda():
                return Function(node, scope)
            case ast.NamedExpr(target=target, value=value):
                result = self.eval(value, scope)
                self.assign(target, result, scope)
                return result
        return UNKNOWN

    def _format_string(self, parts: list[Any]) -> Any:
        """A formatted string, such as the name of an attribute with its number."""
        if not all(isinstance(part, str | int) for part in parts):
            return UNKNOWN
        return "".join(str(part)[:_MAX_STRING] for part in parts[:_MAX_STRING])[:_MAX_STRING]

    def _elements(self, elts: list[ast.expr], scope: Scope) -> list[Any]:
        elements: list[Any] = []
        for element in elts[:MAX_ITEMS]:
            if isinstance(element, ast.Starred):
                elements += self.items(self.eval(element.value, scope))
            else:
                elements.append(self.eval(element, scope))
        return elements[:MAX_ITEMS]

    def _call(self, node: ast.Call, scope: Scope) -> Any:
        if isinstance(node.func, ast.Name) and node.func.id == "super":
            return self.call(Library("super"), [scope.get("self")], {})
        function = self.eval(node.func, scope)
        args = self._elements(node.args, scope)
        kwargs: dict[str, Any] = {}
        for keyword in node.keywords:
            value = self.eval(keyword.value, scope)
            if keyword.arg is not None:
                kwargs[keyword.arg] = value
            elif isinstance(value, dict):
                kwargs.update({key: item for key, item in value.items() if isinstance(key, str)})
        return self.call(function, args, kwargs)

    def _binary(self, op: ast.operator, left: Any, right: Any) -> Any:
        if isinstance(left, Tensor) or isinstance(right, Tensor):
            if isinstance(op, ast.Div) and not isinstance(left, Tensor):
                return self.operate("reciprocal", [right])  # as PyTorch has it
            return self.operate(_ON_TENSORS.get(type(op), "unknown"), [left, right])
        if not isinstance(left, PLAIN) or not isinstance(right, PLAIN):
            return UNKNOWN
        return bounded(op, left, right)

    def _unary(self, op: ast.unaryop, value: Any) -> Any:
        if isinstance(value, Tensor):
            return self.operate(_ON_TENSORS.get(type(op), "unknown"), [value])
        if isinstance(op, ast.Not):
            truth = truth_of(value)
            return UNKNOWN if truth is None else not truth
        if not isinstance(value, int | float):
            return UNKNOWN
        match op:
            case ast.USub():
                return -value
            case ast.UAdd():
                return value
        return ~value if isinstance(value, int) else UNKNOWN

    def _boolean(self, op: ast.boolop, values: list[ast.expr], scope: Scope) -> Any:
        result: Any = UNKNOWN
        for value in values:
            result = self.eval(value, scope)
            truth = truth_of(result)
            if truth is None or truth is isinstance(op, ast.Or):
                return result
        return result

    def _compare(
        self, left: ast.expr, ops: list[ast.cmpop], others: list[ast.expr], scope: Scope
    ) -> Any:
        one = self.eval(left, scope)
        for op, other in zip(ops, others, strict=True):
            two = self.eval(other, scope)
            if isinstance(op, ast.Is | ast.IsNot):
                if one is UNKNOWN or two is UNKNOWN:
                    return UNKNOWN
            elif isinstance(one, Tensor) or isinstance(two, Tensor):
                return self.operate(_ON_TENSORS.get(type(op), "unknown"), [one, two])
            elif not isinstance(one, PLAIN) or not isinstance(two, PLAIN):
                return UNKNOWN
            if not COMPARE[type(op)](one, two):
                return False
            one = two
        return True

    def _subscript(self, owner: Any, index: Any) -> Any:
        if isinstance(owner, Tensor):
            return self.take_index(owner, index)
        if isinstance(owner, Container):
            if isinstance(index, slice):
                return Container(owner.name, owner.items[index])
            return owner.items[owner.keys.index(index) if index in owner.keys else index]
        if isinstance(owner, PLAIN) and not isinstance(index, Tensor):
            return owner[index]  # type: ignore[index]
        return UNKNOWN

    def _comprehension(
        self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp, scope: Scope
    ) -> list[Any]:
        elements: list[Any] = []
        inner = Scope({}, scope)

        def fill(depth: int) -> None:
            if depth == len(node.generators):
                if len(elements) < MAX_ITEMS:
                    elements.append(self.eval(node.elt, inner))
                return
            generator = node.generators[depth]
            for item in self.items(self.eval(generator.iter, inner)):
                self._step()
                self.assign(generator.target, item, inner)
                if all(truth_of(self.eval(test, inner)) is not False for test in generator.ifs):
                    fill(depth + 1)

        fill(0)
        return elements
