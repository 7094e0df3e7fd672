"""Counts how often the loops of interpreted kernels run, by their line."""

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

_LOOP: Final = "_judge_counted"
_BEGIN: Final = "_judge_begins"
_TURN: Final = "_judge_turns"
_MOST_LOOPS: Final = 200
_WITHOUT_STEP: Final = 2


class Loops:
    """The most turns that each loop took at one go."""

    def __init__(self) -> None:
        self.turns: dict[str, int] = {}
        self._current: dict[str, int] = {}

    def watch(self, interpreter: Any) -> None:
        """Have Triton's interpreter (its module) count from now on, in functions it rewrites."""
        rewriter = interpreter.FunctionRewriter
        original: Callable[[Any, str], Any] = rewriter._transform_ast

        def transform(rewriting: Any, source: str) -> ast.AST:
            tree: ast.AST = _Counting().visit(original(rewriting, source))
            return ast.fix_missing_locations(tree)

        rewriter._transform_ast = transform
        # The interpreter shows its own names to every function that it rewrites.
        setattr(interpreter, _LOOP, self._count_iterations)
        setattr(interpreter, _BEGIN, self._start_loop)
        setattr(interpreter, _TURN, self._count_turn)

    def _count_iterations(self, values: Iterable[Any], line: int) -> Iterator[Any]:
        count = 0
        try:
            for value in values:
                count += 1
                yield value
        finally:
            self._record(str(line), count)

    def _start_loop(self, line: int) -> None:
        self._current[str(line)] = 0
        self._record(str(line), 0)

    def _count_turn(self, line: int) -> None:
        self._current[str(line)] = self._current.get(str(line), 0) + 1
        self._record(str(line), self._current[str(line)])

    def _record(self, line: str, count: int) -> None:
        if line in self.turns or len(self.turns) < _MOST_LOOPS:
            self.turns[line] = max(count, self.turns.get(line, 0))


class _Counting(ast.NodeTransformer):
    """Leads the loops over blocks of a function through the counters.

    A loop over blocks turns as often as a size asks for: it steps by more than one, ends at a
    quotient or at what a launch gives at run time, or is a `while`. What is unrolled, or turns as
    often as a compile-time constant says (the taps of a window), stays as it is.
    """

    def __init__(self) -> None:
        self._sized: set[str] = set()
        """Names that hold sizes or quotients."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        parameters = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        self._sized = {
            parameter.arg
            for parameter in parameters
            if parameter.annotation is None or "constexpr" not in ast.unparse(parameter.annotation)
        }
        for inner in ast.walk(node):
            if isinstance(inner, ast.Assign) and self._is_sized(inner.value):
                targets = [t for target in inner.targets for t in ast.walk(target)]
                self._sized |= {target.id for target in targets if isinstance(target, ast.Name)}
        return self.generic_visit(node)

    def _is_sized(self, value: ast.expr) -> bool:
        for node in ast.walk(value):
            if isinstance(node, ast.Name) and node.id in self._sized:
                return True
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv):
                return True
            if isinstance(node, ast.Attribute | ast.Name) and "cdiv" in ast.unparse(node):
                return True
        return False

    def visit_For(self, node: ast.For) -> ast.AST:
        self.generic_visit(node)
        function = node.iter.func if isinstance(node.iter, ast.Call) else None
        unrolled = isinstance(function, ast.Attribute) and function.attr == "static_range"
        arguments = node.iter.args if isinstance(node.iter, ast.Call) else []
        steps = len(arguments) > _WITHOUT_STEP and not isinstance(arguments[-1], ast.Constant)
        if function is not None and not unrolled and (steps or any(map(self._is_sized, arguments))):
            node.iter = _call(_LOOP, [node.iter, ast.Constant(node.lineno)], node)
        return node

    def visit_While(self, node: ast.While) -> list[ast.stmt]:
        self.generic_visit(node)
        line: ast.expr = ast.Constant(node.lineno)
        node.body.insert(0, ast.copy_location(ast.Expr(_call(_TURN, [line], node)), node))
        return [ast.copy_location(ast.Expr(_call(_BEGIN, [line], node)), node), node]


def _call(name: str, arguments: list[ast.expr], at: ast.stmt) -> ast.Call:
    function = ast.Name(id=name, ctx=ast.Load())
    return ast.copy_location(ast.Call(func=function, args=arguments, keywords=[]), at)
