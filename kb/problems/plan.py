"""What a problem's shapes settle for its kernels, in one line: what to know before writing."""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from kb.errors import KbError
from kb.gpus import GpuSpec
from kb.problems.analysis import MOVES, Analysis, analyse
from kb.problems.attributes import attributes, row_length
from kb.problems.facts import fact_lines, shape_text
from kb.problems.reading import read_problem
from kb.problems.rewrites import exact_rewrites
from kb.problems.steps import Step
from kb.problems.useful import triangles_of
from kb.problems.values import DTYPE_BYTES, Shape, Tensor
from kb.problems.vocabulary import PRODUCTS

# How the line begins.
PLAN: Final = "Plan:"
# Wide loads and tensor descriptors take addresses that are multiples of this.
_ALIGNMENT = 16
# Columns of one tile of a product, at most usual.
TILE: Final = 128
_TWO_PASS = frozenset({"softmax", "norm"})
# Products beside the heaviest that are worth a line; a network has dozens.
_MAX_MORE = 2
# Operators of a kernel, and outputs of a module, that are worth naming.
_MAX_OPS = 8
_MAX_OUT = 6
_TRIANGLES: Final = {-1: "lower triangular", 0: "dense", 1: "upper triangular"}


def fact_sheet(source: str, name: str, dtype: str | None, card: GpuSpec | None) -> tuple[str, ...]:
    """Return what a problem's text tells: the lines of `fact_lines`, then the plan where there is
    one; nothing where it cannot be read."""
    try:
        analysis = analyse(read_problem(source, name, dtype), card)
    except KbError:
        return ()
    plan = plan_line(analysis, card)
    return (*fact_lines(analysis, card), *([plan] if plan else []))


def plan_line(analysis: Analysis, card: GpuSpec | None) -> str | None:
    """Return what the shapes settle, None where there is nothing to say beyond the facts."""
    lines = (*exact_rewrites(analysis), *_heaviest(analysis, card), *_surrounding_work(analysis))
    parts = list(dict.fromkeys([*lines, *_layout_and_outputs(analysis)]))
    return f"{PLAN} {'; '.join(parts)}." if parts else None


def _heaviest(analysis: Analysis, card: GpuSpec | None) -> Iterator[str]:
    step = analysis.heaviest
    if step is None:
        return
    special = attributes(step)
    if "causal" in special:
        yield "the mask is causal: query i sees keys 0 to i, later blocks are skipped"
    if step.name == "triangular_matmul":
        a, b, c = triangles_of(step.operators[0], step.operators[1] if step.operators[1:] else None)
        parts = (("A", a), ("B", b), ("the result", c))
        yield ", ".join(f"{name} {_TRIANGLES[part]} ({part})" for name, part in parts)
    row, data = row_length(step), _data(step)
    yield from _shared_reductions(analysis, step)
    if "long-row" in special and step.kind in _TWO_PASS and row and data is not None and data.bytes:
        size = row * DTYPE_BYTES.get(data.dtype, 4)
        if size == data.bytes:
            yield "all elements reduce together: blocks reduce parts, and a second launch merges"
            return
        text = f"{row:,} elements ({size / 1e3:,.0f} kB) belong together and exceed one block's "
        text += "registers: they are read twice"
        if card is not None and analysis.io_bytes is not None and len(analysis.steps) == 1:
            seconds = (analysis.io_bytes + data.bytes) / card.memory_bps
            fits = size * card.sms <= card.l2_mib * 2**20
            where = "with one row per multiprocessor" if fits else "in part"
            text += f", {seconds * 1e3:.3g} ms by bytes; a second reading, backwards, comes "
            text += f"from L2 {where}"
        yield text


def _shared_reductions(analysis: Analysis, step: Step) -> Iterator[str]:
    """What the module's reductions of data of one shape have in common."""
    data = _data(step)
    shape = data.shape if data is not None else None
    if step.kind != "reduce" or not shape or len(shape) < 2:
        return
    reductions = [s for s in analysis.steps if s.kind == "reduce" and _has_shape(s, shape)]
    dims_given = [reduction.main.facts.get("dim") for reduction in reductions]
    dims = sorted({dim % len(shape) for dim in dims_given if isinstance(dim, int)})
    if len(reductions) < 2 or not all(isinstance(dim, int) for dim in dims_given):
        return
    if len(dims) == 1:
        yield (
            f"{len(reductions)} reductions of {shape_text(shape)} over dimension {dims[0]}: one "
            "pass computes those that do not need another's result"
        )
        return
    axes_text = " and ".join(map(str, dims))
    yield (
        f"reductions of {shape_text(shape)} over dimensions {axes_text}: one launch reads the data "
        "once, with partial sums of one dimension for each program, which a small second one adds"
    )


def _has_shape(step: Step, shape: Shape) -> bool:
    data = _data(step)
    return data is not None and data.shape == shape


