"""What the syntax tree of a Triton file shows: missing masks, sums in half precision, atomics in
loops, index divisions, work that does not depend on its loop, data that is read again, tiles that
are no powers of two."""

import ast
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from kb.pasted.remark import Remark
from kb.pasted.source_triton import called_name, calls, is_jit, leftmost, passes_of

# Nodes of one statement, and statements of one loop, that are looked at: more is generated text.
_MAX_NODES: Final = 2_000
_MAX_STATEMENTS: Final = 200
_NARROW: Final = frozenset({"float16", "bfloat16"})
_FUNCTIONS: Final = frozenset({"exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "erf"})
# Arguments of `tl.load` and `tl.store` before their mask.
_BEFORE_MASK: Final = {"load": 1, "store": 2}
_WRITES: Final = frozenset({"store", "atomic_add", "atomic_max", "atomic_min", "atomic_xchg"})
_CHECKED: Final = frozenset({"mask", "boundary_check"})

_NO_MASK: Final = (
    "no mask: correct only if the whole block lies within the tensor. Otherwise compare the "
    "offsets with the length"
)
_SUM: Final = (
    "the running sum is kept in 16 bits, which loses small terms as it grows: make the accumulator "
    "float32 and convert once, at the store."
)
_ATOMIC: Final = (
    "an atomic in a loop: add up in registers over the loop, with one atomic, or a plain store "
    "where one program owns the address, after it."
)
_DIVISION: Final = (
    "in a loop, each element's index is divided by a run-time value, some 20 instructions for "
    "32 bits and more for 64: update the parts in steps, or make the divisor constexpr."
)


def remarks(tree: ast.Module) -> Iterator[Remark]:
    """Yield what is seen in the kernels of a module and in their launches."""
    kernels = [
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and is_jit(node)
    ]
    constants = {
        name
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for name in _targets(node)
    }
    for kernel in kernels:
        yield from _Kernel(kernel, constants).remarks()
        again = {} if _branches_to_loops(kernel) else passes_of(kernel)
        for pointer, passes in again.items():
            if passes > 1:
                text = (
                    f"`{pointer}` is read in {passes} loops from the same beginning: a program "
                    "that keeps its row in registers, or merges the passes, reads it once."
                )
                yield Remark(kernel.lineno, text, "register-caching")
    yield from _tiles(tree, kernels)


class _Context(NamedTuple):
    """What is around a statement."""

    loops: tuple[ast.For | ast.While, ...] = ()
    """The outermost first."""
    branch: bool = False
    """Whether it is in a branch: what that accesses without a mask, its condition allows."""


class _Kernel:
    """One kernel and what its names hold."""

    def __init__(self, node: ast.FunctionDef, constants: set[str]) -> None:
        self._body = node.body
        self._loop_variant: dict[ast.stmt, set[str]] = {}
        """Loop → names that can change from one iteration to the next."""
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        settled = {
            argument.arg for argument in arguments if "constexpr" in _code(argument.annotation)
        }
        pointers = {leftmost(call.args[0]) for call in calls(node, _BEFORE_MASK)}
        self._sized = {argument.arg for argument in arguments} - settled - pointers
        """Arguments that are neither constants nor pointers: lengths of run time among them."""
        self._asserted = any(called_name(child) == "static_assert" for child in ast.walk(node))
        self._settled = settled | constants
        self._wide: set[str] = set()
        """Names that hold a value for each element of a tile."""
        self._counting: set[str] = set()
        """Those of them that are one more from lane to lane."""
        self._bounded: set[str] = set()
        """Those of them that were brought within a length, as by `% length`."""
        self._narrow: set[str] = set()
        """Accumulators of 16 bits."""

    def remarks(self) -> Iterator[Remark]:
        """Yield what is seen, in the order of the text."""
        yield from self._block(self._body, _Context())

    def _block(self, body: Sequence[ast.stmt], around: _Context) -> Iterator[Remark]:
        for statement in body:
            if isinstance(statement, ast.For | ast.While):
                head = statement.iter if isinstance(statement, ast.For) else statement.test
                yield from self._expression(head, around)
                inner = around._replace(loops=(*around.loops, statement))
                yield from self._block(statement.body, inner)
            elif isinstance(statement, ast.If):
                yield from self._expression(statement.test, around)
                branches = [*statement.body, *statement.orelse]
                yield from self._block(branches, around._replace(branch=True))
            else:
                yield from self._expression(statement, around)
                yield from self._assignment(statement, around.loops)

    def _assignment(self, statement: ast.stmt, loops: Sequence[ast.stmt]) -> Iterator[Remark]:
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                terms = {term.id for term in _terms(value) if isinstance(term, ast.Name)}
                if loops and isinstance(value, ast.BinOp) and name in self._narrow & terms:
                    yield Remark(statement.lineno, _SUM, None)
                else:
                    self._narrow.discard(name)
                self._record_value(name, value)
            case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
                if loops and isinstance(op, ast.Add) and name in self._narrow:
                    yield Remark(statement.lineno, _SUM, None)
                if self._is_wide(value):
                    self._wide.add(name)

    def _record_value(self, name: str, value: ast.expr) -> None:
        self._counting.discard(name)
        used = _names(value) - {"tl", "triton"}
        if used <= self._settled and not any(isinstance(n, ast.Call) for n in ast.walk(value)):
            self._settled.add(name)
        if self._is_wide(value):
            if self._counts_up(value):
                self._counting.add(name)
            self._wide.add(name)
            if self._is_bounded(value):
                self._bounded.add(name)
        if called_name(value) in {"zeros", "full"} and isinstance(value, ast.Call):
            dtypes = [*value.args[1:], *(keyword.value for keyword in value.keywords)]
            if any(getattr(dtype, "attr", "") in _NARROW for dtype in dtypes):
                self._narrow.add(name)

    def _is_wide(self, node: ast.AST) -> bool:
        return bool(self._wide & _names(node)) or any(
            called_name(child) == "arange" for child in ast.walk(node)
        )

    def _is_bounded(self, node: ast.AST) -> bool:
        return bool(self._bounded & _names(node)) or any(
            (isinstance(child, ast.BinOp) and isinstance(child.op, ast.Mod))
            or called_name(child) in {"minimum", "where", "clamp"}
            for child in ast.walk(node)
        )

    def _counts_up(self, node: ast.expr) -> bool:
        """Whether a value is one more from lane to lane."""
        match node:
            case ast.Name(id=name):
                return name in self._counting
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                wide = [side for side in (left, right) if self._is_wide(side)]
                return len(wide) == 1 and self._counts_up(wide[0])
        return called_name(node) == "arange"

    def _expression(self, node: ast.AST, around: _Context) -> Iterator[Remark]:
        nodes = list(islice(ast.walk(node), _MAX_NODES))
        for child in nodes if len(nodes) < _MAX_NODES else ():
            if isinstance(child, ast.Call):
                yield from self._call(child, around)
            elif isinstance(child, ast.BinOp) and isinstance(child.op, ast.FloorDiv | ast.Mod):
                runtime = _names(child.right) - self._settled
                wide = self._is_wide(child.left) and not self._is_wide(child.right)
                if runtime and wide and around.loops and not _holds_loop(around.loops[-1]):
                    yield Remark(child.lineno, _DIVISION, "shape-specialization")

    def _call(self, call: ast.Call, around: _Context) -> Iterator[Remark]:
        name, loops = called_name(call), around.loops
        if name in _BEFORE_MASK and call.args:
            keywords = {keyword.arg for keyword in call.keywords}
            pointer, wide = call.args[0], self._is_wide(call.args[0])
            masked = len(call.args) > _BEFORE_MASK[name] or not _CHECKED.isdisjoint(keywords)
            free = wide and not masked and not self._is_bounded(pointer)
            if free and self._sized and not (self._asserted or around.branch):
                filled = ", and set `other` to a neutral value." if name == "load" else "."
                yield Remark(call.lineno, f"`tl.{name}` has {_NO_MASK}{filled}", None)
            step = self._lane_stride(pointer)
            if step is not None:
                text = (
                    f"neighbouring lanes are `{step}` elements apart, so that each touches a "
                    "sector of its own: let the dimension whose stride is 1 run along the lanes."
                )
                yield Remark(call.lineno, text, "coalesced-access")
        elif name.startswith("atomic_") and loops and any(map(self._is_wide, call.args)):
            if self._depends(call.args[0], loops[-1]):
                return  # another address each time
            yield Remark(call.lineno, _ATOMIC, "atomics-privatization")
        elif name in _FUNCTIONS and loops and not self._depends(call, loops[-1]):
            text = (
                f"`tl.{name}` does not depend on the loop of line {loops[-1].lineno}: each "
                "iteration computes it again. Move it out of the loop."
            )
            yield Remark(call.lineno, text, "register-caching")

    def _depends(self, node: ast.expr, loop: ast.For | ast.While) -> bool:
        """Whether a value can change from one iteration to the next."""
        if loop not in self._loop_variant:
            self._loop_variant[loop] = _loop_variant(loop)
        return isinstance(loop, ast.While) or bool(_names(node) & self._loop_variant[loop])

    def _lane_stride(self, pointer: ast.expr) -> str | None:
        """By what run-time value the only index of a one-dimensional access is multiplied."""
        if any(isinstance(child, ast.Subscript) for child in ast.walk(pointer)):
            return None  # a tile of several dimensions
        wide = [term for term in _terms(pointer) if self._is_wide(term)]
        if len(wide) != 1 or not isinstance(wide[0], ast.BinOp):
            return None
        one, two = wide[0].left, wide[0].right
        index, factor = (one, two) if self._is_wide(one) else (two, one)
        if not (isinstance(wide[0].op, ast.Mult) and self._counts_up(index)):
            return None
        runtime = _names(factor) - self._settled - {"tl"}
        text = ast.unparse(factor)
        # A stride may be 1.
        return text if (runtime or "num_programs" in text) and "stride" not in text else None


def _code(node: ast.AST | None) -> str:
    return "" if node is None else ast.unparse(node)


def _names(node: ast.AST) -> set[str]:
    return {child.id for child in ast.walk(node) if isinstance(child, ast.Name)}


def _terms(node: ast.expr) -> Iterator[ast.expr]:
    waiting = [node]
    while waiting:
        term = waiting.pop()
        if isinstance(term, ast.BinOp) and isinstance(term.op, ast.Add | ast.Sub):
            waiting += [term.left, term.right]
        else:
            yield term


def _loop_variant(loop: ast.For | ast.While) -> set[str]:
    """Names that can change from one iteration of a loop to the next."""
    stores = [
        child for child in ast.walk(loop) if isinstance(child, ast.stmt) and child is not loop
    ]
    stored = {leftmost(call.args[0]) for call in calls(loop, _WRITES)}
    edges: list[tuple[set[str], set[str]]] = []
    changing = _names(loop.target) if isinstance(loop, ast.For) else set[str]()
    for store in stores:
        match store:
            case ast.For(target=target, iter=over):
                edges.append((_names(target), _names(over)))
            case ast.AugAssign(target=target):
                changing |= _names(target)
            case ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value):
                names, used = _targets(store), _names(value)
                again = any(leftmost(n.args[0]) in stored for n in calls(value, {"load"}))
                if again or names & used:
                    changing |= names
                edges.append((names, used))
    if len(stores) > _MAX_STATEMENTS:
        return changing.union(*(names for names, _ in edges))
    size = -1
    while size != len(changing):
        size = len(changing)
        changing = changing.union(*(names for names, used in edges if used & changing))
    return changing


def _targets(node: ast.stmt) -> set[str]:
    """The names that an assignment gives a value."""
    match node:
        case ast.Assign(targets=targets):
            return {name for target in targets for name in _names(target)}
        case ast.AnnAssign(target=target):
            return _names(target)
    return set()


def _holds_loop(node: ast.AST) -> bool:
    """Whether there is a loop within a statement."""
    inner = (child for child in ast.walk(node) if child is not node)
    return any(isinstance(descendant, ast.For | ast.While) for descendant in inner)


def _branches_to_loops(kernel: ast.FunctionDef) -> bool:
    """Whether some of a kernel's loops are in branches, of which one runs."""
    return any(isinstance(child, ast.If) and _holds_loop(child) for child in ast.walk(kernel))


def _tiles(tree: ast.Module, kernels: Sequence[ast.FunctionDef]) -> Iterator[Remark]:
    """Lengths of `tl.arange` that launches give and that are no powers of two."""
    lengths = {
        kernel.name: {
            part.id
            for call in calls(kernel, {"arange"})
            for part in call.args[1:]
            if isinstance(part, ast.Name)
        }
        for kernel in kernels
    }
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript)):
            continue
        tile_lengths = lengths.get(getattr(node.func.value, "id", ""), set())
        for keyword in node.keywords:
            value = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
            if keyword.arg in tile_lengths and isinstance(value, int) and value & (value - 1):
                text = f"{keyword.arg}={value} reaches `tl.arange`, which takes only powers of two."
                yield Remark(node.lineno, text, None)
