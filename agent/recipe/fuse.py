"""Writes a chain of elementwise operators as one Triton kernel: each operand is read once.

All arithmetic is float32; what is returned is rounded once. Elements are taken in the flat order
of a contiguous result. An operand has the result's shape, or that of its last dimensions (a bias),
or one element.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from agent.recipe.graph import Graph, reference

FLOATS: Final = frozenset({"float32", "float16", "bfloat16"})

# Operator → expression of its operands; a comparison with NaN is false, so NaN passes through.
_EXPRESSIONS: Final[Mapping[str, str]] = {
    "add.Tensor": "{0} + {1}",
    "sub.Tensor": "{0} - {1}",
    "rsub.Scalar": "{1} - {0}",
    "mul.Tensor": "{0} * {1}",
    "mul.Scalar": "{0} * {1}",
    "div.Tensor": "{0} / {1}",
    "neg.default": "-{0}",
    "abs.default": "tl.abs({0})",
    "exp.default": "tl.exp({0})",
    "log.default": "tl.log({0})",
    "sqrt.default": "tl.sqrt({0})",
    "rsqrt.default": "tl.rsqrt({0})",
    "erf.default": "tl.erf({0})",
    "sigmoid.default": "tl.sigmoid({0})",
    "silu.default": "{0} * tl.sigmoid({0})",
    "square.default": "{0} * {0}",
    "reciprocal.default": "1.0 / {0}",
    "relu.default": "tl.where({0} < 0.0, 0.0, {0})",
    "leaky_relu.default": "tl.where({0} > 0.0, {0}, {0} * {1:0.01})",
    "gelu.default": "0.5 * {0} * (1.0 + tl.erf({0} * 0.7071067811865476))",
    "hardtanh.default": "tl.where({0} < {1:-1.0}, {1:-1.0}, tl.where({0} > {2:1.0}, {2:1.0}, {0}))",
    "_to_copy.default": "{0}",
}
_PLACE: Final = re.compile(r"\{(\d)(?::([-\d.]+))?\}")
# One load of 16 bytes a thread and more to spare; the tuner tries others where it may.
_BLOCK: Final = 1024


def expressible(graph: Graph, name: str) -> bool:
    """Whether an operator can be one step of a chain."""
    node = graph[name]
    known = node.op.removeprefix("aten.") in _EXPRESSIONS
    if not known or not graph.is_tensor(name) or graph.dtype(name) not in FLOATS:
        return False
    kwargs = {"dtype"} if node.op == "aten._to_copy.default" else set()
    if set(node.kwargs) - kwargs:  # another GELU, x + alpha * y, a rounding mode
        return False
    for each in node.args:
        operand = reference(each)
        if operand is None:
            if isinstance(each, bool) or not isinstance(each, int | float):
                return False
        elif not graph.is_tensor(operand) or graph.dtype(operand) not in FLOATS:
            return False
    return True


def spreads(graph: Graph, name: str, shape: Sequence[int]) -> bool:
    """Whether a value can be an operand of a result of this shape."""
    mine = graph.shape(name)
    same = tuple(shape) == mine or (len(mine) > 0 and tuple(shape)[-len(mine) :] == mine)
    return same or all(each == 1 for each in mine)


def chain(graph: Graph, root: str, barred: frozenset[str]) -> list[str]:
    """The operators that one kernel computes with `root`, in order.

    An operator joins when all that use it are in the chain; `barred` ones do not.
    """
    found = {root}
    for name in reversed(graph.computed):
        users = set(graph.users[name])
        joins = (
            name not in barred
            and name not in graph.outputs
            and users
            and users <= found
            and expressible(graph, name)
            and graph.shape(name) == graph.shape(root)
        )
        if joins:
            found.add(name)
    return [name for name in graph.computed if name in found]


def operands_of(graph: Graph, steps: Sequence[str]) -> list[str]:
    """What a chain reads, each once."""
    names = [reference(each) for name in steps for each in graph[name].args]
    return list(dict.fromkeys(each for each in names if each is not None and each not in steps))


def kernel_text(
    graph: Graph, steps: Sequence[str], number: int, biases: Mapping[str, str]
) -> tuple[str, list[str]]:
    """Kernel and launcher `fused_<number>(operands…)` of a chain, and the operands in order.

    `biases` gives values to which another one is added as they are read.
    """
    root = steps[-1]
    given = operands_of(graph, steps)
    given += [bias for value, bias in biases.items() if value in given and bias not in given]
    place = {name: index for index, name in enumerate(given)}
    shape = graph.shape(root)
    loads, lines = [], []
    for name, index in place.items():
        offsets = "offsets" if graph.shape(name) == shape else f"offsets % size_{index}"
        loads.append(f"x{index} = tl.load(p{index} + {offsets}, mask=mask).to(tl.float32)")
    values = {name: f"x{index}" for name, index in place.items()}
    for value, bias in biases.items():
        if value in values:
            lines.append(f"b{place[value]} = x{place[value]} + x{place[bias]}")
            values[value] = f"b{place[value]}"
    for index, name in enumerate(steps):
        lines.append(f"v{index} = {expression(graph[name], values)}")
        values[name] = f"v{index}"
    pointers = "".join(f"p{i}, " for i in place.values())
    sizes = "".join(f"size_{i}, " for n, i in place.items() if graph.shape(n) != shape)
    numels = "".join(f"x{i}.numel(), " for n, i in place.items() if graph.shape(n) != shape)
    body = "\n    ".join([*loads, *lines])
    full = next((i for n, i in place.items() if graph.shape(n) == shape), None)
    if full is None:
        raise ValueError("no operand has the result's shape")
    contiguous = "\n    ".join(f"x{i} = x{i}.contiguous()" for i in place.values())
    text = f"""@triton.jit
def _fused_{number}_kernel({pointers}out, {sizes}total, BLOCK: tl.constexpr):
    # Elements are counted in int64: tensors of a few GB have more than 2**31.
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < total
    {body}
    tl.store(out + offsets, {values[root]}.to(out.dtype.element_ty), mask=mask)


def fused_{number}({", ".join(f"x{i}" for i in place.values())}):
    {contiguous}
    out = torch.empty(x{full}.shape, dtype=torch.{graph.dtype(root)}, device=x{full}.device)
    total = out.numel()
    _fused_{number}_kernel[(triton.cdiv(total, {_BLOCK}),)](
        {pointers.replace("p", "x")}out, {numels}total, BLOCK={_BLOCK}, num_warps=4
    )
    return out"""
    return text, given


def expression(node: Any, values: Mapping[str, str]) -> str:
    """One step as Triton code, from the names of its operands' values."""

    def operand(found: re.Match[str]) -> str:
        index = int(found[1])
        if index >= len(node.args):
            return found[2] or "0.0"
        name = reference(node.args[index])
        return f"({float(node.args[index])!r})" if name is None else values[name]

    return _PLACE.sub(operand, _EXPRESSIONS[node.op.removeprefix("aten.")])
