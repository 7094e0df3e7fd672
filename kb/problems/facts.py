"""A problem's facts in three lines: what it does, how much work that is, and its floor."""

from dataclasses import dataclass

from kb.gpus import GpuSpec, find_gpu
from kb.problems.analysis import ANCHORS, Analysis
from kb.problems.loops import TimeLoop
from kb.problems.steps import Step
from kb.problems.values import Shape
from kb.profiles.values import si

# Operators of a chain that a line names; a network has hundreds.
_MAX_NAMES = 8
# Below this a launch (some 5 us each) weighs more than the work.
_LAUNCH_S = 5e-6
# Products of the halves of float32 numbers that keep float32 accuracy: `input_precision="tf32x3"`.
_TF32_PRODUCTS = 3
# Zeros that spare less than this are not worth a word.
_NEARLY_ALL = 0.98


def gpu_spec(gpu: str | None) -> GpuSpec | None:
    """Return the specification of a card; of several by one name, the first in the table.

    None where an architecture is given, or nothing.

    Raises
    ------
    InvalidInputError
        No card goes by the name.
    """
    if gpu is None or gpu.startswith("sm_"):
        return None
    return find_gpu(gpu)


def bound_of(analysis: Analysis, card: GpuSpec | None) -> str | None:
    """Return what to expect the fused problem to be bound by: memory, compute or latency. The last
    where the work takes less time than one launch for each operator that is not elementwise."""
    if card is None or analysis.io_bytes is None or analysis.tensor_flops is None:
        return None
    floors = _floors(analysis, card)
    launches = sum(step.kind in ANCHORS for step in analysis.steps)
    if max(floors.by_bytes, floors.by_flops) < _LAUNCH_S * max(launches, 1):
        return "latency"
    return "compute" if floors.by_flops > floors.by_bytes else "memory"


@dataclass(frozen=True, slots=True)
class _Floors:
    """Seconds that a problem takes at least."""

    by_bytes: float
    by_flops: float
    """In the fastest way that keeps the accuracy of the dtype."""
    how: str
    other: str
    """Ways that are slower, or faster at a larger error."""


def _floors(analysis: Analysis, card: GpuSpec) -> _Floors:
    by_bytes = (analysis.io_bytes or 0) / card.memory_bps
    flops = analysis.tensor_flops or 0
    rate = card.dense_flops(analysis.dtype) or card.dense_flops("float32") or 1e12
    tf32 = card.dense_flops("tf32") if analysis.dtype == "float32" else None
    if tf32 is None:
        return _Floors(by_bytes, flops / rate, f"in {analysis.dtype}", "")
    alone = f"{_time(flops / tf32)} in one TF32 product, if its error of about 1e-3 is allowed"
    if tf32 / _TF32_PRODUCTS > rate:
        plain = f"{_time(flops / rate)} in float32 on CUDA cores"
        seconds = _TF32_PRODUCTS * flops / tf32
        return _Floors(by_bytes, seconds, "in three TF32 products (tf32x3)", f"{plain}; {alone}")
    return _Floors(by_bytes, flops / rate, "in float32", alone)


def fact_lines(analysis: Analysis, card: GpuSpec | None) -> list[str]:
    """Return the three lines that a context begins with."""
    return [_summary(analysis), _work(analysis), _floor(analysis, card)]


def _summary(analysis: Analysis) -> str:
    problem, heaviest = analysis.problem, analysis.heaviest
    names = [step.name for step in analysis.steps]
    chain = " → ".join(names[:_MAX_NAMES])
    if len(names) > _MAX_NAMES:
        chain += f" → … ({len(names)} operators)"
    loop = analysis.loop
    if loop is not None:
        parts = [f"Problem {problem.name}: {_in_time(loop)}"]
    else:
        parts = [f"Problem {problem.name}: {chain or 'no operator was found'}."]
    if loop is None and heaviest is not None:
        parts.append(
            f"Build the kernel around {heaviest.name} {_shapes(heaviest)}{_fusion_text(analysis)}."
        )
    if problem.unknown:
        parts.append(f"Unknown operators: {', '.join(problem.unknown[:_MAX_NAMES])}.")
    if not problem.decided:
        parts.append(
            "It branches on values that its text does not fix: one branch is read, a loop once."
        )
    if not problem.whole:
        parts.append("The module was not read to its end: that takes too many steps.")
    return " ".join(parts)


def _in_time(loop: TimeLoop) -> str:
    """What a loop over time steps costs, and how it is written as one launch."""
    count = loop.steps * len(loop.operators)
    inside = ", ".join(dict.fromkeys(op.name for op in loop.operators))
    text = (
        f"a loop of {loop.steps} steps ({inside}), each depending on the one before: build one "
        f"launch for all of them. PyTorch launches some {count:,} operators for it, "
        f"{count * _LAUNCH_S * 1e3:.2g} ms at 5 us each. "
    )
    if loop.has_product:
        return text + (
            "A step's product needs the whole state: its weights stay on chip, and programs that "
            "share a state wait for one another after each step; what depends on the input alone "
            "is one product for all steps before."
        )
    return text + (
        "A program takes each independent row or channel and keeps its state in registers; where "
        "a step is h = a h + b with a and b known before, a parallel scan over pairs (a, b) takes "
        "the logarithm of the steps."
    )


def _fusion_text(analysis: Analysis) -> str:
    """What to fuse into the kernel, and what follows it."""
    after = analysis.after
    if analysis.heaviest is not None and analysis.heaviest.name == "grouped_matmul":
        after = list({step.name: step for step in after}.values())  # the same for each group
    fused = [step.name for step in analysis.before]
    names = [step.name for step in after]
    place = next((n for n, s in enumerate(after) if not _in_place(s, analysis)), len(names))
    parts = []
    if fused:
        parts.append(f"fuse {', '.join(fused)} behind its loads")
    if names[:place]:
        parts.append(f"fuse {', '.join(names[:place])} before its store")
    if names[place:]:
        follow = "follow" if len(names[place:]) > 1 else "follows"
        parts.append(f"{', '.join(names[place:])} {follow}")
    return "".join(f"; {part}" for part in parts)


