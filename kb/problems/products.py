"""Shape rules of the operators that multiply: products, convolutions, attention, recurrences."""

from collections.abc import Mapping
from itertools import combinations
from typing import Any, Final

from kb.problems.shapes import Arguments, Rule, as_int, broadcast, per_dim, windows
from kb.problems.values import Operator, Shape, Tensor, product

_MAX_CHARS = 64
# Operands whose orders are all tried: 180 of five.
_MAX_ORDERED = 5


def matmul(op: Operator, arguments: Arguments) -> None:
    """`[..., M, K] @ [..., K, N]`; one dimension is a vector."""
    first, second = op.inputs[0], op.inputs[1] if len(op.inputs) > 1 else Tensor(None)
    if op.name in {"addmm", "baddbmm", "addmv", "addbmm"} and len(op.inputs) > 2:
        first, second = op.inputs[1], op.inputs[2]
    left, right = first.shape, second.shape
    if op.name == "einsum":
        _einsum(op, arguments)
        return
    if op.name in {"bilinear", "tensordot"}:
        (_bilinear if op.name == "bilinear" else _tensordot)(op, arguments)
        return
    if op.name == "linear" and right is not None and len(right) == 2:
        right = (right[1], right[0])
    if op.name == "outer" and left and right:
        left, right = (left[0], 1), (1, right[0])
    if left is None or right is None or not left or not right:
        op.add_output(None, first.dtype)
        return
    vector_left, vector_right = len(left) == 1, len(right) == 1
    wide_left = (1, left[0]) if vector_left else left
    wide_right = (right[0], 1) if vector_right else right
    batch = broadcast([wide_left[:-2], wide_right[:-2]]) or ()
    m, k, n = wide_left[-2], wide_left[-1], wide_right[-1]
    # A batch on the left alone is more rows of one product.
    shared = len(wide_right) == 2
    rows = product([*batch, m]) if shared else m
    shape: Shape = (
        *batch, *(() if vector_left else (m,)), *(() if vector_right else (n,))
    )  # fmt: skip
    op.add_output(shape, first.dtype)
    op.facts |= {"m": rows, "n": n, "k": k, "batch": 1 if shared else product(batch)}
    op.facts["flops"] = product([2, *batch, m, n, k])


def _bilinear(op: Operator, arguments: Arguments) -> None:  # noqa: ARG001 (a rule takes both)
    """Every output is a product of the first operand, a matrix of its own and the second."""
    first, weight = op.inputs[0], op.inputs[2].shape if len(op.inputs) > 2 else None
    if first.shape is None or weight is None or len(weight) != 3:
        op.add_output(None, first.dtype)
        return
    rows = product(first.shape[:-1])
    op.add_output((*first.shape[:-1], weight[0]), first.dtype)
    op.facts |= {"m": rows, "n": weight[0], "k": product(weight[1:])}
    op.facts["flops"] = product([2, rows, *weight])


def _tensordot(op: Operator, arguments: Arguments) -> None:
    """Sums over the last dimensions of the first operand and the first ones of the second."""
    count = as_int(arguments.get("dims", 2))
    one, two = (input_.shape for input_ in op.inputs[:2]) if len(op.inputs) > 1 else (None, None)
    if one is None or two is None or count is None or not 0 <= count <= min(len(one), len(two)):
        op.add_output(None, op.inputs[0].dtype)
        return
    outer, inner, other = one[: len(one) - count], two[:count], two[count:]
    op.add_output((*outer, *other), op.inputs[0].dtype)
    op.facts |= {"m": product(outer), "n": product(other), "k": product(inner)}
    op.facts["flops"] = product([2, *outer, *inner, *other])


def _einsum(op: Operator, arguments: Arguments) -> None:
    equation = arguments.get("equation")
    readable = isinstance(equation, str) and len(equation) <= _MAX_CHARS and "..." not in equation
    if not readable:
        op.add_output(None, op.inputs[0].dtype)
        return
    terms, arrow, output = str(equation).replace(" ", "").partition("->")
    names = terms.split(",")
    lengths: dict[str, int | None] = {}
    for name, tensor in zip(names, op.inputs, strict=False):
        if tensor.shape is not None and len(tensor.shape) == len(name):
            lengths.update(zip(name, tensor.shape, strict=True))
    if not arrow:
        joined = "".join(names)
        output = "".join(sorted(index for index in set(joined) if joined.count(index) == 1))
    shape = tuple(lengths.get(index) for index in output)
    op.add_output(shape, op.inputs[0].dtype)
    if names[1:] and frozenset("".join(names)) <= frozenset(output):  # nothing is summed
        op.name, op.kind, op.facts["flops"] = "mul", "elementwise", product(shape)
        return
    op.facts["flops"] = _contraction_flops(
        [frozenset(name) for name in names], frozenset(output), lengths
    )
    if len(names) == 2:
        one, two = (set(name) for name in names)
        outer = set(output)
        sizes = {
            "batch": one & two & outer, "k": (one & two) - outer, "m": one - two, "n": two - one,
        }  # fmt: skip
        op.facts |= {key: product([lengths.get(e) for e in axis]) for key, axis in sizes.items()}
        if not sizes["m"] and not sizes["n"]:  # rows by rows: a sum of what is multiplied
            op.name, op.kind = "sum", "reduce"


