"""Fold what a request fixes about a kernel's tensors into the kernel's host functions.

A kernel file supports any strides, dtypes and sizes, and the CPU interpreter. A problem has one
dtype, known layouts and sizes, and runs on a GPU. Branches for anything else are left out.
"""

import ast
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from kb.context.folding import Bindings

# What files call the function that makes a tensor addressable by TMA: as it is, or as a pair of the
# tensor and whether it was turned round.
FOR_TMA: Final = "_for_tma"
_TMA_BYTES: Final = 16
# How files ask whether a dimension, counted from the front, is the last one.
_IS_LAST: Final = {"dim == x.dim() - 1": True, "dim < x.dim() - 1": False}
_ARITHMETIC: Final[dict[type, Callable[[int, int], int]]] = {
    ast.FloorDiv: lambda a, b: a // b, ast.Mult: lambda a, b: a * b,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What holds for every call of a kernel in the problem at hand."""

    gpu: bool = False
    """Tensors are on a CUDA device."""
    itemsize: int | None = None
    """Bytes of one element of every operand; None where that is not known."""
    sized: bool = False
    """No dimension is 0."""
    transposed: tuple[bool, ...] = ()
    """For each operand whether it is the transpose of a contiguous matrix (else it is contiguous).

    Rows are whole units of 16 bytes, also those of the result. Empty where layouts are not known.
    """
    contiguous: bool = False
    """Every operand is contiguous."""
    last: bool | None = None
    """Whether the dimension that is worked along is the last one; None where that is not known."""
    present: tuple[str, ...] = ()
    """Optional arguments that are there."""

    def __str__(self) -> str:
        parts = [f"{self.itemsize}-byte elements"] if self.itemsize is not None else []
        layouts = ["contiguous" if not transposed else "the transpose of a contiguous matrix"
                   for transposed in self.transposed]  # fmt: skip
        if layouts:
            operands = zip(("first", "second"), layouts, strict=False)
            parts += [f"{place} operand {layout}" for place, layout in operands]
            parts.append("rows of whole 16 bytes")
        if self.last is not None:
            parts.append(
                "along the last dimension" if self.last else "not along the last dimension"
            )
        return ", ".join(parts)


NOTHING: Final = Assumptions()


def assume(
    function: ast.FunctionDef, assumed: Assumptions, operands: list[str], *, pairs: bool
) -> Bindings:
    """Rewrite what `assumed` fixes in a host function, in place.

    Parameters
    ----------
    operands
        The entry's parameters in order: those that `assumed.transposed` describes come first.
    pairs
        Whether the file's `_for_tma` returns the tensor and whether it was turned, else the tensor.

    Returns
    -------
    Bindings
        Names to which the function assigned a constant, to be folded; the assignments are removed.
    """
    _Rewriter(assumed, operands, _sizes(function), pairs).visit(function)
    bindings: Bindings = {}
    function.body = _split(function.body, bindings, _counts(function))
    return bindings


def require(function: ast.FunctionDef, names: tuple[str, ...]) -> None:
    """Remove the defaults of the first optional parameters that are always given."""
    arguments = function.args
    while arguments.defaults and arguments.args[-len(arguments.defaults)].arg in names:
        del arguments.defaults[0]


def drop_precision(function: ast.FunctionDef) -> None:
    """Remove `input_precision` from products: 16-bit operands ignore it."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "tl.dot":
            node.keywords = [
                keyword for keyword in node.keywords if keyword.arg != "input_precision"
            ]


@dataclass(frozen=True, slots=True)
class _Rewriter(ast.NodeTransformer):
    _assumed: Assumptions
    _operands: list[str]
    _sizes: set[str]
    _pairs: bool

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        return _constant(node, value=True) if self._assumed.gpu and node.attr == "is_cuda" else node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        compute = _ARITHMETIC.get(type(node.op))
        left, right = _number(node.left), _number(node.right)
        if compute is None or left is None or not right:
            return node
        return _constant(node, compute(left, right))

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        function = node.func
        if isinstance(function, ast.Attribute) and function.attr == "element_size":
            size = self._assumed.itemsize
            return node if size is None else _constant(node, size)
        if isinstance(function, ast.Name) and function.id == FOR_TMA and len(node.args) == 1:
            return self._addressable(node, node.args[0])
        return node

    def _addressable(self, call: ast.Call, operand: ast.expr) -> ast.expr:
        """What the function gives for an operand whose layout is known."""
        name = operand.id if isinstance(operand, ast.Name) else ""
        transposed = dict(zip(self._operands, self._assumed.transposed, strict=False)).get(name)
        if transposed is None or (transposed and not self._pairs):
            return call
        if not self._pairs:
            return operand
        value = ast.Attribute(operand, "T", ast.Load()) if transposed else operand
        pair = ast.Tuple([value, ast.Constant(transposed)], ast.Load())
        return ast.copy_location(pair, call)

    def visit_Try(self, node: ast.Try) -> Any:
        self.generic_visit(node)
        caught = [
            ast.unparse(handler.type) for handler in node.handlers if handler.type is not None
        ]
        # A view of what is contiguous is always possible.
        return node.body if self._assumed.contiguous and caught == ["RuntimeError"] else node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        if self._assumed.last is not None and (last := _IS_LAST.get(ast.unparse(node))) is not None:
            return _constant(node, value=last is self._assumed.last)
        if len(node.ops) != 1:
            return node
        left, operator, right = node.left, node.ops[0], node.comparators[0]
        equal = isinstance(operator, ast.Eq | ast.Is)
        if not equal and not isinstance(operator, ast.NotEq | ast.IsNot):
            return node
        holds = self._equal(left, right)
        return node if holds is None else _constant(node, value=holds is equal)

    def _equal(self, left: ast.expr, right: ast.expr) -> bool | None:
        """Whether an expression is a constant, as far as it is settled."""
        value = right.value if isinstance(right, ast.Constant) else ...
        if value == "cuda" and isinstance(left, ast.Attribute) and left.attr == "type":
            return True if self._assumed.gpu else None
        if value is None and isinstance(left, ast.Name) and left.id in self._assumed.present:
            return False
        if value is not False and value == 0 and self._assumed.sized:
            if _is_size(left, self._sizes):
                return False
            if self._assumed.transposed and _is_row_rest(left, self._sizes):
                return True
        return None


def _constant(node: ast.AST, value: Any) -> ast.expr:
    return ast.copy_location(ast.Constant(value), node)


def _number(node: ast.expr) -> int | None:
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _is_size(node: ast.expr, sizes: set[str]) -> bool:
    """A length of a shape, or a tensor's number of elements."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr == "numel"
    return isinstance(node, ast.Name) and node.id in sizes


def _is_row_rest(node: ast.expr, sizes: set[str]) -> bool:
    """`n * 2 % 16`: what a row of the result has beyond whole units."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mod):
        return False
    names = {child.id for child in ast.walk(node.left) if isinstance(child, ast.Name)}
    calls = any(isinstance(child, ast.Call) for child in ast.walk(node.left))
    return _number(node.right) == _TMA_BYTES and bool(names) and names <= sizes and not calls


def _sizes(function: ast.FunctionDef) -> set[str]:
    """Names that a function takes out of shapes."""
    names: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                names |= _lengths(target, node.value)
    return names


def _lengths(target: ast.expr, value: ast.expr) -> set[str]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        pairs = zip(target.elts, value.elts, strict=False)
        return set().union(*(_lengths(one, other) for one, other in pairs))
    of_shape = value.value if isinstance(value, ast.Subscript) else value
    if not isinstance(of_shape, ast.Attribute) or of_shape.attr != "shape":
        return set()
    names = target.elts if isinstance(target, ast.Tuple) else [target]
    return {name.id for name in names if isinstance(name, ast.Name)}


def _counts(function: ast.FunctionDef) -> Counter[str]:
    """How often each name is given a value; a parameter has one from the start."""
    nodes = list(ast.walk(function))
    counts = Counter(node.arg for node in nodes if isinstance(node, ast.arg))
    counts.update(n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    return counts


def _split(body: list[ast.stmt], bindings: Bindings, counts: Counter[str]) -> list[ast.stmt]:
    """Take assignments of tuples apart; constants of names given once go to the bindings."""
    statements: list[ast.stmt] = []
    for statement in body:
        pairs = _pairs(statement)
        if pairs is None:
            statements.append(statement)
            continue
        for target, value in pairs:
            once = isinstance(target, ast.Name) and counts[target.id] == 1
            if once and isinstance(value, ast.Constant) and isinstance(value.value, bool):
                bindings[target.id] = value  # type: ignore[attr-defined]
            elif ast.unparse(target) != ast.unparse(value):
                statements.append(ast.copy_location(ast.Assign([target], value), statement))
    return statements


def _pairs(statement: ast.stmt) -> list[tuple[ast.expr, ast.expr]] | None:
    """Targets and values of an assignment one by one; None where that is another thing."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    pairs = _match_targets(statement.targets[0], statement.value)
    if len(pairs) == 1 and not isinstance(pairs[0][1], ast.Constant):
        return None
    settled = (isinstance(v, ast.Constant) or ast.unparse(t) == ast.unparse(v) for t, v in pairs)
    if not any(settled):
        return None
    assigned: set[str] = set()
    for target, value in pairs:
        names_read = {child.id for child in ast.walk(value) if isinstance(child, ast.Name)}
        if names_read & assigned:
            return None  # a swap
        assigned |= {child.id for child in ast.walk(target) if isinstance(child, ast.Name)}
    return pairs


def _match_targets(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    same = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
    if not same or len(target.elts) != len(value.elts):  # type: ignore[attr-defined]
        return [(target, value)]
    inner = zip(target.elts, value.elts, strict=True)  # type: ignore[attr-defined]
    return [pair for one, other in inner for pair in _match_targets(one, other)]
