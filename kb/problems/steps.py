"""A module's operators as steps of work, each with its cost and what is special about its shape."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kb.problems.members import MATRICES
from kb.problems.sources import LIGHT, ancestors
from kb.problems.useful import causal_share, triangle_of, triangles_of, triangular_share
from kb.problems.values import Operator, Tensor
from kb.problems.vocabulary import Family, family_of

# Of their first tensor they read what they return.
_GATHERS = frozenset({"gather", "take_along_dim", "index_select", "take"})
# What cuts codes out of words, how many values 8 bits can name, and how far behind a product either
# is looked for.
_CUTTING = frozenset({"bitwise_and", "bitwise_right_shift"})
_CODES, _MOST_BEHIND = 256, 32
# Inner dimensions of a product of blocks with a scale each, at most.
_BLOCK = 256
# Of a matrix of low rank, as those of adapters are, rows or columns at most.
_LOW_RANK = 128
# tl.dot takes 16 at least; one tile is 64 to 256 wide.
_SHORT_K, _SKINNY, _DEEP = 128, 64, 8


@dataclass(slots=True)
class Step:
    """One operator, or several that are one."""

    name: str
    """Canonical name, or that of the composite: `attention`, `depthwise_conv`, `silu`, …"""
    kind: str
    operators: list[Operator]
    flops: int | None
    bytes: int | None
    """Read and written once each."""
    shape_class: str | None = None
    """What is special about its shape: `short-k`, `causal`, …"""
    share: float = 1.0
    """Of its FLOPs, those that are needed: half of causal attention, a sixth of a triangle's."""
    seconds: float = 0.0

    @property
    def useful_flops(self) -> int | None:
        """FLOPs without those on structural zeros."""
        return None if self.flops is None else round(self.flops * self.share)

    @property
    def is_sized(self) -> bool:
        """Whether its FLOPs and bytes are known."""
        return self.flops is not None and self.bytes is not None

    @property
    def main(self) -> Operator:
        """The operator that gives the step its shape."""
        return self.operators[0]

    @property
    def family(self) -> Family | None:
        """Operator family, None where the vocabulary has none."""
        return family_of(self.name)

    @property
    def family_name(self) -> str:
        """Name of the operator family; empty where the vocabulary has none."""
        return self.family.name if self.family else ""


def total(values: Iterable[int | None]) -> int | None:
    """Return the sum of numbers; None if one is unknown."""
    result = 0
    for value in values:
        if value is None:
            return None
        result += value
    return result


def traffic(op: Operator) -> int | None:
    """Return the bytes that an operator reads and writes once; None if unknown."""
    inputs = {id(tensor): tensor for tensor in op.inputs}
    looks_up = op.kind == "embedding"
    reads = [bytes_read([op], t) if looks_up else _resident(t) for t in inputs.values()]
    if op.name in _GATHERS and op.outputs:
        sizes = (reads[0], op.outputs[0].bytes)
        reads[0] = None if None in sizes else min(size for size in sizes if size is not None)
    if op.kind == "accumulate":  # in place, as a rule: of the rows that are added to
        return total([reads[-1]] * 3)
    # A convolution of stride 1 rereads its window from cache.
    return total([*reads, *(tensor.bytes for tensor in op.outputs[:1])])


