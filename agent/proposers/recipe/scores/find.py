"""Finds attention whose scores are any elementwise function of products, and its kernel."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from agent.proposers.recipe import fuse
from agent.proposers.recipe.attention import (
    ATTENTION,
    FUSED,
    FUSED_ARGUMENTS,
    MINUS_INFINITY,
)  # fmt: skip
from agent.proposers.recipe.carry import Recipe
from agent.proposers.recipe.core import Core
from agent.proposers.recipe.operands import argument, bind_arguments, operand
from agent.proposers.recipe.patterns import NoMatchError, attempt, require, uncast, unwrap
from agent.proposers.recipe.scores.reading import LOW, WIDTH, Read, contraction, read
from agent.proposers.recipe.scores.text import kernel_text
from agent.proposers.recipe.scores.values import Attention, Product, Step, Values
from agent.proposers.recipe.softmax import softmax_of
from judge.graph import Graph, operands, reference

SLUG: Final = "scores"
_NOT: Final = "tl.where({0} != 0.0, 0.0, 1.0)"


@dataclass(frozen=True)
class _Weights:
    """A softmax over the last dimension of scores."""

    scores: str
    nodes: frozenset[str]
    """What it is made of, but for the scores."""
    sink: str | None = None
    """One more score, which has no value."""
    by_logs: bool = False
    """Whether it is written as exponentials of scores less the logarithm of their sum."""


def attentions(graph: Graph) -> list[tuple[Core, Recipe]]:
    """Attention in a graph, from the last to the first, each with a kernel for it.

    Left out is what kernels of the knowledge base are for: scores that are products alone, scaled.
    """
    found: list[tuple[Core, Recipe]] = []
    used: set[str] = set()
    slugs: dict[str, str] = {}
    for root in reversed(graph.computed):
        core_and_code = None if root in used else attempt(_attention, graph, root)
        if core_and_code is None or _is_plain(graph, root):
            continue
        core, code = core_and_code
        inner = core.nodes - core.results.keys()
        outside = any(set(graph.users[name]) - core.nodes for name in inner)
        if outside or core.nodes & used or inner & set(graph.outputs):
            continue
        used |= core.nodes
        slug = slugs.setdefault(code, SLUG if not slugs else f"{SLUG}-{len(slugs) + 1}")
        recipe = Recipe(
            slug, SLUG, code, ("float32", "float16", "bfloat16"), ("kernel-fusion",),
            citation="Attention by blocks of keys, written for this problem's scores.",
        )  # fmt: skip
        found.append((core, recipe))
    return found


def _is_plain(graph: Graph, root: str) -> bool:
    cores = [attempt(find, graph, root) for find in ATTENTION]
    return any(core is not None and "bias" not in core.arguments for core in cores)


def _attention(graph: Graph, root: str) -> tuple[Core, str]:
    """One attention and the text of its kernel."""
    if graph[root].op == FUSED:
        return _core(graph, root, *_fused(graph, root))
    last = contraction(graph, root)
    for side in (0, 1):
        weights, casts = uncast(graph, last.parts[side])
        found = attempt(_softmax, graph, weights) or attempt(_exponentials, graph, weights)
        letters = last.letters[side]
        if found is None or letters[-1] in last.out:
            continue
        values = Values(graph, graph.shape(found.scores))
        axes = {letter: axis for axis, letter in enumerate(letters)}
        name, other = last.other(side)
        require(sum(letter not in axes for letter in other) == 1)
        of_values = read(graph, name, [axes.get(x, WIDTH) for x in other], values.sizes)
        rank = len(values.sizes) - 1
        attention = Attention(
            values,
            values.whole(found.scores),
            of_values,
            tuple(axes.get(letter, WIDTH) for letter in last.out),
            graph.dtype(root),
            hidden=_hidden(graph, found.scores, values),
            sink=None
            if found.sink is None
            else values.add(read(graph, found.sink, (*range(rank), None), (*values.sizes[:-1], 1))),
            by_logs=found.by_logs,
            is_exact=not casts and graph.dtype(root) not in LOW and not _is_rounded(graph, root),
        )
        nodes = {root, weights, *casts} | found.nodes | values.inside
        return _core(graph, root, attention, nodes, found)
    raise NoMatchError


def _is_rounded(graph: Graph, root: str) -> bool:
    """Whether all that is made of a value is rounded to a narrow dtype at once."""
    users = graph.users[root]
    return bool(users) and all(
        graph[user].op == "aten._to_copy.default" and graph.dtype(user) in LOW for user in users
    )


def _softmax(graph: Graph, name: str) -> _Weights:
    """PyTorch's softmax; of scores and a sink all but the last column."""
    node = graph[name]
    if node.op == "aten.slice.Tensor":
        whole, casts = uncast(graph, unwrap(operand(node)))
        joined = unwrap(softmax_of(graph, whole))
        scores, sink = _with_sink(graph, joined)
        require(argument(node, 1, 0) % len(graph.shape(name)) == len(graph.shape(name)) - 1)
        require(argument(node, 2, 0) in (0, None) and graph.shape(name) == graph.shape(scores))
        return _Weights(scores, frozenset({name, whole, joined, *casts}), sink)
    return _Weights(unwrap(softmax_of(graph, name)), frozenset())


