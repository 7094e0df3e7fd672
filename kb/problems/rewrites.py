"""Exact rewrites that a problem allows: the same function with fewer operations."""

import math
from collections.abc import Iterator, Sequence

from kb.problems.steps import Step
from kb.profiles.values import si

_AFFINE = frozenset({"add", "sub", "mul", "div"})
_EXACT = "the same but for rounding"


def exact_rewrites(steps: Sequence[Step]) -> Iterator[str]:
    """A sentence for each reduction or average pooling of what a linear map computes, with
    additions and scalings at most in between."""
    linear: Step | None = None
    for step in steps:
        if step.kind in {"matmul", "conv", "conv_transpose"}:
            linear = step
        elif linear is not None and {op.name for op in step.operators} <= _AFFINE:
            continue
        elif linear is not None:
            text = _reduced(linear, step) if step.kind == "reduce" else _pooled(linear, step)
            if text:
                yield f"exact rewrite: {text}, {_EXACT}"
            linear = None


def _reduced(linear: Step, step: Step) -> str:
    """Of a sum or a mean."""
    shape = linear.main.outputs[0].shape or ()
    dim, rank = step.main.facts.get("dim"), len(shape)
    listed = dim if isinstance(dim, list | tuple) else range(rank) if dim is None else [dim]
    dims = {each % rank for each in listed if isinstance(each, int)} if rank else set()
    if step.name not in {"mean", "sum"} or not dims:
        return ""
    facts = linear.main.facts
    if linear.kind == "matmul":
        if rank - 1 not in dims:
            return f"the {step.name} over rows may be taken before {linear.name}, of its input"
        m, n, k = (facts.get(each) for each in "mnk")
        if not (isinstance(m, int) and isinstance(n, int) and isinstance(k, int)) or n == 1:
            return ""
        return (
            f"the {step.name} over {linear.name}'s {n:,} columns is a product with the {step.name} "
            f"of the weights' columns, a matrix times a vector: {si(2 * m * k + n * k)}FLOP "
            f"instead of {si(2 * m * n * k)}FLOP"
        )
    strided = linear.kind == "conv" and {*_listed(facts.get("stride"))} != {1}
    if strided or facts.get("groups") != 1 or dims != {*range(2, rank)}:
        return ""
    return (
        f"the {step.name} over all positions of {linear.name} is a small product of its weights "
        "with sums of the input: each tap meets one stretch of it along each dimension"
    )


def _pooled(linear: Step, step: Step) -> str:
    """Of an average pooling whose windows lie side by side."""
    window, facts = _listed(step.main.facts.get("window")), linear.main.facts
    taps, stride = _listed(facts.get("window")), _listed(facts.get("stride"))
    apart = _listed(step.main.facts.get("stride")) == window
    plain = {*_listed(step.main.facts.get("padding"))} <= {0} and apart
    if (
        not step.name.startswith("avg_pool")
        or not plain
        or {*_listed(facts.get("dilation"))} != {1}
    ):
        return ""
    if linear.kind == "conv" and {*stride} == {1}:
        longer = [tap + reach - 1 for tap, reach in zip(taps, window, strict=False)]
        share = math.prod(longer) / math.prod([*taps, *window])
        if share >= 1:
            return ""
        size = " x ".join(map(str, longer))
        return (
            f"{step.name} after {linear.name} is one convolution with a window of {size} (weights "
            f"averaged over every window that meets them) and the pooling's stride: {share:.0%} of "
            "the products"
        )
    if linear.kind == "conv_transpose" and stride == window and facts.get("groups") == 1:
        return (
            f"{step.name} after {linear.name}, whose stride is the pooling's, is one convolution "
            "without stride, of a few taps with averaged weights"
        )
    return ""


def _listed(value: object) -> list[int]:
    return [int(each) for each in value] if isinstance(value, list | tuple) else []
