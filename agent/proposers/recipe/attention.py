"""Recognises attention in a graph, PyTorch's operator or written out, and causal softmax."""

from dataclasses import dataclass, field
from typing import Final

from agent.proposers.recipe.core import Core, Finder, out_dtype, single, values
from agent.proposers.recipe.operands import argument, bind_arguments, operand
from agent.proposers.recipe.patterns import NoMatchError, attempt, require, uncast, unwrap
from agent.proposers.recipe.softmax import softmax_of
from judge.graph import Graph, reference

# So few queries leave no work for programs that own a block of them: keys are split instead.
_FEW_QUERIES: Final = 16
# Kernels keep a block of queries and its results on chip; wider heads leave no room.
WIDEST_HEAD: Final = 256
_PRODUCTS: Final = ("aten.matmul.default", "aten.bmm.default")
MINUS_INFINITY: Final = {"float": "-inf"}
"""As an operator's argument."""
FUSED: Final = "aten.scaled_dot_product_attention.default"
"""PyTorch's operator."""
FUSED_ARGUMENTS: Final = (
    ("query", None), ("key", None), ("value", None), ("attn_mask", None), ("dropout_p", 0.0),
    ("is_causal", False), ("scale", None), ("enable_gqa", False),
)  # fmt: skip
"""Its arguments, with the defaults of the schema."""


@dataclass(slots=True)
class _Parts:
    """Parts of an attention."""

    q: str
    k: str
    v: str
    nodes: set[str] = field(default_factory=set)
    scale: float | None = None
    """Of the products; None: 1 / sqrt(width)."""
    bias: str | None = None
    """Added to scores; where one of bool is true the score is hidden."""
    causal: bool = False


def _fused_operator(graph: Graph, root: str) -> _Parts:
    """PyTorch's operator, without dropout."""
    node = graph[root]
    require(node.op == FUSED)
    arguments = unwrap(bind_arguments(node, FUSED_ARGUMENTS))
    require(arguments["dropout_p"] == 0 and isinstance(arguments["scale"], float | None))
    q, k, v = (unwrap(reference(arguments[name])) for name in ("query", "key", "value"))
    bias = reference(arguments["attn_mask"])
    require(bias is not None or arguments["attn_mask"] is None)
    require(bias is None or "float" in graph.dtype(bias))
    return _Parts(q, k, v, {root}, arguments["scale"], bias, arguments["is_causal"] is True)


def _written_out(graph: Graph, root: str) -> _Parts:
    """A product with a softmax over the last dimension of a product."""
    node = graph[root]
    require(node.op in _PRODUCTS)
    weights, casts = uncast(graph, unwrap(operand(node)))
    scores = unwrap(softmax_of(graph, weights))
    parts = _Parts("", "", unwrap(operand(node, 1)), {root, weights, *casts}, 1.0)
    _walk_scores(graph, scores, parts)
    return parts


def _walk_scores(graph: Graph, name: str, parts: _Parts) -> None:
    """Walk from the softmax down to the product, where all on the way is known."""
    factor = 1.0
    for _ in range(8):
        name, casts = uncast(graph, name)
        node = graph[name]
        parts.nodes |= {name, *casts}
        operands = [operand(node, place) for place in (0, 1)]
        if node.op in _PRODUCTS:
            _read_product(graph, name, parts, factor)
            return
        scale = _scale(graph, name, "aten.mul.Tensor", "aten.mul.Scalar", "aten.div.Tensor")
        if scale is not None:
            factor *= scale
        elif node.op == "aten.masked_fill.Scalar" and node.args[2] == MINUS_INFINITY:
            require(factor == 1.0 and not parts.bias and not parts.causal)
            mask = attempt(_causal_mask, graph, str(operands[1]), graph.shape(name))
            if mask is not None and mask[0] == 0:
                parts.causal = True
                parts.nodes |= mask[1]
            else:
                parts.bias = operands[1]
        elif node.op == "aten.add.Tensor" and not node.kwargs and None not in operands:
            sides = [n for n, side in enumerate(operands) if _reaches_product(graph, str(side))]
            require(len(sides) == 1 and not parts.bias and factor == 1.0)
            side = sides[0]
            parts.bias = str(operands[1 - side])
            name = str(operands[side])
            continue
        else:
            break
        name = str(operands[0])
    raise NoMatchError


def _scale(graph: Graph, name: str, *operators: str) -> float | None:
    """The constant that a value is multiplied with, or divided by; None where it is none."""
    node, constant = graph[name], argument(graph[name], 1)
    if node.op not in operators or not isinstance(constant, int | float) or not constant:
        return None
    return 1 / constant if "div" in node.op else constant


def _reaches_product(graph: Graph, name: str) -> bool:
    for _ in range(4):
        node = graph[name]
        if node.op in _PRODUCTS:
            return True
        source = operand(node)
        if source is None:
            return False
        name = source
    return False


