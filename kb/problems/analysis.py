"""What a module's operators amount to: the heaviest, what surrounds it, its family and its shape.

Spelled-out forms are put together first: `x * sigmoid(x)` is SiLU, a softmax between two products
is attention, `x / norm(x)` is a normalization. Times are estimates by bytes and FLOPs on a card,
good for comparing operators of one module.
"""

from dataclasses import dataclass, field
from typing import Final

from kb.gpus import GpuSpec, all_specs
from kb.problems.reading import Problem
from kb.problems.steps import Step, steps_of, total

# Where no card is named, operators are compared as on this one.
TYPICAL_CARD: Final = "H100-SXM"
# What follows a product is fused into it, so a product is the operator to build on as long as it
# takes this share of what takes longest.
_PRODUCT_SHARE = 0.2
_PRODUCTS = frozenset({"matmul", "conv", "conv_transpose", "attention", "recurrent"})
# Work that is done on the way in or out of another operator.
_FUSIBLE = frozenset({"elementwise", "norm", "softmax", "reduce", "pool", "adaptive_pool", "glu"})
_NO_WORK = frozenset({"dropout", "alias", "to"})
_ANCHORS = frozenset({
    "norm", "softmax", "reduce", "argreduce", "scan", "matmul", "conv", "conv_transpose", "pool",
    "adaptive_pool", "loss", "attention", "recurrent", "embedding", "select", "glu", "unknown",
    "library",
})  # fmt: skip
# With unknown shapes operators are weighed by what they are.
_WEIGHT: Final = {"attention": 5.0, "recurrent": 5.0, "conv": 4.0, "conv_transpose": 4.0,
                  "matmul": 4.0, "scan": 2.0, "norm": 1.5, "softmax": 1.5}  # fmt: skip
_NEAR = 6


@dataclass(slots=True)
class Analysis:
    """A problem's steps, and the one to build a kernel around."""

    problem: Problem
    steps: list[Step]
    heaviest: Step | None
    before: list[Step] = field(default_factory=list)
    after: list[Step] = field(default_factory=list)
    share: float = 0.0
    """Of the estimated time of all steps, what the heaviest's family takes."""
    flops: int | None = None
    """Of all products and reductions."""
    tensor_flops: int | None = None
    """Of those that tensor cores can do and that no zero makes needless."""
    dense_flops: int | None = None
    """The same with those on structural zeros."""
    io_bytes: int | None = None
    """Inputs, parameters and outputs once."""
    moved_bytes: int | None = None
    """What the steps move when each reads its inputs and writes its result."""
    dtype: str = "float32"


def analyse(problem: Problem, card: GpuSpec | None = None) -> Analysis:
    """Find the heaviest operator of a problem and the work around it."""
    spec = card or all_specs()[TYPICAL_CARD]
    steps = steps_of(problem.operators)
    dtype = _dtype(problem)
    for step in steps:
        step.seconds = _seconds(step, spec, dtype)
    heaviest = _heaviest(steps)
    found = Analysis(problem, steps, heaviest, dtype=dtype)
    if heaviest is not None:
        found.before, found.after = _around(steps, heaviest)
        seconds = sum(step.seconds for step in steps)
        same = sum(s.seconds for s in steps if s.family is heaviest.family)
        found.share = same / seconds if seconds else 1.0
    found.flops = total(step.flops for step in steps if step.kind in _ANCHORS)
    products = [step for step in steps if step.kind in _PRODUCTS and not _is_stencil(step)]
    found.tensor_flops = total(step.useful_flops for step in products)
    found.dense_flops = total(step.flops for step in products)
    found.io_bytes = _io_bytes(problem)
    found.moved_bytes = total(step.bytes for step in steps)
    return found


def _is_stencil(step: Step) -> bool:
    """A convolution of single channels sums too few products for tensor cores."""
    return step.family is not None and step.family.name == "depthwise-conv"


