"""Writes a chain of elementwise operators as one Triton kernel: each operand is read once.

All arithmetic is float32; what is returned is rounded once. Elements are taken in the flat order
of a contiguous result. An operand has the result's shape, or that of its last dimensions (a bias),
or one element.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from judge.graph import Graph, reference

FLOATS: Final = frozenset({"float32", "float16", "bfloat16"})

# As PyTorch's, NaN where one of the two is.
MAXIMUM: Final = "tl.where(({0} > {1}) | ({0} != {0}), {0}, {1})"
MINIMUM: Final = "tl.where(({0} < {1}) | ({0} != {0}), {0}, {1})"
_POWER: Final = "tl.exp({0} * {1:1.0})"
_SOFTPLUS: Final = (
    f"tl.where({{0}} * {{1:1.0}} > {{2:20.0}}, {{0}}, tl.where({_POWER} < 0.02,"
    f" {_POWER} * (1.0 - {_POWER} * (0.5 - {_POWER} * (0.33333333 - {_POWER} * 0.25))),"
    f" tl.log(1.0 + {_POWER})) / {{1:1.0}})"
)
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
    "gelu.default": "_exact_gelu({0})",
    # 1 + tanh(u) is 2 * sigmoid(2 * u).
    "gelu.tanh": "{0} * tl.sigmoid(1.5957691216057308 * ({0} + 0.044715 * {0} * {0} * {0}))",
    "hardtanh.default": "tl.where({0} < {1:-1.0}, {1:-1.0}, tl.where({0} > {2:1.0}, {2:1.0}, {0}))",
    "_to_copy.default": "{0}",
    "sin.default": "tl.sin({0})",
    "cos.default": "tl.cos({0})",
    "exp2.default": "tl.exp2({0})",
    "log2.default": "tl.log2({0})",
    "clamp.default": "tl.where({0} < {1}, {1}, tl.where({0} > {2}, {2}, {0}))",
    "clamp_min.default": "tl.where({0} < {1}, {1}, {0})",
    "clamp_max.default": "tl.where({0} > {1}, {1}, {0})",
    "maximum.default": MAXIMUM,
    "minimum.default": MINIMUM,
    "where.self": "tl.where({0} != 0.0, {1}, {2})",
    "masked_fill.Scalar": "tl.where({1} != 0.0, {2}, {0})",
    "hardsigmoid.default": "tl.where({0} < -3.0, 0.0, tl.where({0} > 3.0, 1.0, {0} / 6.0 + 0.5))",
    "hardswish.default": "tl.where({0} < -3.0, 0.0,"
    " tl.where({0} > 3.0, {0}, {0} * ({0} + 3.0) / 6.0))",
    # Differences of nearly equal numbers lose their digits: near zero the series' first terms.
    "tanh.default": "tl.where(tl.abs({0}) < 0.1,"
    " {0} * (1.0 - {0} * {0} * (0.33333333 - {0} * {0} * (0.13333333 - {0} * {0} * 0.05396825))),"
    " 2.0 * tl.sigmoid(2.0 * {0}) - 1.0)",
    "selu.default": "1.0507009873554805 * tl.where({0} > 0.0, {0}, 1.6732632423543772 *"
    " tl.where({0} > -0.02, {0} * (1.0 + {0} * (0.5 + {0} * (0.16666667 + {0} * 0.04166667))),"
    " tl.exp({0}) - 1.0))",
    "elu.default": "tl.where({0} > 0.0, {0}, {1:1.0} * tl.where({0} > -0.02,"
    " {0} * (1.0 + {0} * (0.5 + {0} * (0.16666667 + {0} * 0.04166667))), tl.exp({0}) - 1.0))",
    "softplus.default": _SOFTPLUS,
    "relu6.default": "tl.where({0} < 0.0, 0.0, tl.where({0} > 6.0, 6.0, {0}))",
    "celu.default": "tl.where({0} > 0.0, {0}, tl.where({0} > -0.02 * {1:1.0},"
    " {0} * (1.0 + {0} / {1:1.0} * (0.5 + {0} / {1:1.0} * 0.16666667)),"
    " {1:1.0} * (tl.exp({0} / {1:1.0}) - 1.0)))",
    "threshold.default": "tl.where({0} <= {1}, {2}, {0})",
    "log_sigmoid.default": f"-({_SOFTPLUS.replace('{0}', '(-{0})')})",
    # tanh(log(1 + n)) with n = exp(x).
    "mish.default": "tl.where({0} > 20.0, {0}, {0} * (tl.exp({0}) * (tl.exp({0}) + 2.0))"
    " / (tl.exp({0}) * (tl.exp({0}) + 2.0) + 2.0))",
}
# The same for powers, by exponent.
_POWERS: Final[Mapping[float, str]] = {
    -1.0: "1.0 / {0}",
    -0.5: "tl.rsqrt({0})",
    0.5: "tl.sqrt({0})",
    2.0: "{0} * {0}",
    3.0: "{0} * {0} * {0}",
    4.0: "({0} * {0}) * ({0} * {0})",
}
# Functions that expressions name.
_HELPERS: Final[Mapping[str, str]] = {
    "_exact_gelu": '''@triton.jit
def _exact_gelu(x):
    """max(x, 0) - |x| / 2 * erfc(|x| / sqrt(2)), the last by Abramowitz and Stegun, 7.1.26: within
    1.5e-7 for half the instructions of tl.erf. rsqrt squared is a reciprocal without a division."""
    size = tl.abs(x)
    root = tl.rsqrt(1.0 + 0.23164189 * size)
    t = root * root
    series = -0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))
    tail = t * (0.254829592 + t * series) * tl.exp2(x * x * -0.72134752)
    # All tails are zero from 20 on; infinity times zero is not.
    return 0.5 * (x + size) - 0.5 * tl.minimum(size, 20.0) * tail''',
}
# Of two tensors, a value for each element: the loss before it is reduced.
_LOSSES: Final[Mapping[str, str]] = {
    "mse_loss.default": "({0} - {1}) * ({0} - {1})",
    "l1_loss.default": "tl.abs({0} - {1})",
    "smooth_l1_loss.default": "tl.where(tl.abs({0} - {1}) < {3:1.0},"
    " 0.5 * ({0} - {1}) * ({0} - {1}) / {3:1.0}, tl.abs({0} - {1}) - 0.5 * {3:1.0})",
    "huber_loss.default": "tl.where(tl.abs({0} - {1}) < {3:1.0}, 0.5 * ({0} - {1}) * ({0} - {1}),"
    " {3:1.0} * (tl.abs({0} - {1}) - 0.5 * {3:1.0}))",
}
# Conditions within a chain: 1 or 0.
_CONDITIONS: Final[Mapping[str, str]] = {
    f"{name}.{form}": f"tl.where({{0}} {sign} {{1}}, 1.0, 0.0)"
    for name, sign in (
        ("gt", ">"), ("ge", ">="), ("lt", "<"), ("le", "<="), ("eq", "=="), ("ne", "!="),
    )
    for form in ("Scalar", "Tensor")
}  # fmt: skip
ELEMENTWISE: Final = frozenset(
    {"pow", "log1p", "sign"} | {name.partition(".")[0] for name in (*_EXPRESSIONS, *_CONDITIONS)}
)
"""Names of operators that give one value for each element."""
_OPERANDS: Final = FLOATS | {"bool"}
# Arguments beyond these are another function.
_MOST_ARGUMENTS: Final = {"elu.default": 2}
# Arguments by name that expressions know.
_NAMED_ARGUMENTS: Final = {
    "_to_copy.default": frozenset({"dtype"}), "gelu.tanh": frozenset({"approximate"}),
    "gelu.default": frozenset({"approximate"}),
}  # fmt: skip
_PLACE: Final = re.compile(r"\{(\d)(?::([-\d.]+))?\}")
# One load of 16 bytes a thread and more to spare; the tuner tries others where it may.
_BLOCK: Final = 1024
# Loads of operand N. A channel's value: where a block lies within one channel it is one load.
_REPEATED_LOAD: Final = """\
if inner_N % BLOCK == 0:
    one = tl.load(pN + first // inner_N % size_N)
    xN = one.to(tl.float32) + tl.zeros((BLOCK,), tl.float32)
else:
    iN = offsets // inner_N % size_N
    xN = tl.load(pN + iN, mask=mask).to(tl.float32)"""
# The last dimensions: one division a program where a block wraps once at most. Where none wraps,
# neighbours are read, which has to stand apart for the compiler to see it: 16 bytes at a time.
_WRAPPED_LOAD: Final = """\
if size_N % BLOCK == 0:
    start = tl.multiple_of(first % size_N, BLOCK)
    xN = tl.load(pN + start + tl.arange(0, BLOCK), mask=mask)
else:
    iN = first % size_N + tl.arange(0, BLOCK)
    if size_N >= BLOCK:
        iN -= tl.where(iN < size_N, 0, size_N)
    else:
        iN = iN % size_N
    xN = tl.load(pN + iN, mask=mask)
xN = xN.to(tl.float32)"""


def expressible(graph: Graph, name: str) -> bool:
    """Whether an operator can be the last step of a chain."""
    return _short(graph[name]) not in _CONDITIONS and _joins(graph, name)


def template_of(node: Any) -> str | None:
    """An operator as a Triton expression with `{0}`, `{1}` … for its arguments; None where there
    is none. Arguments that are not given are numbers in it."""
    short, given = _short(node), len(node.args)
    template = _EXPRESSIONS.get(short) or _power(node) or _CONDITIONS.get(short)
    if short in _LOSSES and given > 2 and node.args[2] == 0:
        template = _LOSSES[short]
    if template is None or given > _MOST_ARGUMENTS.get(short, given):
        return None
    if set(node.kwargs) - _NAMED_ARGUMENTS.get(short, frozenset()):
        return None  # x + alpha * y, a rounding mode
    return _PLACE.sub(lambda m: f"{{{m[1]}}}" if int(m[1]) < given else m[2] or "0.0", template)


def _short(node: Any) -> str:
    """An operator's name in the tables."""
    if node.op == "aten.gelu.default" and node.kwargs.get("approximate") == "tanh":
        return "gelu.tanh"
    return str(node.op.removeprefix("aten."))


def _power(node: Any) -> str | None:
    """A power's expression, where its exponent has one."""
    exponent = node.args[1] if node.op == "aten.pow.Tensor_Scalar" else None
    return _POWERS.get(exponent) if isinstance(exponent, int | float) else None


def _joins(graph: Graph, name: str) -> bool:
    """Whether an operator can be a step of a chain: conditions are, but not the last one."""
    node = graph[name]
    if template_of(node) is None or not _has_known_operands(graph, name):
        return False
    return _short(node) in _CONDITIONS or (graph.is_tensor(name) and graph.dtype(name) in FLOATS)


def _has_known_operands(graph: Graph, name: str) -> bool:
    for arg in graph[name].args:
        operand = reference(arg)
        if operand is None:
            if number(arg) is None:
                return False
        elif not graph.is_tensor(operand) or graph.dtype(operand) not in _OPERANDS:
            return False
    return True


def number(value: Any) -> float | None:
    """A constant argument; infinities and NaN have a spelling of their own."""
    if isinstance(value, dict) and isinstance(value.get("float"), str):
        return float(value["float"])
    return None if isinstance(value, bool) or not isinstance(value, int | float) else float(value)


def trailing_dims(own_shape: Sequence[int], shape: Sequence[int]) -> int | None:
    """How many last dimensions of `shape` an operand is repeated along: with `inner` the elements
    of these, the element at `offset` needs the operand's at `offset // inner % its elements`.

    None where the operand's own dimensions are not neighbours in `shape`.
    """
    if len(own_shape) > len(shape):
        return None
    wide = (1,) * (len(shape) - len(own_shape)) + tuple(own_shape)
    own = [place for place, size in enumerate(wide) if size != 1]
    if not own:
        return len(shape)
    first, last = own[0], own[-1]
    if wide[first : last + 1] != tuple(shape)[first : last + 1]:
        return None
    return len(shape) - 1 - last


def repeated_dims(own_shape: Sequence[int], shape: Sequence[int]) -> int:
    """As `trailing_dims`; 0 where the operand has one element, or all of its last dimensions."""
    return 0 if all(size == 1 for size in own_shape) else trailing_dims(own_shape, shape) or 0


def chain(graph: Graph, root: str, excluded: frozenset[str]) -> list[str]:
    """The operators that one kernel computes with `root`, in order.

    An operator joins when all that use it are in the chain; `barred` ones do not.
    """
    members = {root}
    for name in reversed(graph.computed):
        users = set(graph.users[name])
        if (
            name not in excluded
            and name not in graph.outputs
            and users
            and users <= members
            and _joins(graph, name)
            and graph.shape(name) == graph.shape(root)
        ):
            members.add(name)
    return [name for name in graph.computed if name in members]


def operands_of(graph: Graph, steps: Sequence[str]) -> list[str]:
    """Inputs of a chain, without duplicates."""
    names = [reference(arg) for name in steps for arg in graph[name].args]
    return list(dict.fromkeys(name for name in names if name is not None and name not in steps))


def kernel_text(
    graph: Graph, steps: Sequence[str], number: int, biases: Mapping[str, str]
) -> tuple[str, list[str]]:
    """Kernel and launcher `fused_<number>(operands…)` of a chain, and the operands in order.

    `biases` gives values to which another one is added as they are read.
    """
    root = steps[-1]
    inputs = operands_of(graph, steps)
    inputs += [bias for value, bias in biases.items() if value in inputs and bias not in inputs]
    place = {name: index for index, name in enumerate(inputs)}
    shape = graph.shape(root)
    loads: list[str] = []
    sizes, inners = {}, {}
    for name, index in place.items():
        span = repeated_dims(graph.shape(name), shape)
        if graph.shape(name) == shape:
            loads.append(f"x{index} = tl.load(p{index} + offsets, mask=mask).to(tl.float32)")
            continue
        sizes[f"size_{index}"] = f"x{index}.numel()"
        if span:
            inners[f"inner_{index}"] = f"out.shape[-{span}:].numel()"
        load = _REPEATED_LOAD if span else _WRAPPED_LOAD
        loads += load.replace("N", str(index)).splitlines()
    values = {name: f"x{index}" for name, index in place.items()}
    lines = []
    for value, bias in biases.items():
        if value in values:
            lines.append(f"b{place[value]} = x{place[value]} + x{place[bias]}")
            values[value] = f"b{place[value]}"
    for index, name in enumerate(steps):
        lines.append(f"v{index} = {expression(graph[name], values)}")
        values[name] = f"v{index}"
    body = "\n    ".join([*loads, *lines])
    counts = sizes | inners
    operands = ", ".join(f"x{i}" for i in place.values())
    pointers = ", ".join(f"p{i}" for i in place.values())
    contiguous = "\n    ".join(f"x{i} = x{i}.contiguous()" for i in place.values())
    full = next(i for name, i in place.items() if graph.shape(name) == shape)
    text = f"""@triton.jit
def _fused_{number}_kernel({", ".join([pointers, "out", *counts, "total"])}, BLOCK: tl.constexpr):
    # Elements are counted in int64: tensors of a few GB have more than 2**31.
    first = tl.program_id(0).to(tl.int64) * BLOCK
    offsets = first + tl.arange(0, BLOCK)
    mask = offsets < total
    {body}
    tl.store(out + offsets, {values[root]}.to(out.dtype.element_ty), mask=mask)


def fused_{number}({operands}):
    {contiguous}
    out = torch.empty(x{full}.shape, dtype=torch.{graph.dtype(root)}, device=x{full}.device)
    total = out.numel()
    _fused_{number}_kernel[(triton.cdiv(total, {_BLOCK}),)](
        {", ".join([operands, "out", *counts.values(), "total"])}, BLOCK={_BLOCK}, num_warps=4
    )
    return out"""
    return text, inputs


def helpers(text: str) -> list[str]:
    """The functions that expressions within `text` name."""
    return [helper for name, helper in _HELPERS.items() if f"{name}(" in text]


def expression(node: Any, values: Mapping[str, str]) -> str:
    """One step as Triton code, from the names of its operands' values."""
    template = template_of(node)
    assert template is not None  # `expressible` looked
    return template.format(*(_text(arg, values) for arg in node.args))


def _text(arg: Any, values: Mapping[str, str]) -> str:
    """An argument as Triton code."""
    name = reference(arg)
    if name is not None:
        return values[name]
    value = number(arg)
    assert value is not None  # `expressible` looked
    return f"({value!r})" if math.isfinite(value) else f'float("{value}")'
