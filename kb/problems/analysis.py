"""What a module's operators amount to: the heaviest, what surrounds it, its family and its shape.

Spelled-out forms are put together first: `x * sigmoid(x)` is SiLU, a softmax between two products
is attention, `x / norm(x)` is a normalization. Times are estimates by bytes and FLOPs on a card,
good for comparing operators of one module.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from operator import attrgetter
from statistics import median
from typing import Final

from kb.gpus import GpuSpec, all_specs
from kb.problems.loops import TimeLoop, longest
from kb.problems.reading import Problem
from kb.problems.steps import Step, bytes_read, steps_of, total
from kb.problems.values import Operator
from kb.problems.vocabulary import PRODUCTS

# Where no card is named, operators are compared as on this one.
TYPICAL_CARD: Final = "H100-SXM"
# Families of which every module has some, and what another has to take of their time to be chosen.
_GENERIC, _GENERIC_SHARE = frozenset({"reduce", "vector-norm"}), 0.5
# What follows a product is fused into it, so a product is the operator to build on as long as it
# takes this share of what takes longest.
_PRODUCT_SHARE = 0.2
# Work that is done on the way in or out of another operator.
_FUSIBLE = frozenset({"elementwise", "norm", "softmax", "reduce", "pool", "adaptive_pool", "glu"})
# What a kernel does by where it loads from.
MOVES: Final = frozenset({"cat", "pad", "flip", "roll"})
_NO_WORK = frozenset({"dropout", "alias", "to"})
# Operators that a kernel is built around.
ANCHORS: Final = frozenset({
    "norm", "softmax", "reduce", "argreduce", "scan", "matmul", "conv", "conv_transpose", "pool",
    "adaptive_pool", "loss", "attention", "recurrent", "embedding", "select", "glu", "unknown",
    "library", "accumulate",
})  # fmt: skip
# With unknown shapes operators are weighed by what they are.
_WEIGHT: Final = {"attention": 5.0, "recurrent": 5.0, "conv": 4.0, "conv_transpose": 4.0,
                  "matmul": 4.0, "scan": 2.0, "norm": 1.5, "softmax": 1.5}  # fmt: skip
_MAX_NEIGHBOURS = 6


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
    loop: TimeLoop | None = None
    """The loop over time steps that most of the module's operators belong to."""

    @property
    def useful_share(self) -> float:
        """Of the operations of all products, what no mask or triangle makes needless."""
        if not self.tensor_flops or not self.dense_flops:
            return 1.0
        return min(self.tensor_flops / self.dense_flops, 1.0)


def analyse(problem: Problem, card: GpuSpec | None = None) -> Analysis:
    """Find the heaviest operator of a problem and the work around it."""
    spec = card or all_specs()[TYPICAL_CARD]
    steps = steps_of(problem.operators)
    floats = (t.dtype for t in (*problem.inputs, *problem.parameters) if "float" in t.dtype)
    dtype = next(floats, "float32")
    _estimate(steps, spec, dtype)
    heaviest = _heaviest(steps)
    analysis = Analysis(problem, steps, heaviest, dtype=dtype)
    shares = {id(op): s.seconds / len(s.operators) for s in steps for op in s.operators}
    analysis.loop = longest(problem.loops, shares)
    if heaviest is not None:
        analysis.before, analysis.after = _fusible_neighbours(steps, heaviest)
        seconds = sum(step.seconds for step in steps)
        same = sum(s.seconds for s in steps if s.family is heaviest.family)
        analysis.share = same / seconds if seconds else 1.0
    analysis.flops = total(step.flops for step in steps if step.kind in ANCHORS)
    # A convolution of single channels sums too few products for tensor cores.
    products = [s for s in steps if s.kind in PRODUCTS and s.family_name != "depthwise-conv"]
    analysis.tensor_flops = total(step.useful_flops for step in products)
    analysis.dense_flops = total(step.flops for step in products)
    users = defaultdict[int, list[Operator]](list)
    for op in problem.operators:
        for number in {input_.number for input_ in op.inputs}:
            users[number].append(op)
    inputs = [input_ for input_ in problem.inputs if input_.number in users] or problem.inputs
    ends = [tensor.bytes for tensor in (*inputs, *problem.outputs)]
    reads = [bytes_read(users[weight.number], weight) for weight in problem.parameters]
    analysis.io_bytes = total([*ends, *reads])
    analysis.moved_bytes = total(step.bytes for step in steps)
    return analysis


