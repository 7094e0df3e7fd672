"""Spelled-out forms of operators: SiLU, attention, normalizations, softmax, losses."""

from collections import defaultdict
from typing import Final

from kb.problems.choices import routing, top_p
from kb.problems.sources import LIGHT, ancestors, distinct, producer
from kb.problems.steps import Step, dimension_class, total, traffic
from kb.problems.useful import causal_share, is_causal, triangles_of, triangular_share
from kb.problems.values import Operator, Tensor, product

# Of an operator's neighbours, in the order of the module, so many on a side may belong to it.
_NEAR: Final = 192
# Fewer products are written out for other reasons, such as the projections of attention.
_MIN_GROUPS: Final = 4
_PRODUCTS: Final = frozenset({"matmul", "mm", "linear"})


def composites(operators: list[Operator]) -> list[Step]:
    """Return the spelled-out forms among operators, each as one step."""
    steps: list[Step] = []
    matched: set[int] = set()

    def add(step: Step | None) -> None:
        if step is not None and matched.isdisjoint(id(op) for op in step.operators):
            steps.append(step)
            matched.update(id(op) for op in step.operators)

    for at, op in enumerate(operators):
        if op.name in {"softmax", "logsumexp"}:
            add(_attention(operators[at : at + _NEAR], op))
    for at, op in enumerate(operators):
        match op.name:
            case "mul":
                add(_silu_mul(op) or _silu(op))
            case "div":
                add(_softmax(op) or _normalized(op))
            case "cumsum":
                add(top_p(op))
            case "tril" | "triu":
                add(_triangular(op))
            case "sum" | "mean":
                add(_loss(op))
            case "log" | "log_softmax" | "logsumexp" | "topk" | "sort":
                add(_BY_NAME[op.name](operators[max(at - _NEAR, 0) : at + _NEAR], op))
    for op in operators:
        if op.name == "mul":
            add(_normalized(op))
    for step in _grouped(operators):
        add(step)
    return steps


def _silu(op: Operator) -> Step | None:
    for one, two in (op.inputs, op.inputs[::-1]) if len(op.inputs) == 2 else ():
        gate = producer(two, "sigmoid")
        if gate is not None and _same(gate.inputs[0], one):
            work = one.elements
            traffic = total([one.bytes, op.outputs[0].bytes])
            return Step("silu", "elementwise", [op, gate], work, traffic)
    return None


def _silu_mul(op: Operator) -> Step | None:
    """`silu(gate) * up`, the middle of a gated feed-forward block."""
    for one, two in (op.inputs, op.inputs[::-1]) if len(op.inputs) == 2 else ():
        gate = producer(one, "silu")
        if gate is not None and not _same(gate.inputs[0], two) and one.shape == two.shape:
            nbytes = total([gate.inputs[0].bytes, two.bytes, op.outputs[0].bytes])
            return Step("silu_mul", "glu", [op, gate], op.flops, nbytes)
    return None


def _same(one: Tensor, two: Tensor) -> bool:
    return one is two or (one.made_by is not None and one.made_by is two.made_by)


# Operators between scores and their softmax, masks and what these are made of among them.
_MOST_BETWEEN = 32
# Of so many keys to a query's element a kernel reads keys, not scores.
_FEW_QUERIES = 16
# Latent keys have no heads: batch, keys, width.
_LATENT_RANK = 3


def _attention(operators: list[Operator], softmax: Operator) -> Step | None:
    between = ancestors(softmax.inputs[0], LIGHT, _MOST_BETWEEN)
    scores = [op for op in between if op.kind == "matmul"]
    ops = [softmax]
    product: Operator | None = None
    for op in operators:
        if op is softmax or not any(t.made_by is not None and t.made_by in ops for t in op.inputs):
            continue
        if op.kind == "matmul":
            product = op
            break
        if op.kind in LIGHT:
            ops.append(op)
    if not scores or product is None or product is scores[0]:
        return None
    if softmax.name == "logsumexp" and not any(op.name == "exp" for op in ops):
        return None
    inner = [op for op in between if op.kind in LIGHT]
    masks = [op for op in inner if op.name in {"masked_fill", "where", "add", "tril", "triu"}]
    masked = any(op.name != "add" for op in masks)
    causal = any(op.name in {"tril", "triu"} or is_causal(op) for op in masks)
    shape = softmax.inputs[0].shape or (None, None)
    # q, k and v may be projected in three products: those are steps of their own.
    parts = [product, scores[0], softmax, *inner, *ops[1:]]
    unique = distinct(parts)
    return Step(
        "attention", "attention", unique, total(op.flops for op in unique),
        total(traffic(op) for op in unique),
        _cached_class(scores) or ("causal" if causal else "masked" if masked else None),
        causal_share(*shape[-2:]) if causal and len(shape) > 1 else 1.0,
    )  # fmt: skip


