"""What is special about a step: attributes that choose between kernels and between techniques."""

import math
from collections.abc import Callable
from typing import Final

from kb.problems.steps import Step
from kb.problems.values import Operator, Shape, product

# float32 values that the registers of one block can hold beside what is computed from them: 32 of
# each of 1024 threads. Twice as few are no burden.
_LONG_ROW = 32768
_SHORT_ROW = 16384
# Neighbouring positions that a tile takes together where the dimension is not the last one: fewer
# do not fill the sectors that memory delivers.
_POSITIONS = 16
# Results of a reduction that are programs enough for any card: some 500 blocks of 128.
_MANY_RESULTS = 65536
# Rows or columns of a product's result that one tile takes whole.
_TILE = 128
_ROW_KINDS = frozenset({"reduce", "argreduce", "softmax", "scan"})


def attributes(step: Step) -> frozenset[str]:
    """Return the words for what is special about a step: its shape class, its rows, its stride."""
    words = {step.shape_class} if step.shape_class else set()
    row = row_length(step)
    if row is not None:
        elements = row * (_POSITIONS if step.shape_class == "inner-dim" else 1)
        words |= {"long-row"} if elements > _LONG_ROW else set()
        words |= {"short-row"} if elements <= _SHORT_ROW else set()
    words |= _norm_kind(step) | _result_size(step)
    if any(op.facts.get("full") for op in step.operators):
        words.add("whole")
    stride = step.main.facts.get("stride")
    if step.kind == "conv_transpose" and stride and all(step_size == 1 for step_size in stride):
        words.add("unit-stride")
    return frozenset(words)


def _result_size(step: Step) -> set[str]:
    """`many-results` of a reduction, `one-tile` of a product with few rows or columns."""
    shape = step.main.outputs[0].shape if step.main.outputs else None
    size = product(shape) if shape else None
    if not shape or size is None or shape[-1] is None:
        return set()
    if step.kind in {"reduce", "argreduce"} and size >= _MANY_RESULTS:
        return {"many-results"}
    if step.kind == "matmul" and min(shape[-1], size // shape[-1]) <= _TILE:
        return {"one-tile"}
    return set()


def row_length(step: Step) -> int | None:
    """Return how many elements belong together in a reduction or normalization.

    None where the step is neither, or where a length is unknown.
    """
    op = next((operator for operator in step.operators if operator.kind in _ROW_KINDS), step.main)
    shape = op.inputs[0].shape if op.inputs else None
    if not shape or step.kind == "attention":
        return None
    rule = _ROWS.get(op.name)
    if rule is not None:
        return rule(op, shape)
    if op.kind not in _ROW_KINDS and op.name != "normalize":
        return None
    return product(shape) if op.facts.get("full") else _along_dims(op, shape)


def _along_dims(op: Operator, shape: Shape) -> int | None:
    dim = 1 if op.facts.get("dim") is None else op.facts["dim"]
    dims = list(dim) if isinstance(dim, list | tuple) else [dim]
    if not all(isinstance(axis, int) and -len(shape) <= axis < len(shape) for axis in dims):
        return None
    return product([shape[axis] for axis in dims])


def _norm_kind(step: Step) -> set[str]:
    """`p1`, `p2`, `pinf`, `other-p` or `mean-abs`: by what a normalization divides, if told."""
    if step.name not in {"normalize", "norm", "vector_norm"}:
        return set()
    for op in step.operators:
        if op.name in {"norm", "vector_norm", "normalize"}:
            p = 2 if op.facts.get("p") in {None, "fro"} else op.facts["p"]
            is_number = isinstance(p, int | float)
            return {f"p{p:g}" if p in {1, 2, math.inf} else "other-p"} if is_number else set()
    names = {op.name for op in step.operators}
    producers = [t.made_by for op in step.operators if op.kind == "reduce" for t in op.inputs]
    names |= {op.name for op in producers if op is not None}
    if "abs" in names:
        return {"p1"} if "sum" in names else {"mean-abs"} if "mean" in names else set()
    return {"p2"} if "sum" in names and names & {"sqrt", "rsqrt"} else set()


def _group_size(op: Operator, shape: Shape) -> int | None:
    groups, elements = op.facts.get("num_groups"), product(shape[1:])
    if not isinstance(groups, int) or groups < 1 or elements is None:
        return None
    return elements // groups


def _layer_size(op: Operator, shape: Shape) -> int | None:
    normalized = op.facts.get("normalized_shape")
    lengths = list(normalized) if isinstance(normalized, list | tuple) else [normalized]
    if all(isinstance(length, int) for length in lengths):
        return product(lengths)
    return shape[-1]


def _class_count(_: Operator, shape: Shape) -> int | None:
    return shape[1] if len(shape) > 1 else shape[0]


_ROWS: Final[dict[str, Callable[[Operator, Shape], int | None]]] = {
    "cross_entropy": _class_count,
    "nll_loss": _class_count,
    "group_norm": _group_size,
    "instance_norm": lambda _, shape: product(shape[2:]),
    "batch_norm": lambda _, shape: product([shape[0], *shape[2:]]),
    "layer_norm": _layer_size,
    "rms_norm": _layer_size,
}
