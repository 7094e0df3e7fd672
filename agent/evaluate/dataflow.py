"""Whether a function's results hold anything of its arguments' contents.

A coarse analysis that errs towards "yes": values flow through assignments, and a call may write
whatever it is given, so `kernel[grid](x, out)` carries x into out. Shapes, dtypes and addresses'
absence aside, any mention of a carrying name carries.
"""

import ast
from collections.abc import Iterator

from agent.evaluate.scan_names import Names
from agent.evaluate.scan_tables import CONTENT_FREE, METADATA

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_MIXING = (
    ast.Call, ast.List, ast.Tuple, ast.Dict, ast.Set, ast.Lambda, ast.FunctionDef,
)  # fmt: skip


def returns_contents(function: _Function, names: Names, fixed: frozenset[str]) -> bool:
    """False only where no returned value can depend on the contents of any argument.

    `fixed` are names that hold no data: modules, functions and classes.
    """
    arguments = function.args
    given = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    given += [each for each in (arguments.vararg, arguments.kwarg) if each is not None]
    flow = _Flow(names, fixed, {each.arg for each in given} - {"self"})
    nodes = [node for node in ast.walk(function) if node is not function]
    for node in nodes:
        flow.follow(node)
    flow.spread()
    returned = [node.value for node in nodes if isinstance(node, ast.Return)]
    values = [each for each in returned if each is not None]
    if not values or any(isinstance(node, ast.Yield | ast.YieldFrom) for node in nodes):
        return True  # nothing is returned: another check's business
    return any(flow.carries(each) for each in values)


class _Flow:
    def __init__(self, names: Names, fixed: frozenset[str], carrying: set[str]) -> None:
        self.names = names
        self.fixed = fixed
        self.carrying = carrying
        self._onward: dict[str, list[set[str]]] = {}
        """From a name to what carries as soon as it does."""

    def follow(self, node: ast.AST) -> None:
        """Note which names `node` makes carry, if others do."""
        if isinstance(node, ast.Assign):
            self._assign(node.targets, node.value)
        elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.NamedExpr):
            if node.value is not None:
                self._assign([node.target], node.value)
        elif isinstance(node, ast.For | ast.comprehension):
            self._assign([node.target], node.iter)
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            self._assign([node.optional_vars], node.context_expr)
        elif isinstance(node, _MIXING):
            # A call writes what it is given; a container or closure hands on what is in it.
            self._note(node, self._names(node))

    def spread(self) -> None:
        """Follow what was noted from the names that carry to all that they make carry."""
        waiting = list(self.carrying)
        while waiting:
            for targets in self._onward.pop(waiting.pop(), ()):
                waiting += targets - self.carrying
                self.carrying |= targets

    def carries(self, node: ast.AST) -> bool:
        """Whether the contents of a carrying name matter to `node`."""
        return any(each.id in self.carrying for each in self._contents(node))

    def _assign(self, targets: list[ast.expr], value: ast.expr) -> None:
        self._note(value, {name for target in targets for name in self._names(target)})

    def _note(self, source: ast.AST, targets: set[str]) -> None:
        for name in {each.id for each in self._contents(source)}:
            self._onward.setdefault(name, []).append(targets)

    def _names(self, node: ast.AST) -> set[str]:
        return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)} - self.fixed

    def _contents(self, node: ast.AST) -> Iterator[ast.Name]:
        if isinstance(node, ast.Name):
            yield node
            return
        described = isinstance(node, ast.Attribute) and node.attr in METADATA
        made = isinstance(node, ast.Call) and self.names.resolve(node.func) in CONTENT_FREE
        if not described and not made:
            for child in ast.iter_child_nodes(node):
                yield from self._contents(child)