def _with_sink(graph: Graph, joined: str) -> tuple[str, str]:
    """Scores and one more column, which are one tensor."""
    node = graph[joined]
    parts = operands(node)
    require(node.op == "aten.cat.default" and len(parts) == 2)
    rank = len(graph.shape(joined))
    require(argument(node, 1, 0) % rank == rank - 1)
    scores, sink = parts
    require(graph.shape(sink)[-1] == 1)
    while graph[sink].op == "aten.expand.default":  # what is repeated is read as it is
        source = unwrap(operand(graph[sink]))
        if len(graph.shape(source)) != rank:
            break
        sink = source
    return scores, sink


def _exponentials(graph: Graph, name: str) -> _Weights:
    """Exponentials of scores less the logarithm of their sum."""
    node = graph[name]
    require(node.op == "aten.exp.default")
    difference = unwrap(operand(node))
    require(graph[difference].op == "aten.sub.Tensor" and not graph[difference].kwargs)
    scores = unwrap(operand(graph[difference]))
    total, kept = unwrap(operand(graph[difference], 1)), frozenset({name, difference})
    if graph[total].op == "aten.unsqueeze.default":
        require(argument(graph[total], 1) in (-1, len(graph.shape(total)) - 1))
        kept |= {total}
        total = unwrap(operand(graph[total]))
    of, keeps = _log_of_sum(graph, total)
    require(keeps == (len(kept) == 2))
    if of == scores:
        return _Weights(scores, kept | {total}, by_logs=True)
    joined, sink = _with_sink(graph, of)
    require(joined == scores)
    return _Weights(scores, kept | {total, of}, sink, by_logs=True)


def _log_of_sum(graph: Graph, name: str) -> tuple[str, bool]:
    """Of what a value is the logarithm of the sum of exponentials over the last dimension, and
    whether that stays as one of one element."""
    node = graph[name]
    require(node.op == "aten.logsumexp.default")
    source = unwrap(operand(node))
    require(node.args[1] in ([-1], [len(graph.shape(source)) - 1]))
    return source, bool(argument(node, 2, False))


def _hidden(graph: Graph, scores: str, values: Values) -> int | None:
    """The condition under which a score counts for nothing, if there is one."""
    name, _ = uncast(graph, scores)
    node = graph[name]
    if argument(node, 2) != MINUS_INFINITY:
        return None
    if node.op == "aten.masked_fill.Scalar":
        return values.whole(unwrap(operand(node, 1)))
    if node.op == "aten.where.ScalarOther":
        return values.add(Step(_NOT, (values.whole(unwrap(operand(node))),)))
    return None


