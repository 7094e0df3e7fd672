"""Recognises matrix products in a graph: plain, batched, with a bias, with what stands after."""

from dataclasses import replace
from typing import Final

from agent.proposers.recipe.core import Core, Finder, as_root, single, values
from agent.proposers.recipe.hooks import with_epilogue
from agent.proposers.recipe.operands import operand
from agent.proposers.recipe.patterns import Match, Var, attempt, match, op, require, unwrap
from agent.proposers.recipe.reductions import row_reduction
from agent.proposers.recipe.spellings import (
    BUILT_IN_BIAS,
    GELU_LINEAR,
    LINEAR,
    LINEAR_BIAS,
    PRODUCT,
)
from judge.graph import Graph


def _gelu_linear(graph: Graph, root: str) -> Core:
    hit = match(graph, GELU_LINEAR, root)
    require(graph[root].kwargs.get("approximate", "none") == "none")
    return _product(graph, root, hit, words=frozenset({"gelu"}))


def _linear(graph: Graph, root: str) -> Core:
    if (core := attempt(_plain, graph, root)) is not None:
        return core
    # Without an activation the bias is what stands after, unless the operator has it built in.
    hit = match(graph, BUILT_IN_BIAS, root)
    core, bias = _product(graph, root, hit), hit.tensors["bias"]
    require(not graph[root].kwargs and graph.dtype(bias) == graph.dtype(root))
    arguments = {name: value for name, value in core.arguments.items() if name != "bias"}
    # What stands around it has no place beside a bias that is added later.
    return replace(core, arguments=arguments, bias=bias, main="")


def _product(graph: Graph, root: str, hit: Match, words: frozenset[str] = frozenset()) -> Core:
    a = hit.tensors["a"]
    weight = hit.tensors.get("w")
    b = weight or hit.tensors["b"]
    left, right = graph.shape(a), graph.shape(b)
    if weight is not None and len(right) == 2:
        right = (right[1], right[0])
    first, second = as_root(graph, root, a), as_root(graph, root, b)
    if weight is not None:
        second += ".t()"
    bias = hit.tensors.get("bias")
    require(bias is None or len(graph.shape(bias)) == 1)
    if len(left) == 2 and not words and bias is None and (len(right) == 1 or right[-1:] == (1,)):
        rows = f"{{{a}}}.shape[0]"
        shape = rows if len(right) == 1 else f"{rows}, 1"
        arguments = {"a": first, "x": f"{second}.reshape(-1)"}
        return single("matvec", root, arguments, f"{{r}}.view({shape})", nodes=hit.nodes)
    require(len(right) == 2 and len(left) >= 2)
    if len(left) > 2:
        arguments = {"a": f"{first}.reshape(-1, {{{a}}}.shape[-1])", "b": second}
        result = f"{{r}}.reshape(*{{{a}}}.shape[:-1], {{r}}.shape[1])"
    else:
        arguments, result = {"a": first, "b": second}, "{r}"
    if bias is not None:
        arguments["bias"] = as_root(graph, root, bias)
    return single("matmul", root, arguments, result, nodes=hit.nodes, words=words, main=a)


def _biased(graph: Graph, root: str) -> Core:
    """With the bias that kernels add themselves."""
    hit = match(graph, LINEAR_BIAS, root)
    require(not graph[root].kwargs and graph.dtype(root) == graph.dtype(hit.tensors["a"]))
    # One number added to a matrix times a vector: elementwise work adds it as well.
    require(graph[root].op != "aten.add.Tensor" or graph.shape(root)[1:] != (1,))
    return _product(graph, root, hit)


def _plain(graph: Graph, root: str) -> Core:
    """Without one: what stands after it is the kernel's, if it can."""
    return _product(graph, root, match(graph, LINEAR, root))


def _row_reduced(graph: Graph, root: str) -> Core:
    """A product whose rows are reduced to one number each, with what is done in between."""
    kind, span, nodes = row_reduction(graph, root)
    finders = (with_epilogue(_biased), with_epilogue(_plain), _biased, _plain)
    cores = (attempt(find, graph, span.x) for find in finders)
    core = unwrap(next((core for core in cores if core and core.op == "matmul"), None))
    arguments = {"kind": repr(kind), "out_dtype": f"torch.{graph.dtype(root)}"}
    return single(
        "matmul-reduce",
        root,
        core.arguments | arguments,
        "{r}[:, None]" if span.keep else "{r}",
        nodes=core.nodes | nodes,
        functions=core.functions,
        fused=core.fused,
    )


def _batched(graph: Graph, root: str) -> Core:
    """Of two tensors of three dimensions and more; leading dimensions are broadcast."""
    hit = match(graph, (PRODUCT, op("bmm.default", Var("a"), Var("b"))), root)
    a, b = hit.tensors["a"], hit.tensors["b"]
    ranks = [len(graph.shape(name)) for name in (a, b)]
    dtypes = {graph.dtype(name) for name in (a, b, root)}
    require(min(ranks) >= 2 and max(ranks) >= 3 and ranks[1] >= 3 and len(dtypes) == 1)
    return single("batched-matmul", root, values(a=a, b=b), nodes=hit.nodes, main=a)


def _triangular(graph: Graph, root: str) -> Core:
    """A triangle of a product: what is zeroed afterwards is not computed. Of factors that are
    triangles themselves, zeros are not read."""
    part = _triangle(graph, root)
    inner = unwrap(operand(graph[root])) if part is not None else root
    hit = match(graph, PRODUCT, inner)
    a, b = hit.tensors["a"], hit.tensors["b"]
    parts = [_triangle(graph, name) for name in (a, b)]
    require(all(len(graph.shape(name)) == 2 for name in (a, b)))
    require(len({graph.dtype(name) for name in (a, b, root)}) == 1)
    require([part, *parts] != [None, None, None])
    arguments = values(a=a, b=b)
    for name, which in zip(("part_a", "part_b", "part_c"), (*parts, part), strict=True):
        arguments[name] = repr(which or 0)
    inputs = tuple(name for name in dict.fromkeys((a, b)) if name in graph.triangles)
    return single("matmul-triangular", root, arguments, nodes=hit.nodes, triangles=inputs)


def _triangle(graph: Graph, name: str) -> int | None:
    """-1 of a lower triangle with its diagonal, 1 of an upper one; None of anything else."""
    if name in graph.triangles:
        return graph.triangles[name]
    node = graph[name]
    parts = {"aten.tril.default": -1, "aten.triu.default": 1}
    if node.op not in parts or any(arg != 0 for arg in node.args[1:]):
        return None
    return parts[node.op]


PRODUCTS: Final[tuple[Finder, ...]] = (
    _triangular, _row_reduced,
    with_epilogue(_biased), with_epilogue(_plain), with_epilogue(_batched),
    _gelu_linear, _biased, _linear, _batched,
)  # fmt: skip
