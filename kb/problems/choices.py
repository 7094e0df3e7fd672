"""What indices are chosen for: routers of experts, and sampling."""

from kb.problems.sources import LIGHT, ancestors, distinct, producer
from kb.problems.steps import Step, total, traffic
from kb.problems.values import Operator

# What counts or orders the choices of a router.
_PLACING = frozenset({
    "bincount", "histc", "sort", "argsort", "one_hot", "scatter", "scatter_add"
})  # fmt: skip


def routing(operators: list[Operator], best: Operator) -> Step | None:
    """Return the step of a router: rows choose columns, the scores of their choices are gathered,
    and the choices are counted or put in order."""
    if len(best.outputs) < 2:
        return None
    places = {best.outputs[1].number}
    parts, gathers, placed = [best], False, False
    for op in operators[operators.index(best) + 1 :]:
        if all(t.number not in places for t in op.inputs):
            continue
        gathers |= op.name == "gather"
        placed |= op.name in _PLACING
        parts.append(op)
        places |= {t.number for t in op.outputs if "int" in t.dtype}
        if op.facts.get("in_place"):
            places.add(op.inputs[0].number)
    if not gathers or not placed:
        return None
    behind = ancestors(best.inputs[0], LIGHT | {"select"})
    scores = [op for op in behind if op.kind in {"softmax", "elementwise"}]
    kind_of_scores = None if any(op.kind == "softmax" for op in scores) else "other-scores"
    parts = distinct([*parts, *scores])
    nbytes = total(map(traffic, parts))
    return Step("moe_routing", "select", parts, best.flops, nbytes, kind_of_scores)


def top_p(op: Operator) -> Step | None:
    """Return the step that adds probabilities up in their order, to leave out the least likely."""
    softmax = producer(op.inputs[0], "softmax")
    if softmax is None:
        return None
    behind = ancestors(softmax.inputs[0], LIGHT)
    order = next((part for part in behind if part.name == "sort"), None)
    if order is None:
        return None
    parts = [order, softmax, op]
    nbytes = total(map(traffic, parts))
    return Step("top_p_sampling", "select", parts, total(p.flops for p in parts), nbytes)
