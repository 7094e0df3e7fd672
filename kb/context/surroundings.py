"""What surrounds the operator that a kernel is built around, in words as those of attributes."""

from kb.problems.analysis import Analysis
from kb.problems.attributes import row_length
from kb.problems.plan import TILE
from kb.problems.sources import LIGHT, ancestors
from kb.problems.steps import Step

# A product that more work follows, and one whose rows are reduced to a number of these kinds.
_EPILOGUE, ROW_REDUCE = "epilogue", "row-reduce"
# A product whose rows are logits; a norm of a sum of two tensors.
_CLASSIFIER = "classifier"
_RESIDUAL = "residual"
# A norm of rows that are rounded to 8 bits or fewer; how many such are looked at, and how far.
_QUANTIZED = "quantized"
_MOST_ROUNDED, _MOST_BEHIND = 8, 24
_REDUCED = frozenset({"sum", "mean", "max", "min", "logsumexp"})


def surroundings(analysis: Analysis, step: Step) -> set[str]:
    """Return what comes before a norm or follows a product, in words as those of `attributes`."""
    if _is_quantized_norm(analysis, step):
        return {_QUANTIZED}
    if step is analysis.heaviest and step.kind == "norm":
        sums = [s.main for s in analysis.before if s.name == "add" and len(s.main.inputs) == 2]
        if any(op.inputs[0].shape == op.inputs[1].shape is not None for op in sums):
            return {_RESIDUAL}
    if step is analysis.heaviest and _is_classifier(analysis, step):
        return {_CLASSIFIER}
    if step is not analysis.heaviest or step.kind != "matmul" or not analysis.after:
        return set()
    return {_EPILOGUE} if row_reduction(analysis) is None else {_EPILOGUE, ROW_REDUCE}


def _is_quantized_norm(analysis: Analysis, step: Step) -> bool:
    """Whether a step normalizes what is rounded then, or rounds what was normalized."""
    norms = {id(s.main) for s in analysis.steps if s.name == "rms_norm"}
    rounding = [s for s in analysis.steps if s.name in {"quantize_fp8", "round"}]
    kinds = LIGHT | {"norm"}
    pairs = [
        (rounded, op)
        for rounded in rounding[:_MOST_ROUNDED]
        for op in ancestors(rounded.main.inputs[0], kinds, _MOST_BEHIND)
        if id(op) in norms
    ]
    return any(step is rounded or step.main is op for rounded, op in pairs)


def _is_classifier(analysis: Analysis, product: Step) -> bool:
    """Whether the elements of a product are only needed for the likelihood of one of each row."""
    kinds = frozenset({"elementwise"})
    losses = (step.main for step in analysis.steps if step.name == "cross_entropy")
    return product.kind == "matmul" and any(
        product.main in ancestors(tensor, kinds) for op in losses for tensor in op.inputs[:1]
    )


def row_reduction(analysis: Analysis) -> Step | None:
    """Return the reduction of a product's whole rows that comes next but for elementwise work."""
    heaviest = analysis.heaviest
    after = next((s for s in analysis.after if s.kind != "elementwise" and not in_tile(s)), None)
    if heaviest is None or heaviest.kind != "matmul" or after is None or after.name not in _REDUCED:
        return None
    shape = heaviest.main.outputs[0].shape if heaviest.main.outputs else None
    return after if shape and row_length(after) == shape[-1] else None


def in_tile(step: Step) -> bool:
    """Whether a step normalizes groups of columns that lie inside a tile of a product."""
    row = row_length(step)
    return step.name == "group_norm" and row is not None and TILE % row == 0