def _dtype(problem: Problem) -> str:
    floats = [t.dtype for t in (*problem.inputs, *problem.parameters) if "float" in t.dtype]
    return floats[0] if floats else "float32"


def _io_bytes(problem: Problem) -> int | None:
    used = {id(t): t for op in problem.operators for t in op.inputs if t.origin == "input"}
    tensors = [*(used.values() or problem.inputs), *problem.parameters, *problem.outputs]
    return total(tensor.bytes for tensor in tensors)


def _seconds(step: Step, spec: GpuSpec, dtype: str) -> float:
    flops = step.useful_flops
    if flops is None or step.bytes is None:
        return _WEIGHT.get(step.kind, 1.0 if step.kind in _ANCHORS else 0.5)
    rate = spec.dense_flops(dtype) or spec.dense_flops("float32") or 1e12
    if step.kind not in _PRODUCTS:
        rate = spec.dense_flops("float32") or rate
    return max(flops / rate, step.bytes / spec.memory_bps)


def _heaviest(steps: list[Step]) -> Step | None:
    anchors = [step for step in steps if step.kind in _ANCHORS and step.family is not None]
    if not anchors:
        anchors = [s for s in steps if s.kind == "elementwise" and s.family is not None]
        return _named_first(anchors) if anchors else _unfamiliar(steps)
    families: dict[str, float] = {}
    for step in anchors:
        name = step.family.name if step.family else ""
        families[name] = families.get(name, 0.0) + step.seconds
    products = {s.family.name for s in anchors if s.kind in _PRODUCTS and s.family}
    top = max(families.values())
    fitting = [n for n in products if families[n] >= _PRODUCT_SHARE * top]
    chosen = max(fitting or families, key=lambda name: families[name])
    if "attention" in fitting:
        # Its scores are what a kernel can spare; the projections beside it are plain products.
        chosen = "attention"
    members = [s for s in anchors if s.family is not None and s.family.name == chosen]
    return max(members, key=lambda step: step.seconds)


def _named_first(steps: list[Step]) -> Step:
    """Of elementwise work, an activation by name before plain arithmetic."""
    rank = {"activation": 0, "scale": 1, "elementwise-add": 1}
    plain = {"pow", "exp", "sqrt", "rsqrt", "log", "square", "abs", "where"}
    return min(
        steps,
        key=lambda s: (rank.get(s.family.name if s.family else "", 2) + 0.5 * (s.name in plain),
                       -s.seconds),
    )  # fmt: skip


def _unfamiliar(steps: list[Step]) -> Step | None:
    known = [step for step in steps if step.family is not None]
    return max(known or steps, key=lambda step: step.seconds, default=None)


def _around(steps: list[Step], heaviest: Step) -> tuple[list[Step], list[Step]]:
    """Steps that feed the heaviest one or use its result, as far as one kernel could take them."""
    place = next(n for n, step in enumerate(steps) if step is heaviest)
    after: list[Step] = []
    made = {id(op) for op in heaviest.operators}
    for step in steps[place + 1 :]:
        if len(after) == _NEAR or step.kind not in _FUSIBLE:
            break
        if not _uses(step, made):
            break
        after.append(step)
        made |= {id(op) for op in step.operators}
    before: list[Step] = []
    needed = {id(t.made_by) for op in heaviest.operators for t in op.inputs if t.made_by}
    for step in reversed(steps[:place]):
        if len(before) == _NEAR or step.kind != "elementwise":
            break
        if not needed & {id(op) for op in step.operators}:
            break
        before.insert(0, step)
        needed |= {id(t.made_by) for op in step.operators for t in op.inputs if t.made_by}
    return (
        [step for step in before if step.name not in _NO_WORK],
        [step for step in after if step.name not in _NO_WORK],
    )


def _uses(step: Step, made: set[int]) -> bool:
    return any(
        tensor.made_by is not None and id(tensor.made_by) in made
        for op in step.operators
        for tensor in op.inputs
    )