def _estimate(steps: list[Step], spec: GpuSpec, dtype: str) -> None:
    """Set the seconds of all steps: by bytes and FLOPs; of those that read unknown lengths, by
    what is known, and at least as a usual step of the module takes."""
    least = [_seconds(step, spec, dtype) for step in steps]
    known = [s for step, s in zip(steps, least, strict=True) if step.is_sized and s]
    usual = median(known) if known else 1.0
    for step, seconds in zip(steps, least, strict=True):
        inputs = (tensor for op in step.operators for tensor in op.inputs)
        if step.is_sized or all(tensor.bytes is not None for tensor in inputs):
            step.seconds = seconds
        else:
            weight = _WEIGHT.get(step.kind, 1.0 if step.kind in ANCHORS else 0.5)
            step.seconds = max(seconds, usual * weight)


def _seconds(step: Step, spec: GpuSpec, dtype: str) -> float:
    """The time of a step by those of its bytes and FLOPs that are known."""
    rate = spec.dense_flops(dtype) or spec.dense_flops("float32") or 1e12
    if step.kind not in PRODUCTS:
        rate = spec.dense_flops("float32") or rate
    nbytes = step.bytes
    if nbytes is None:
        ops = [op for op in step.operators if op.kind != "accumulate"]
        tensors = [tensor for op in ops for tensor in (*op.inputs, *op.outputs)]
        nbytes = sum({tensor.number: tensor.bytes or 0 for tensor in tensors}.values())
    return max((step.useful_flops or 0) / rate, nbytes / spec.memory_bps)


_seconds_of = attrgetter("seconds")


def _heaviest(steps: list[Step]) -> Step | None:
    with_family = [step for step in steps if step.family is not None]
    anchors = [step for step in with_family if step.kind in ANCHORS]
    if not anchors:
        plain = [step for step in with_family if step.kind == "elementwise"]
        rest = with_family or steps
        return _activation_first(plain) if plain else max(rest, key=_seconds_of, default=None)
    families: dict[str, float] = {}
    for step in anchors:
        families[step.family_name] = families.get(step.family_name, 0.0) + step.seconds
    products = dict.fromkeys(
        step.family_name for step in anchors if step.kind in PRODUCTS and step.name != "matvec"
    )
    top = max(families.values())
    telling = {n: t for n, t in families.items() if n not in _GENERIC and t >= _GENERIC_SHARE * top}
    fitting = [n for n in products if families[n] >= _PRODUCT_SHARE * top]
    chosen = max(fitting or telling or families, key=lambda name: families[name])
    if "attention" in fitting:
        # Its scores are what a kernel can spare; the projections beside it are plain products.
        chosen = "attention"
    return max(
        (s for s in anchors if s.family_name == chosen), key=lambda s: (s.is_sized, s.seconds)
    )


def _activation_first(steps: list[Step]) -> Step:
    """Of elementwise work, an activation by name before plain arithmetic."""
    rank = {"activation": 0, "scale": 1, "elementwise-add": 1}
    plain = {"pow", "exp", "sqrt", "rsqrt", "log", "square", "abs", "where"}
    return min(
        steps, key=lambda s: (rank.get(s.family_name, 2) + 0.5 * (s.name in plain), -s.seconds)
    )


def _fusible_neighbours(steps: list[Step], heaviest: Step) -> tuple[list[Step], list[Step]]:
    """Steps that feed the heaviest one or use its result, as far as one kernel could take them."""
    place = next(n for n, step in enumerate(steps) if step is heaviest)
    after: list[Step] = []
    produced, unrelated = _parts(heaviest), set[int]()
    for step in steps[place + 1 :]:
        if len(after) == _MAX_NEIGHBOURS:
            break
        sources, light = _sources(step), step.kind in _FUSIBLE
        if unrelated & sources or not (produced & sources or light):
            unrelated |= _parts(step)  # another kernel's, with what needs it
        elif produced & sources:
            if not light:
                break
            after.append(step)
            produced |= _parts(step)
    before: list[Step] = []
    needed = _sources(heaviest)
    for step in reversed(steps[:place]):
        light = step.kind == "elementwise" or step.name in MOVES
        if len(before) == _MAX_NEIGHBOURS or not light or not needed & _parts(step):
            break
        before.insert(0, step)
        needed |= _sources(step)
    # Behind another product it belongs before that one's store, where it is computed once.
    if any(step.kind in PRODUCTS and needed & _parts(step) for step in steps[:place]):
        before = []
    return (
        [step for step in before if step.name not in _NO_WORK],
        [step for step in after if step.name not in _NO_WORK],
    )


def _parts(step: Step) -> set[int]:
    return {id(op) for op in step.operators}


def _sources(step: Step) -> set[int]:
    """The operators whose results a step uses."""
    return {id(t.made_by) for op in step.operators for t in op.inputs if t.made_by}
