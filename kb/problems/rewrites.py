"""Exact rewrites that a problem allows: the same function with fewer operations."""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from kb.problems.analysis import Analysis
from kb.problems.steps import Step
from kb.problems.values import Shape, Tensor
from kb.profiles.values import si

_ADDING = frozenset({"add", "sub"})
_SCALING = frozenset({"mul", "div"})
_EXACTNESS = "the same except for rounding"


@dataclass(frozen=True)
class _LinearResult:
    """What a linear map computed, with additions and scalings at most after it."""

    linear: Step
    factors: tuple[Shape | None, ...] = ()
    """Shapes of the tensors that it was multiplied with or divided by."""

    def flat(self, rank: int, dims: set[int]) -> bool:
        """Whether each of these is one value along all of some dimensions of the result."""
        lengths = (
            shape[dim - rank] if dim - rank >= -len(shape) else 1
            for shape in self.factors
            if shape is not None
            for dim in dims
        )
        return None not in self.factors and {*lengths} <= {1}


def exact_rewrites(analysis: Analysis) -> Iterator[str]:
    """A sentence for each reduction or average pooling that alone reads what a linear map computes,
    with additions and scalings at most in between."""
    steps = analysis.steps
    readers = Counter(id(input_) for s in steps for op in s.operators for input_ in op.inputs)
    readers.update(id(output) for output in analysis.problem.outputs)
    mapped: dict[int, _LinearResult] = {}
    for step in steps:
        if len(step.operators) > 1:
            continue
        result = step.main.outputs[0]
        sources = [
            input_
            for input_ in step.main.inputs
            if id(input_) in mapped and readers[id(input_)] == 1
        ]
        if step.kind in {"matmul", "conv", "conv_transpose"}:
            mapped[id(result)] = _LinearResult(step)
        elif sources and step.name in _ADDING | _SCALING:
            if (next_ := _affine(step, sources[0], mapped[id(sources[0])])) is not None:
                mapped[id(result)] = next_
        elif sources:
            before = mapped[id(sources[0])]
            text = _reduced(before, step) if step.kind == "reduce" else _pooled(before, step)
            if text:
                yield f"exact rewrite: {text}, {_EXACTNESS}"


def _affine(step: Step, value: Tensor, mapped: _LinearResult) -> _LinearResult | None:
    """`value` after an addition or a scaling; None where that is neither in all of its elements."""
    op = step.main
    others = [input_ for input_ in op.inputs if input_ is not value]
    if op.outputs[0].shape != value.shape or (step.name == "div" and op.inputs[0] is not value):
        return None
    if step.name in _ADDING:
        return mapped
    return _LinearResult(mapped.linear, (*mapped.factors, *(other.shape for other in others)))


def _reduced(mapped: _LinearResult, step: Step) -> str:
    """Of a sum or a mean."""
    linear = mapped.linear
    shape = linear.main.outputs[0].shape or ()
    dim, rank = step.main.facts.get("dim"), len(shape)
    listed = dim if isinstance(dim, list | tuple) else range(rank) if dim is None else [dim]
    dims = {axis % rank for axis in listed if isinstance(axis, int)} if rank else set()
    if step.name not in {"mean", "sum"} or not dims or not mapped.flat(rank, dims):
        return ""
    facts = linear.main.facts
    if linear.kind == "matmul":
        if rank - 1 not in dims:
            return f"the {step.name} over rows may be computed before {linear.name}, on its input"
        m, n, k = (facts.get(axis) for axis in "mnk")
        if (
            facts.get("batch") != 1
            or not (isinstance(m, int) and isinstance(n, int) and isinstance(k, int))
            or n == 1
        ):
            return ""
        return (
            f"the {step.name} over {linear.name}'s {n:,} columns is a product with the {step.name} "
            f"of the weights' columns, a matrix times a vector: {si(2 * m * k + n * k)}FLOP "
            f"instead of {si(2 * m * n * k)}FLOP"
        )
    strided = linear.kind == "conv" and {*_int_list(facts.get("stride"))} != {1}
    if strided or facts.get("groups") != 1 or dims != {*range(2, rank)}:
        return ""
    return (
        f"the {step.name} over all positions of {linear.name} is a small product of its weights "
        "with sums of the input: each tap meets one stretch of it along each dimension"
    )


def _pooled(mapped: _LinearResult, step: Step) -> str:
    """Of an average pooling whose windows lie side by side, and are whole."""
    linear = mapped.linear
    window, facts = _int_list(step.main.facts.get("window")), linear.main.facts
    taps, stride = _int_list(facts.get("window")), _int_list(facts.get("stride"))
    shape, pooled = (
        tensor.shape or () for tensor in (linear.main.outputs[0], step.main.outputs[0])
    )
    whole = [
        length == size // reach
        for length, size, reach in zip(pooled[2:], shape[2:], window, strict=False)
        if length is not None and size is not None
    ]
    disjoint = _int_list(step.main.facts.get("stride")) == window
    plain = {*_int_list(step.main.facts.get("padding"))} <= {0} and {*whole} <= {True}
    spatial = {*range(2, len(shape))}
    if (
        not step.name.startswith("avg_pool")
        or not (disjoint and plain and mapped.flat(len(shape), spatial))
        or {*_int_list(facts.get("dilation"))} != {1}
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


def _int_list(value: object) -> list[int]:
    return [int(item) for item in value] if isinstance(value, list | tuple) else []