def _read_product(graph: Graph, name: str, parts: _Parts, factor: float) -> None:
    q, transposed = unwrap(operand(graph[name])), unwrap(operand(graph[name], 1))
    view, rank = graph[transposed], len(graph.shape(transposed))
    if view.op == "aten.transpose.int":
        swaps = {int(argument(view, place)) % rank for place in (1, 2)} == {rank - 1, rank - 2}
    else:
        swapped = [*range(rank - 2), rank - 1, rank - 2]
        swaps = view.op == "aten.permute.default" and view.args[1] == swapped
    require(swaps)
    parts.q, parts.k = q, unwrap(operand(view))
    parts.nodes.add(transposed)
    scale = _scale(graph, q, "aten.mul.Tensor")
    if scale is not None:
        parts.q, factor = str(operand(graph[q])), factor * scale
        parts.nodes.add(q)
    parts.scale = factor


def _causal_mask(graph: Graph, mask: str, shape: tuple[int, ...]) -> tuple[int, set[str]]:
    """Of a mask that hides what is above a diagonal in the last two dimensions of `shape`: the
    last diagonal that is seen, and the values that the mask is made of."""
    node, nodes, hides = graph[mask], {mask}, True
    while node.op in ("aten.eq.Scalar", "aten.logical_not.default", "aten.bitwise_not.default"):
        require(node.op != "aten.eq.Scalar" or node.args[1] in (0, False))
        hides = not hides
        node = graph[str(operand(node))]
        nodes.add(node.name)
    while node.op in ("aten._to_copy.default", "aten.unsqueeze.default", "aten.view.default"):
        node = graph[str(operand(node))]
        nodes.add(node.name)
    require(node.op == ("aten.triu.default" if hides else "aten.tril.default"))
    diagonal = int(argument(node, 1, 0))
    ones = graph[str(operand(node))]
    filled = ones.op == "aten.ones.default" or (
        ones.op == "aten.full.default" and ones.args[1] in (1, True)
    )
    require(filled and graph.shape(ones.name) == shape[-2:])
    return (diagonal - 1 if hides else diagonal), nodes | {ones.name}


def _decode(graph: Graph, root: str) -> Core:
    """With few queries, none of which is masked."""
    core = _attention(graph, root, "attention-decode")
    require(graph.is_tensor(root) and graph.shape(root)[-2:-1] <= (_FEW_QUERIES,))
    require("causal" not in core.arguments)
    return core


def _attention(graph: Graph, root: str, family: str = "attention") -> Core:
    parts = attempt(_fused_operator, graph, root) or _written_out(graph, root)
    names = (parts.q, parts.k, parts.v)
    ranks = {len(graph.shape(name)) for name in names}
    dtypes = {graph.dtype(name) for name in (*names, root)}
    require(len(ranks) == 1 and len(dtypes) == 1 and ranks <= {3, 4})
    q, k, v = (graph.shape(name) for name in names)
    require(q[0] == k[0] and k[:-1] == v[:-1] and k[-1] == q[-1] and q[-3] % k[-3] == 0)
    require(q[-1] <= WIDEST_HEAD)
    # Heads without a batch: one batch.
    lead, back = ("[None]", "[0]") if ranks == {3} else ("", "")
    arguments = {key: f"{{{name}}}{lead}" for key, name in zip(("q", "k", "v"), names, strict=True)}
    if parts.causal:
        arguments["causal"] = "True"
    if parts.scale is not None and abs(parts.scale * q[-1] ** 0.5 - 1) > 1e-6:
        arguments["scale"] = repr(float(parts.scale))
    if parts.bias is not None:
        require(len(graph.shape(parts.bias)) <= 4)
        require(family == "attention" or graph.dtype(parts.bias) != "bool")
        arguments |= values(bias=parts.bias)
    return single(family, root, arguments, f"{{r}}{back}", nodes=parts.nodes)


def _causal_softmax(graph: Graph, root: str) -> Core:
    """Softmax over the last dimension of what is masked above a diagonal."""
    masked, casts = uncast(graph, unwrap(softmax_of(graph, root)))
    fill = graph[masked]
    require(fill.op == "aten.masked_fill.Scalar" and fill.args[2] == MINUS_INFINITY)
    mask = _causal_mask(graph, str(operand(fill, 1)), graph.shape(masked))
    x, more = uncast(graph, str(operand(fill)))
    nodes = {masked, *casts, *more, *mask[1]}
    scale = _scale(graph, x, "aten.mul.Tensor", "aten.div.Tensor")
    if scale is not None:
        nodes.add(x)
        x = str(operand(graph[x]))
    arguments = values(x=x) | {"scale": repr(float(scale or 1)), "diagonal": str(mask[0])}
    arguments |= out_dtype(graph, root, x)
    return single("causal-softmax", root, arguments, nodes=nodes)


ATTENTION: Final[tuple[Finder, ...]] = (_decode, _attention, _causal_softmax)