def _surrounding_work(analysis: Analysis) -> Iterator[str]:
    """What of the other operators needs a launch of its own, and what is inside a tile."""
    product: Step | None = None
    for step in analysis.steps:
        if step.kind in PRODUCTS:
            product = step
        facts = step.main.facts
        if step.name.startswith("dropout") and facts.get("p") == 0:
            yield "dropout with p = 0 changes nothing"
        if step.name == "batch_norm" and facts.get("training") is not False:
            yield (
                "batch_norm of a module in training mode takes mean and variance over the whole "
                "batch, so what follows it needs a launch of its own"
            )
        if product is None or step is product:
            continue
        if product.kind != "matmul":
            yield from _after_convolution(step)
            continue
        if step.name == "cross_entropy":
            yield from _loss_of(step)
        row = row_length(step)
        along = _along_columns(step, product)
        across = step.kind in {"norm", "reduce", "softmax"} and row is not None and along
        if across and row is not None and TILE % row == 0 and step.name == "group_norm":
            yield (
                f"groups of {row} columns lie inside a tile of {TILE}: reduce in the epilogue, "
                "with one stage fewer, since a reshaped accumulator takes shared memory"
            )
        elif across and row is not None and row > TILE:
            yield _beyond_a_tile(step, row)
    if analysis.loop is None:
        yield from _other_products(analysis)


def _along_columns(step: Step, product: Step) -> bool:
    """Whether a step works along the last dimension of the product's rows, or normalizes them."""
    data, outputs = _data(step), product.operators[0].outputs
    rows = outputs[0].shape[:-1] if outputs and outputs[0].shape else None
    if step.kind == "norm":
        return True
    if data is None or not data.shape or data.shape[:-1] != rows:
        return False
    dim = step.main.facts.get("dim")
    return isinstance(dim, int) and dim % len(data.shape) == len(data.shape) - 1


def _loss_of(step: Step) -> Iterator[str]:
    data = _data(step)
    if data is None or data.bytes is None or data.shape is None or len(data.shape) < 2:
        return
    if step.main.facts.get("dim", 1) not in {1, -1, None}:
        return
    yield (
        f"cross_entropy takes {data.shape[1]:,} columns a row: with a running maximum and sum over "
        f"blocks of columns the {data.bytes / 1e6:,.3g} MB of the product are never stored"
    )


def _after_convolution(step: Step) -> Iterator[str]:
    data = _data(step)
    if step.name not in {"group_norm", "instance_norm"} or data is None or data.bytes is None:
        return
    yield (
        f"statistics of {step.name} span many tiles: the epilogue leaves mean and squared "
        "deviations for each tile, and a second launch merges them and normalizes "
        f"{data.bytes / 1e6:,.0f} MB that it reads and writes"
    )


def _beyond_a_tile(step: Step, row: int) -> str:
    along = "rows" if step.name == "batch_norm" else "columns"
    text = f"{step.name} spans {row:,} {along}, more than a tile"
    if step.kind == "reduce":
        return (
            f"{text}: the epilogue leaves a partial result for each row and tile, which a small "
            "second launch merges, and the product is never stored"
        )
    return f"{text}: a launch after the product"


def _other_products(analysis: Analysis) -> Iterator[str]:
    """The other products, each with what follows it: a kernel of its own for each."""
    steps = analysis.steps
    places = [n for n, step in enumerate(steps) if step.kind in PRODUCTS]
    parts = [
        _chain(steps[place:end])
        for place, end in pairwise([*places, len(steps)])
        if steps[place] is not analysis.heaviest
    ]
    if 0 < len(parts) <= _MAX_MORE:
        kernels = "a kernel of its own" if len(parts) == 1 else "kernels of their own"
        yield f"{kernels} for {', and for '.join(parts)}"


def _chain(steps: Sequence[Step]) -> str:
    names = [step.name for step in steps]
    if steps[0].name == "grouped_matmul":
        names = list(dict.fromkeys(names))  # the same for each group
    return " → ".join(names if len(names) <= _MAX_OPS else [*names[:_MAX_OPS], "…"])


def _layout_and_outputs(analysis: Analysis) -> Iterator[str]:
    step = analysis.heaviest
    data = _data(step) if step is not None else None
    is_moved = data is not None and data.made_by is not None and data.made_by.name in MOVES
    if data is not None and data.shape and not is_moved and step and step.kind != "attention":
        length, size = data.shape[-1], DTYPE_BYTES.get(data.dtype, 4)
        if length and length > _ALIGNMENT and length * size % _ALIGNMENT:
            row_count = _ALIGNMENT // math.gcd(_ALIGNMENT, length * size)
            yield (
                f"rows of {length:,} {data.dtype} begin at addresses that are not multiples "
                f"of {_ALIGNMENT} bytes: tensor descriptors and wide loads need {row_count} rows "
                f"taken as one, or wide loads start at the next multiple, with a row's ends apart"
            )
    outputs_of_heaviest = step.operators[0].outputs if step is not None else []
    outputs = [output for output in analysis.problem.outputs if output.shape is not None]
    if len(outputs) > 1:
        shapes = [
            f"{shape_text(output.shape or ())} {output.dtype}" for output in outputs[:_MAX_OUT]
        ]
        more = ", …" if len(outputs) > _MAX_OUT else ""
        yield f"the module returns {len(outputs)} tensors, {', '.join(shapes)}{more}"
    elif outputs and outputs_of_heaviest and len(analysis.steps) > 1:
        shape = outputs[0].shape
        if shape and shape != outputs_of_heaviest[0].shape:
            yield f"the module returns {shape_text(shape)}"


def _data(step: Step) -> Tensor | None:
    return step.main.inputs[0] if step.main.inputs else None
