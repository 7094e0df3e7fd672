"""Shape rules of PyTorch's operators, by their kind. An unknown length stays unknown."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from kb.problems.values import DTYPE_BYTES, Operator, Shape, product
from kb.problems.vocabulary import arguments_of

Arguments = dict[str, Any]
"""Arguments by name; `rest` holds the positional ones after the first tensor."""


def broadcast(shapes: Sequence[Shape | None]) -> Shape | None:
    """Return the shape that operands broadcast to; where they do not fit, the longest one's. None
    where one is not known."""
    if not shapes or any(shape is None for shape in shapes):
        return None
    rank = max(len(shape) for shape in shapes if shape is not None)
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes if shape is not None]
    columns = zip(*padded, strict=True)
    return tuple(None if None in column else max(column) for column in columns)


def as_int(value: Any) -> int | None:
    """Return an integer argument; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def per_dim(value: Any, rank: int, default: int) -> list[int | None]:
    """Return one number for each of `rank` dimensions from a number or a sequence."""
    if isinstance(value, list | tuple) and value:
        sizes = [as_int(item) for item in value]
        return (sizes * rank)[:rank] if len(sizes) == 1 else (sizes + [None] * rank)[:rank]
    if value is None:
        return [default] * rank
    return [as_int(value)] * rank


def axes(dim: Any, rank: int) -> list[int] | None:
    """Return dimensions counted from the front; None where they are not stated."""
    if dim is None:
        return list(range(rank))
    values = list(dim) if isinstance(dim, list | tuple) else [dim]
    if not all(isinstance(value, int) and -rank <= value < rank for value in values):
        return None
    return sorted({value % rank for value in values}) if values else list(range(rank))


def bind(op: Operator, args: Sequence[Any], kwargs: Arguments) -> Arguments:
    """Return arguments by name. `args` are those after the first tensor."""
    names = arguments_of(op.name)
    bound: Arguments = dict(zip(names, args, strict=False)) | kwargs
    if "axis" in bound:
        bound.setdefault("dim", bound["axis"])
    bound["rest"] = list(args)
    return bound