def _contraction_flops(
    terms: list[frozenset[str]], output: frozenset[str], lengths: Mapping[str, int | None]
) -> int | None:
    """Operations of an einsum, two operands at a time in the cheapest order, which is what
    `torch.einsum` does where opt_einsum is installed; of many operands from left to right."""

    def volume(indices: frozenset[str]) -> int | None:
        return product([2, *(lengths.get(index) for index in sorted(indices))])

    if len(terms) < 3:
        return volume(frozenset().union(*terms))
    pairs = [(0, 1)] if len(terms) > _MAX_ORDERED else combinations(range(len(terms)), 2)
    costs = []
    for one, two in pairs:
        rest = [term for place, term in enumerate(terms) if place not in (one, two)]
        both = terms[one] | terms[two]
        remaining = both & output.union(*rest)
        first, later = volume(both), _contraction_flops([remaining, *rest], output, lengths)
        if first is None or later is None:
            return None
        costs.append(first + later)
    return min(costs)


def convolution(op: Operator, arguments: Arguments) -> None:
    """Each length of the image is what windows with this stride fit into it, or the reverse."""
    first, weight = op.inputs[0], op.inputs[1] if len(op.inputs) > 1 else Tensor(None)
    transposed = op.kind == "conv_transpose"
    rank = int(op.name[-2])
    filters = weight.shape
    groups = as_int(arguments.get("groups", 1))
    stride = per_dim(arguments.get("stride"), rank, 1)
    dilation = per_dim(arguments.get("dilation"), rank, 1)
    extra = per_dim(arguments.get("output_padding"), rank, 0)
    window = list(filters[2:]) if filters is not None and len(filters) == rank + 2 else None
    padding = _padding(arguments.get("padding"), window or [None] * rank, dilation, rank)
    op.facts |= {"stride": stride, "dilation": dilation, "groups": groups, "window": window,
                 "padding": padding}  # fmt: skip
    if first.shape is None or filters is None or window is None or len(first.shape) < rank + 1:
        op.add_output(None, first.dtype)
        return
    image = first.shape[-rank:]
    channels = product([filters[1], groups]) if transposed else filters[0]
    sizes = zip(image, window, stride, padding, dilation, strict=True)
    out = (
        [_transposed_length(*size, more) for size, more in zip(sizes, extra, strict=True)]
        if transposed
        else [windows(*size) for size in sizes]
    )
    op.add_output((*first.shape[: -rank - 1], channels, *out), first.dtype)
    op.facts |= {"c_in": first.shape[-rank - 1], "c_out": channels}
    positions = first.elements if transposed else op.outputs[0].elements
    op.facts["flops"] = product([2, positions, filters[1], *window])


def _padding(
    value: Any, window: list[int | None], dilation: list[int | None], rank: int
) -> list[int | None]:
    if value == "same":
        return [
            None if w is None or d is None else d * (w - 1) // 2
            for w, d in zip(window, dilation, strict=True)
        ]
    return [0] * rank if value == "valid" else per_dim(value, rank, 0)


def _transposed_length(*sizes: int | None) -> int | None:
    size, window, stride, padding, dilation, extra = sizes
    if size is None or window is None or stride is None or padding is None:
        return None
    if dilation is None or extra is None:
        return None
    return max(0, (size - 1) * stride - 2 * padding + dilation * (window - 1) + extra + 1)


def attention(op: Operator, arguments: Arguments) -> None:
    """`[..., S, E]` of queries, keys and values; of a layer, four projections as well."""
    query = op.inputs[0]
    key = op.inputs[1] if len(op.inputs) > 1 else query
    value = op.inputs[2] if len(op.inputs) > 2 else key
    layer = op.name == "multi_head_attention_forward"
    op.facts["causal"] = arguments.get("is_causal") is True
    op.facts["masked"] = len(op.inputs) > 3 or arguments.get("attn_mask") is not None
    shape = query.shape
    if shape and value.shape and not layer:
        shape = (*shape[:-1], value.shape[-1])
    op.add_output(shape, query.dtype)
    if layer:
        op.add_output(None, query.dtype)
    if not shape or not key.shape or len(key.shape) < 2:
        return
    batch_first = arguments.get("batch_first") is True
    place = -2 if not layer or batch_first or len(shape) == 2 else 0
    length, keys, width = shape[place], key.shape[place], shape[-1]
    op.facts |= {"queries": length, "keys": keys}
    scores = product([4, query.elements, keys])
    linear = product([8, query.elements, width]) if layer else 0
    op.facts["flops"] = None if scores is None or linear is None else scores + linear


def recurrent(op: Operator, arguments: Arguments) -> None:
    """Every step of every layer multiplies its input and its state by the weights of all gates."""
    first = op.inputs[0]
    gates = {"lstm": 4, "gru": 3}.get(op.name, 1)
    wide, hidden = as_int(arguments.get("input_size")), as_int(arguments.get("hidden_size"))
    layers = as_int(arguments.get("num_layers", 1)) or 1
    directions = 2 if arguments.get("bidirectional") is True else 1
    shape = first.shape
    out = None if hidden is None else hidden * directions
    op.add_output((*shape[:-1], out) if shape else None, first.dtype)
    batch = None
    if shape and len(shape) == 3:
        batch = shape[0] if arguments.get("batch_first") is True else shape[1]
    for _ in range(2 if op.name == "lstm" else 1):  # the state, and an LSTM's cell
        op.add_output((layers * directions, batch, hidden), first.dtype)
    steps = product(shape[:-1]) if shape else None
    if steps is None or hidden is None or wide is None:
        return
    rows = wide + hidden + (layers - 1) * (hidden * directions + hidden)
    op.facts["flops"] = 2 * steps * directions * gates * hidden * rows
    op.facts |= {"m": batch, "n": gates * hidden, "k": hidden}


PRODUCT_RULES: Final[dict[str, Rule]] = {
    "matmul": matmul, "conv": convolution, "conv_transpose": convolution, "attention": attention,
    "recurrent": recurrent,
}  # fmt: skip