def _fused(graph: Graph, root: str) -> tuple[Attention, set[str], None]:
    """PyTorch's operator with a mask that hides scores; queries may share keys."""
    arguments = unwrap(bind_arguments(graph[root], FUSED_ARGUMENTS))
    q, k, v = (unwrap(reference(arguments[name])) for name in ("query", "key", "value"))
    mask, causal = reference(arguments["attn_mask"]), arguments["is_causal"] is True
    require(arguments["dropout_p"] == 0 and mask is not None and graph.dtype(mask) == "bool")
    shape = graph.shape(q)
    rank = len(shape)
    require(rank > 2 and rank == len(graph.shape(k)) == len(graph.shape(v)) and not causal)
    sizes = (*shape[:-1], graph.shape(k)[-2])
    heads, times = graph.shape(k)[-3], 1
    if arguments["enable_gqa"] is True:
        require(shape[-3] % heads == 0)
        times = shape[-3] // heads
    values = Values(graph, sizes)
    lead = (*range(rank - 2),)
    shared = (*(1 for _ in lead[1:]), times, 1, 1) if times > 1 else ()

    def of_keys(name: str) -> Read:
        if times == 1:
            return read(graph, name, (*lead, rank - 1, WIDTH), sizes)
        own_sizes = (*sizes[:-3], heads, *sizes[-2:])
        plain = read(graph, name, (*lead, rank - 1, WIDTH), own_sizes)
        require(not plain.shared and None not in plain.axes)
        return Read(plain.name, plain.axes, shared)

    rows = read(graph, q, (*lead, rank - 2, WIDTH), sizes)
    scale = arguments["scale"]
    factor = 1 / math.sqrt(shape[-1]) if scale is None else unwrap(fuse.number(scale))
    scaled = values.add(Step("{0} * {1}", (values.add(Product(rows, of_keys(k))), float(factor))))
    hidden = values.add(Step(_NOT, (values.whole(unwrap(mask)),)))
    score = values.add(Step('tl.where({0} != 0.0, float("-inf"), {1})', (hidden, scaled)))
    out = (*lead, rank - 2, WIDTH)
    attention = Attention(
        values, score, of_keys(v), out, graph.dtype(root), hidden=hidden, has_empty_rows=True
    )
    return attention, {root}, None


def _core(
    graph: Graph, root: str, attention: Attention, nodes: set[str], found: _Weights | None
) -> tuple[Core, str]:
    """The core and the kernel's text."""
    rows = _row_axis(attention)
    logs = [] if found is None else list(_logs(graph, found))
    results = {root: "{r}"}
    if logs:
        results = {root: "{r0}"} | {
            name: "{r1}.unsqueeze(-1)" if keeps else "{r1}" for name, keeps in logs
        }
        nodes |= {name for name, _ in logs}
    reads = attention.reads()
    arguments = {f"t{number}": f"{{{each.name}}}" for number, each in enumerate(reads)}
    text = kernel_text(
        attention, {each.name: graph.dtype(each.name) for each in reads}, rows, bool(logs)
    )
    core = Core(SLUG, frozenset(nodes), arguments, results, returns=1 + bool(logs))
    return core, text


def _logs(graph: Graph, found: _Weights) -> Iterator[tuple[str, bool]]:
    """Logarithms of the sum of the scores' exponentials that are read, and whether each keeps the
    last dimension."""
    of = found.scores
    if found.sink is not None:
        of = next(user for user in graph.users[of] if graph[user].op == "aten.cat.default")
    for user in graph.users[of]:
        hit = attempt(_log_of_sum, graph, user)
        if hit is None or hit[0] != of:
            continue
        if user in graph.outputs or set(graph.users[user]) - found.nodes:
            yield user, hit[1]


def _row_axis(attention: Attention) -> int:
    """The axis that a program has a block of: the longest one of the queries alone."""
    products = list(attention.products().values())
    require(bool(products))
    shared = attention.of_values.along.union(*(product.keys.along for product in products))
    sizes = attention.values.sizes
    own = [axis for axis in range(len(sizes) - 1) if axis not in shared]
    require(bool(own))
    axis = max(own, key=lambda each: sizes[each])
    for product in products:
        require((axis in product.rows.axes or sizes[axis] == 1) and WIDTH in product.rows.axes)
        require(len(sizes) - 1 not in product.rows.axes)
    return axis