def bytes_read(users: Sequence[Operator], tensor: Tensor) -> int | None:
    """Return the bytes of a tensor that operators have to read: of a table in which they only look
    rows up, these; of an expanded view, what lies in memory."""
    size, shape = _resident(tensor), tensor.shape
    if not size or not shape or not shape[0] or tensor.origin != "parameter":
        return size
    if any(op.kind != "embedding" for op in users):
        return size
    rows = total(op.facts.get("rows") for op in users)
    return size if rows is None else min(rows * size // shape[0], size)


def _resident(tensor: Tensor) -> int | None:
    """Bytes that lie in memory: of an expanded view fewer than it has elements."""
    size, elements = tensor.bytes, tensor.elements
    if not size or tensor.memory is None or not elements:
        return size
    return size * min(tensor.memory, elements) // elements


def steps_of(operators: list[Operator]) -> list[Step]:
    """Return operators as steps, spelled-out forms put together."""
    from kb.problems.composites import composites  # noqa: PLC0415 (it makes steps itself)

    placed: set[int] = set()
    steps: list[Step] = []
    joined = {id(op): step for step in composites(operators) for op in step.operators}
    for op in operators:
        if id(op) in placed:
            continue
        step = joined.get(id(op)) or single_step(op)
        placed |= {id(operator) for operator in step.operators}
        steps.append(step)
    return steps


def single_step(op: Operator) -> Step:
    """Return an operator as a step of its own."""
    name, shape_class, share = op.name, None, 1.0
    if op.kind == "conv":
        groups, channels = op.facts.get("groups"), op.facts.get("c_in")
        if isinstance(groups, int) and groups > 1 and groups == channels:
            name = "depthwise_conv"
        elif op.facts.get("window") and all(size == 1 for size in op.facts["window"]):
            shape_class = "pointwise"
    elif op.kind == "matmul":
        name, shape_class = _product_class(op)
        if name == "triangular_matmul":
            share = triangular_share(op, triangles_of(op))
    elif op.kind == "attention":
        causal, masked = op.facts.get("causal"), op.facts.get("masked")
        shape_class = "causal" if causal else "masked" if masked else None
        shape_class = "decode" if op.facts.get("queries") == 1 else shape_class
        share = _attention_share(op) if shape_class == "causal" else 1.0
        if any(part.startswith("?:") for tensor in op.inputs for part in tensor.part):
            shape_class = "varlen"
    elif op.name == "scatter_add" and {op.inputs[0].origin, op.inputs[-1].origin} == {"constant"}:
        return Step("bincount", "select", [op], op.flops, traffic(op))
    elif op.kind == "accumulate" and len(op.inputs[0].shape or ()) == 1:
        name = "segment_sum"
    elif op.kind in {"norm", "softmax", "reduce", "scan", "argreduce"}:
        shape_class = dimension_class(op)
    return Step(name, op.kind, [op], op.flops, traffic(op), shape_class, share)


def _attention_share(op: Operator) -> float:
    """Of an attention operator's FLOPs, those of its projections and of half of its scores."""
    queries, keys, elements = op.facts.get("queries"), op.facts.get("keys"), op.inputs[0].elements
    if not op.flops or not keys or not elements:
        return 1.0
    scores: float = min(4.0 * elements * keys, op.flops)
    return 1.0 - scores * (1.0 - causal_share(queries, keys)) / op.flops


def _picked(tensor: Tensor) -> bool:
    """Whether a tensor is a matrix that an unknown number, or matrices that indices, picked of a
    table of them."""
    shape, size, memory = tensor.shape, tensor.elements, tensor.memory
    if shape is None or size is None or memory is None:
        return False
    if len(shape) == MATRICES - 1:
        return tensor.origin in {"parameter", "input"} and tensor.part[:1] == ("?",)
    producer = tensor.made_by
    indexed = (producer is not None and producer.name == "index_select") or any(
        part.startswith("tensor ") for part in tensor.part
    )
    # Where each is picked once, they are rows in another order.
    return len(shape) == MATRICES and indexed and 2 * memory <= size


def _quantized(tensor: Tensor) -> bool:
    """Whether a tensor was rounded to 8 bits by the module."""
    behind = ancestors(tensor, LIGHT)
    return any(op.name in {"quantize_fp8", "round"} for op in behind)


def _unpacked(tensor: Tensor) -> bool:
    """Whether a tensor was made from codes: bits were cut out of it, or values looked up in a small
    table."""
    waiting, seen = [tensor], 0
    while waiting and seen < _MOST_BEHIND:
        tensor = waiting.pop()
        seen += 1
        table = tensor.memory is not None and tensor.memory <= _CODES
        if table and any(part.startswith("tensor ") for part in tensor.part):
            return True
        waiting += tensor.stored
        op = tensor.made_by
        if op is not None and op.name in _CUTTING:
            return True
        if op is not None and op.kind in {"elementwise", "copy"}:
            waiting += op.inputs
    return False


def dimension_class(op: Operator) -> str | None:
    """Return whether an operator works along the last dimension or another one."""
    shape, dim = op.inputs[0].shape, op.facts.get("dim")
    if shape is None or not isinstance(dim, int) or not shape:
        return None
    return "last-dim" if dim % len(shape) == len(shape) - 1 else "inner-dim"


def _product_class(  # noqa: PLR0911 (one return a class)
    op: Operator,
) -> tuple[str, str | None]:
    m, n, k = (op.facts.get(axis) for axis in "mnk")
    batch = op.facts.get("batch", 1)
    picked = next(filter(_picked, op.inputs[:2]), None)
    if picked is not None:
        lengths = (picked.shape or ())[-2:]
        low = any(length is not None and length <= _LOW_RANK for length in lengths)
        return "picked_matmul", "low-rank" if low else None
    if any(map(_quantized, op.inputs)):
        return "scaled_matmul", None if k is not None and k > _BLOCK else "block-scales"
    if any(map(_unpacked, op.inputs)):
        return "packed_matmul", None
    if any(t.made_by is not None and t.made_by.name in {"diag", "diag_embed"} for t in op.inputs):
        return "diagonal_matmul", None
    if not (isinstance(m, int) and isinstance(n, int) and isinstance(k, int)):
        return op.name, None
    if op.name != "linear" and batch == 1 and any(triangle_of(t) for t in op.inputs[:2]):
        return "triangular_matmul", None
    if isinstance(batch, int) and batch > 1:
        return "bmm", None
    if 1 in (m, n) and k > 1:
        return "matvec", None
    name = "matmul" if op.name == "bmm" else op.name
    if k <= _SHORT_K and min(m, n) >= _DEEP * k:
        return name, "short-k"
    if min(m, n) <= _SKINNY:
        return name, "skinny"
    if k >= _DEEP * max(m, n):
        return name, "deep-k"
    return name, None