def _cached_class(scores: list[Operator]) -> str | None:
    """What is special about attention to a cache: pages of a table, latent keys, few queries."""
    if any(len(op.inputs) < 2 for op in scores):
        return None
    query, key = scores[0].inputs[0], _unrepeated(scores[0].inputs[1])
    # A part of the keys is rotated, the rest is what all heads share.
    if len(scores) > 1 and all(len(op.inputs[1].shape or ()) == _LATENT_RANK for op in scores):
        return "latent"
    paged = any(part.startswith("tensor") for part in key.part)
    if query.elements is None or key.elements is None:
        return "paged" if paged else None
    if query.elements * _FEW_QUERIES > key.elements:
        return None
    return "paged" if paged else "decode"


def _unrepeated(tensor: Tensor) -> Tensor:
    """Keys as they lie in memory, before they are repeated for the heads of a group."""
    made_by = tensor.made_by
    while made_by is not None and made_by.name in {"repeat", "repeat_interleave"}:
        tensor = made_by.inputs[0]
        made_by = tensor.made_by
    return tensor


_SQUARES = frozenset({"pow", "square", "mul"})


def _normalized(op: Operator) -> Step | None:
    """`x / norm(x)`, `x / sqrt(mean(x ** 2) + eps)`, `x * rsqrt(…)`."""
    if len(op.inputs) != 2:
        return None
    for one, two in (op.inputs, op.inputs[::-1]):
        behind = ancestors(two, frozenset({"elementwise"}))
        if op.name == "mul" and not any(
            operator.name in {"rsqrt", "reciprocal"} for operator in behind
        ):
            continue
        for operator in behind:
            if operator.kind != "reduce":
                continue
            if not _reaches(operator, one):
                continue
            squared = producer(operator.inputs[0], *_SQUARES) is not None
            centred = producer(one, "sub") is not None
            name = {"norm": "normalize", "vector_norm": "normalize"}.get(operator.name)
            if name is None and operator.name in {"var", "std"}:
                name = "layer_norm"
            if name is None and operator.name in {"mean", "sum"}:
                mean = operator.name == "mean" and squared
                name = "layer_norm" if mean and centred else "rms_norm" if mean else "normalize"
            if name is None:
                continue
            return _composite(
                name, "norm", op, [b for b in behind if b.kind != "matmul"], one, operator
            )
    return None


def _reaches(reduction: Operator, tensor: Tensor) -> bool:
    """Whether a reduction is over the tensor, or over elementwise work on it."""
    source = reduction.inputs[0]
    behind = ancestors(source, frozenset({"elementwise"}))
    if _same(source, tensor) or any(_same(t, tensor) for op in behind for t in op.inputs):
        return True
    near = producer(tensor, "sub")
    return near is not None and any(_same(t, near.inputs[0]) for t in reduction.inputs)


def _composite(  # noqa: PLR0917 (called from here alone)
    name: str, kind: str, op: Operator, parts: list[Operator], data: Tensor, reduction: Operator
) -> Step:
    light = frozenset({"elementwise", "reduce"})
    used = [op, *(part for part in parts if part.kind in light)]
    centring = producer(data, "sub")
    if centring is not None and name == "layer_norm":
        used.append(centring)
        data = centring.inputs[0]
    traffic = total([data.bytes, op.outputs[0].bytes])
    flops = product([5, data.elements])
    return Step(name, kind, distinct(used), flops, traffic, dimension_class(reduction))


def _softmax(op: Operator) -> Step | None:
    above, below = op.inputs if len(op.inputs) == 2 else (None, None)
    if above is None or below is None:
        return None
    exponential, total = producer(above, "exp"), producer(below, "sum")
    if exponential is None or total is None or not _same(total.inputs[0], above):
        return None
    return _composite("softmax", "softmax", op, [exponential, total], exponential.inputs[0], total)


def _cross_entropy(operators: list[Operator], log: Operator) -> Step | None:
    """`log(sum(exp(x - max(x))))`, with the gathered logits the loss of a classifier."""
    summed = producer(log.inputs[0], "sum")
    exponential = producer(summed.inputs[0], "exp") if summed is not None else None
    if summed is None or exponential is None:
        return None
    parts, data = [summed, exponential, log], exponential.inputs[0]
    sources = [data]
    shifted = producer(data, "sub")
    if shifted is not None and (highest := producer(shifted.inputs[-1], "max")) is not None:
        parts += [shifted, highest]
        data = shifted.inputs[0]
        sources.append(data)
    chosen = _gathered(operators, sources, summed)
    name, kind = ("cross_entropy", "loss") if chosen else ("logsumexp", "reduce")
    # A row's maximum and sum are taken together, so each row is read once.
    nbytes = total([data.bytes, log.outputs[0].bytes])
    flops = product([4, data.elements])
    return Step(name, kind, [*parts, *chosen], flops, nbytes, dimension_class(summed))