def _in_place(step: Step, analysis: Analysis) -> bool:
    """Whether a step works on the heaviest one's result element by element."""
    heaviest = analysis.heaviest
    output = heaviest.main.outputs[0].shape if heaviest and heaviest.main.outputs else None
    shape = step.main.outputs[0].shape if step.main.outputs else None
    smaller = heaviest is not None and heaviest.kind == "reduce"
    return step.kind == "elementwise" and not (smaller and output is not None and shape != output)


def _shapes(step: Step) -> str:
    data = next((t for t in step.main.inputs if t.shape is not None), None)
    shape = data.shape if data is not None else None
    out = step.main.outputs[0].shape if step.main.outputs else None
    text = "(shapes not stated)"
    if data is not None and shape is not None:
        text = f"{shape_text(shape)} {data.dtype}"
    weight = next((t for t in step.main.inputs if t is not data and t.shape), None)
    if weight is not None and weight.shape and step.kind in {"matmul", "conv", "conv_transpose"}:
        text += f" by {shape_text(weight.shape)}"
    if shape is not None and out is not None and out != shape:
        text += f" to {shape_text(out)}"
    if step.name == "grouped_matmul":
        text = f"of {len(step.operators)} products, the first {text}"
    settings = [
        f"{name} {_plain(value)}"
        for name in ("stride", "padding", "dilation", "groups", "dim")
        if (value := step.main.facts.get(name)) is not None and not _default(name, value)
    ]
    return f"{text} ({', '.join(settings)})" if settings else text


def _default(name: str, value: object) -> bool:
    usual = 0 if name == "padding" else 1
    if name == "dim":
        return not isinstance(value, int)
    return all(item == usual for item in value) if isinstance(value, list) else value == usual


def _plain(value: object) -> str:
    if isinstance(value, list):
        same = len(set(value)) == 1
        return str(value[0]) if same else "x".join(str(item) for item in value)
    return str(value)


def shape_text(shape: Shape) -> str:
    """Return a shape as it is shown: `[16, ?]`."""
    return "[" + ", ".join("?" if size is None else str(size) for size in shape) + "]"


def _work(analysis: Analysis) -> str:
    if analysis.io_bytes is None or analysis.tensor_flops is None:
        return "Work: not known, as the file does not state all shapes."
    useful, dense = analysis.tensor_flops, analysis.dense_flops or 0
    products = f"{si(useful)}FLOP in products, " if useful else ""
    if useful and useful < _NEARLY_ALL * dense:
        products = (
            f"{si(useful)}FLOP in products, without what masks or triangles skip "
            f"(dense: {si(dense)}FLOP), "
        )
    text = f"Work: {products}{si(analysis.io_bytes)}B of inputs, parameters and outputs"
    nbytes = analysis.moved_bytes
    if nbytes is not None and nbytes > 1.1 * analysis.io_bytes:
        text += f"; one operator at a time moves {si(nbytes)}B"
    return text + "."


def _floor(analysis: Analysis, card: GpuSpec | None) -> str:
    if card is None:
        return "Floor: name a GPU (gpu) for it."
    bound = bound_of(analysis, card)
    if bound is None:
        return f"Floor on {card.name}: not known without the shapes."
    floors = _floors(analysis, card)
    bandwidth = f"{card.memory_bps / 1e12:.3g} TB/s of the datasheet"
    text = f"Floor on {card.name}: {_time(floors.by_bytes)} by bytes at the {bandwidth}"
    if analysis.tensor_flops:
        text += f", {_time(floors.by_flops)} by FLOPs {floors.how}"
        text += f" ({floors.other})" if floors.other else ""
    expected = {"latency": "launches and latency", "compute": "compute", "memory": "memory"}
    text = f"{text}: expect it to be bound by {expected[bound]}.{_in_bf16(analysis, floors, card)}"
    return text + _measured_rates(analysis, card)


def _measured_rates(analysis: Analysis, card: GpuSpec) -> str:
    """What was measured on such a card, of what this problem needs."""
    if card.reached is None:
        return ""
    reads, copies = (
        f"{gbps / 1e3:.3g}" for gbps in (card.reached.read_gbps, card.reached.copy_gbps)
    )
    dtypes = [analysis.dtype, *(["tf32"] if analysis.dtype == "float32" else [])]
    rates = {dtype: card.reached_flops(dtype) for dtype in dtypes if analysis.tensor_flops}
    rates_text = [f"{rate / 1e12:.0f} TFLOP/s in {dtype}" for dtype, rate in rates.items() if rate]
    products = f", products {' and '.join(rates_text)}" if rates_text else ""
    return f" Measured there: reads {reads} TB/s, copies {copies}{products}."


def _in_bf16(analysis: Analysis, floors: _Floors, card: GpuSpec) -> str:
    """The floor in bfloat16, in which float32 modules are mostly run on tensor cores."""
    rate = card.dense_flops("bfloat16")
    if analysis.dtype != "float32" or rate is None:
        return ""
    by_bytes, by_flops = floors.by_bytes / 2, (analysis.tensor_flops or 0) / rate
    bound = "FLOPs" if by_flops > by_bytes else "bytes"
    return f" In bfloat16 {_time(max(by_bytes, by_flops))}, by {bound}."


def _time(seconds: float) -> str:
    if seconds >= 1e-3:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds * 1e6:.3g} us"