def elementwise(op: Operator, arguments: Arguments) -> None:  # noqa: ARG001 (a rule takes both)
    """As large as the operands broadcast to."""
    shape = broadcast([tensor.shape for tensor in op.inputs])
    main = next((t for t in op.inputs if t.shape == shape), op.inputs[0])
    widest = max(op.inputs, key=lambda t: ("float" in t.dtype, DTYPE_BYTES.get(t.dtype, 4)))
    dtype = widest.dtype if shape else main.dtype
    if op.name in {"eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "isfinite"}:
        dtype = "bool"
    op.add_output(shape, dtype)
    op.facts["flops"] = op.outputs[0].elements


def as_input(op: Operator, arguments: Arguments) -> None:
    """As large as the first operand; `dim` is noted."""
    first = op.inputs[0]
    op.add_output(first.shape, first.dtype)
    usual = -1 if op.kind in {"softmax", "scan"} else 1 if op.name == "normalize" else None
    dim = arguments.get("dim", usual)
    op.facts["dim"] = dim if isinstance(dim, int) else None
    for key in ("num_groups", "normalized_shape"):
        if key in arguments:
            op.facts[key] = arguments[key]
    # Maximum, difference, exponential, sum, quotient; mean, difference, square, sum, scale.
    op.facts["flops"] = product([5, first.elements])


def glu(op: Operator, arguments: Arguments) -> None:
    """Half as long in one dimension."""
    first = op.inputs[0]
    dim = as_int(arguments.get("dim", -1))
    shape = first.shape
    if shape and dim is not None and -len(shape) <= dim < len(shape):
        place = dim % len(shape)
        half = shape[place]
        shape = (*shape[:place], None if half is None else half // 2, *shape[place + 1 :])
    op.add_output(shape, first.dtype)
    op.facts["flops"] = op.outputs[0].elements


def reduce(op: Operator, arguments: Arguments) -> None:
    """Without the reduced dimensions, or with ones in their place."""
    first = op.inputs[0]
    keepdim = arguments.get("keepdim") is True or arguments.get("keepdims") is True
    dim = arguments.get("dim", 1 if op.name == "cosine_similarity" else None)
    op.facts["dim"] = dim if isinstance(dim, int | list | tuple) else None
    op.facts["full"] = dim is None
    shape: Shape | None = None
    if first.shape is not None and (reduced := axes(dim, len(first.shape))) is not None:
        lengths = ((1 if n in reduced else size) for n, size in enumerate(first.shape))
        shape = tuple(length for n, length in enumerate(lengths) if keepdim or n not in reduced)
    dtype = "int64" if op.kind == "argreduce" else first.dtype
    op.add_output(shape, dtype)
    if op.name in {"max", "min", "median"} and dim is not None:
        op.add_output(shape, "int64")
    op.facts["flops"] = first.elements


def pool(op: Operator, arguments: Arguments) -> None:
    """Each length of the image is what windows with this stride fit into it."""
    first = op.inputs[0]
    rank = _rank_in_name(op.name)
    window = per_dim(arguments.get("kernel_size"), rank, 1)
    stride_argument = arguments.get("stride")
    stride = window if stride_argument in (None, [], ()) else per_dim(stride_argument, rank, 1)
    padding = per_dim(arguments.get("padding"), rank, 0)
    dilation = per_dim(arguments.get("dilation"), rank, 1)
    op.facts |= {"window": window, "stride": stride, "padding": padding, "dilation": dilation}
    shape: Shape | None = None
    if first.shape is not None and len(first.shape) > rank:
        image = first.shape[-rank:]
        ceil = arguments.get("ceil_mode") is True
        out = [
            windows(*sizes, ceil=ceil)
            for sizes in zip(image, window, stride, padding, dilation, strict=True)
        ]
        shape = (*first.shape[:-rank], *out)
    op.add_output(shape, first.dtype)
    if arguments.get("return_indices") is True:
        op.add_output(shape, "int64")
    op.facts["flops"] = product([op.outputs[0].elements, product(window)])


def windows(*sizes: int | None, ceil: bool = False) -> int | None:
    """Return how many windows fit: of a length, the window, its stride, padding and dilation."""
    size, window, stride, padding, dilation = sizes
    if size is None or window is None or not stride or padding is None or dilation is None:
        return None
    left = size + 2 * padding - dilation * (window - 1) - 1
    return max(0, (-(-left // stride) if ceil else left // stride) + 1)


def adaptive_pool(op: Operator, arguments: Arguments) -> None:
    """The lengths of the image are given."""
    first = op.inputs[0]
    rank = _rank_in_name(op.name)
    size = arguments.get("output_size", (arguments["rest"] or [None])[0])
    shape: Shape | None = None
    if first.shape is not None and len(first.shape) > rank:
        requested = list(size) if isinstance(size, list | tuple) else [size] * rank
        image = first.shape[-rank:]
        pairs = zip(requested, image, strict=False)
        lengths = [old if new is None else as_int(new) for new, old in pairs]
        shape = (*first.shape[:-rank], *lengths)
    op.add_output(shape, first.dtype)
    op.facts["flops"] = first.elements


def loss(op: Operator, arguments: Arguments) -> None:
    """One number, unless nothing is reduced."""
    first = op.inputs[0]
    unreduced = arguments.get("reduction") == "none"
    op.add_output(first.shape if unreduced else (), first.dtype)
    op.facts["flops"] = product([3, first.elements])


def embedding(op: Operator, arguments: Arguments) -> None:  # noqa: ARG001 (a rule takes both)
    """The shape of the indices, then the width of the table."""
    tensors = op.inputs
    table = next((t for t in tensors if t.origin == "parameter"), tensors[-1])
    index = next((t for t in tensors if t is not table), tensors[0])
    is_known = index.shape is not None and table.shape is not None
    shape = (*index.shape, table.shape[-1]) if is_known else None  # type: ignore[misc, index]
    if op.name == "embedding_bag" and shape is not None and len(shape) == 3:
        shape = (shape[0], shape[2])
    op.add_output(shape, table.dtype)
    op.facts["flops"] = 0
    op.facts["rows"] = index.elements


def select(op: Operator, arguments: Arguments) -> None:
    """Values and indices."""
    first = op.inputs[0]
    shape = first.shape
    k = as_int(arguments.get("k"))
    dim = as_int(arguments.get("dim", -1))
    if op.name == "topk" and shape and dim is not None and -len(shape) <= dim < len(shape):
        place = dim % len(shape)
        shape = (*shape[:place], k, *shape[place + 1 :])
    elif op.name not in {"sort", "argsort"}:
        shape = None
    op.add_output(shape, first.dtype)
    op.add_output(shape, "int64")
    op.facts["flops"] = first.elements


def unknown(op: Operator, arguments: Arguments) -> None:  # noqa: ARG001 (a rule takes both)
    """Nothing is known of the result."""
    op.add_output(None, op.inputs[0].dtype if op.inputs else "float32")


def _rank_in_name(name: str) -> int:
    return int(name[-2]) if name[-2:-1].isdigit() else 2


Rule = Callable[[Operator, Arguments], None]
RULES: Final[dict[str, Rule]] = {
    "elementwise": elementwise, "norm": as_input, "softmax": as_input, "scan": as_input, "glu": glu,
    "reduce": reduce, "argreduce": reduce, "pool": pool, "adaptive_pool": adaptive_pool,
    "loss": loss, "embedding": embedding, "select": select, "library": unknown,
    "unknown": unknown,
}  # fmt: skip