def _log_likelihood(operators: list[Operator], normalizer: Operator) -> Step | None:
    """The gathered elements of `log_softmax(x)`, or of x beside `logsumexp(x)`."""
    data = normalizer.inputs[0]
    less = [
        op
        for op in operators
        if op.name == "sub" and any(t.made_by is normalizer for t in op.inputs[1:])
    ]
    sources = [data, *normalizer.outputs[:1], *(op.outputs[0] for op in less)]
    chosen = _gathered(operators, sources, normalizer)
    if not chosen:
        return None
    shifted = [op for op in less if _same_data(op.outputs[0], chosen[0].inputs[0])]
    nbytes = total([data.bytes, chosen[0].outputs[0].bytes])
    parts, flops = [normalizer, *shifted, *chosen], product([4, data.elements])
    return Step("cross_entropy", "loss", parts, flops, nbytes, dimension_class(normalizer))


def _gathered(operators: list[Operator], sources: list[Tensor], summed: Operator) -> list[Operator]:
    """The operator that gathers one element of each row, of data or what was made of it."""
    return [
        op
        for op in operators
        if op.name == "gather"
        and any(_same_data(op.inputs[0], source) for source in sources)
        and _one_of_each(op, summed)
    ][:1]


def _one_of_each(gather: Operator, summed: Operator) -> bool:
    """Whether one element is gathered of each row that was summed."""
    shape, dim = gather.outputs[0].shape, summed.facts.get("dim")
    data = summed.inputs[0].shape
    if shape is None or data is None or not isinstance(dim, int) or len(shape) != len(data):
        return False
    dim %= len(data)
    along = gather.facts.get("dim")
    if not isinstance(along, int) or along % len(data) != dim:
        return False
    return shape == (*data[:dim], 1, *data[dim + 1 :])


def _same_data(one: Tensor, two: Tensor) -> bool:
    return one.number == two.number and one.part == two.part


def _triangular(op: Operator) -> Step | None:
    product = producer(op.inputs[0], "matmul", "mm")
    if product is None:
        return None
    traffic = total([*(t.bytes for t in product.inputs), op.outputs[0].bytes])
    share = triangular_share(product, triangles_of(product, op))
    return Step("triangular_matmul", "matmul", [product, op], product.flops, traffic, share=share)


def _loss(op: Operator) -> Step | None:
    """A full reduction of elementwise work on two or more inputs."""
    if not op.facts.get("full") or op.inputs[0].made_by is None:
        return None
    behind = ancestors(op.inputs[0], frozenset({"elementwise"}), _MOST_BETWEEN)
    leaves = {id(t): t for operator in behind for t in operator.inputs if t.origin == "input"}
    if len(leaves) < 2 or any(operator.kind != "elementwise" for operator in behind):
        return None
    traffic = total(tensor.bytes for tensor in leaves.values())
    parts = [op, *behind]
    return Step("pointwise_loss", "loss", parts, total(part.flops for part in parts), traffic)


def _is_stored_part(tensor: Tensor) -> bool:
    """Whether a tensor is part of one that the module is given or has."""
    return bool(tensor.part) and tensor.origin in {"parameter", "input"}


def _grouped(operators: list[Operator]) -> list[Step]:
    """Products with matrices that are parts of one tensor, none of which needs another: a loop over
    experts or heads that is written out."""
    shared = defaultdict[int, list[Operator]](list)
    for op in operators:
        if op.name in _PRODUCTS and len(op.inputs) > 1 and _is_stored_part(op.inputs[1]):
            shared[op.inputs[1].number].append(op)
    groups = {number: group for number, group in shared.items() if len(group) >= _MIN_GROUPS}
    number_of = {id(op): number for number, group in groups.items() for op in group}
    deps = dict[int, set[int]]()
    for op in operators if groups else ():
        producers = [id(input_.made_by) for input_ in op.inputs if input_.made_by is not None]
        numbers = {number_of[producer] for producer in producers if producer in number_of}
        deps[id(op)] = numbers.union(*(deps.get(producer, ()) for producer in producers))
    steps = []
    for number, group in groups.items():
        matrices = {op.inputs[1].part: op.inputs[1].shape for op in group}
        alone = not any(number in deps[id(op)] for op in group)
        if alone and len(matrices) == len(group) and len(set(matrices.values())) == 1:
            flops, nbytes = total(op.flops for op in group), total(map(traffic, group))
            steps.append(Step("grouped_matmul", "matmul", group, flops, nbytes))
    return steps


_BY_NAME: Final = {
    "log": _cross_entropy, "log_softmax": _log_likelihood, "logsumexp": _log_likelihood,
    "topk": routing, "sort": routing,
}  # fmt: skip
