"""Shape rules of what writes elements to other places: joined, repeated, gathered, padded."""

from collections.abc import Callable
from typing import Any, Final

from kb.problems.moves import swap_dims
from kb.problems.shapes import Arguments, as_int
from kb.problems.values import Operator, Shape, Tensor, product


def data_movement(op: Operator, arguments: Arguments) -> None:
    """Add the result of an operator that writes elements to other places."""
    first = op.inputs[0] if op.inputs else Tensor(None)
    shape = first.shape
    rule = _SHAPES.get(op.name)
    if rule is not None:
        shape = None if shape is None else rule(shape, arguments)
    elif op.name in {"tril", "triu"}:
        op.facts["diagonal"] = arguments.get("diagonal", 0)
    elif op.name not in _KEEPING:
        shape = _joint_shape(op, arguments)
    op.add_output(shape, first.dtype)
    op.facts["flops"] = 0


def _joint_shape(op: Operator, arguments: Arguments) -> Shape | None:
    match op.name:
        case "cat" | "stack" | "hstack" | "vstack":
            return _concatenated(op, arguments.get("dim", 0))
        case "index_select":
            return _selected(op, arguments)
        case "cdist":
            return _distances(op)
        case "gather" | "take_along_dim" if len(op.inputs) > 1:
            op.facts["dim"] = arguments.get("dim")
            return op.inputs[1].shape
    return None


def _concatenated(op: Operator, place: Any) -> Shape | None:
    shapes = [tensor.shape for tensor in op.inputs]
    first = shapes[0] if shapes else None
    if first is None or not isinstance(place, int):
        return None
    if op.name == "stack":
        place %= len(first) + 1
        return (*first[:place], len(shapes), *first[place:])
    if any(shape is None or len(shape) != len(first) for shape in shapes):
        return None
    if op.name != "cat":  # of rows, or of what is beside one another
        if len(first) < 2:
            return None
        place = 0 if op.name == "vstack" else 1
    if not -len(first) <= place < len(first):
        return None
    place %= len(first)
    lengths = [shape[place] for shape in shapes if shape is not None]
    total = None if None in lengths else sum(length for length in lengths if length is not None)
    return (*first[:place], total, *first[place + 1 :])


def _padded(shape: Shape, arguments: Arguments) -> Shape | None:
    pads = arguments.get("pad")
    if isinstance(pads, int):
        pads = [pads] * 2 * (len(shape) - 2)
    if not isinstance(pads, list | tuple) or len(pads) > 2 * len(shape):
        return None
    lengths = list(shape)
    for pair in range(len(pads) // 2):
        before, after = as_int(pads[2 * pair]), as_int(pads[2 * pair + 1])
        place = len(lengths) - 1 - pair
        old = lengths[place]
        is_known = old is not None and before is not None and after is not None
        lengths[place] = old + before + after if is_known else None  # type: ignore[operator]
    return tuple(lengths)


def _resized(shape: Shape, arguments: Arguments) -> Shape | None:
    if len(shape) < 3:
        return None
    size, factor, image = arguments.get("size"), arguments.get("scale_factor"), shape[2:]
    if size is not None:
        sizes = list(size) if isinstance(size, list | tuple) else [size] * len(image)
        return (*shape[:2], *(as_int(size_) for size_ in sizes))
    if not isinstance(factor, int | float) or not 0 < factor < 1e6:
        return None
    return (*shape[:2], *(None if n is None else int(n * factor) for n in image))


def _selected(op: Operator, arguments: Arguments) -> Shape | None:
    shape, dim = op.inputs[0].shape, arguments.get("dim")
    index = op.inputs[1].shape if len(op.inputs) > 1 else None
    if shape is None or index is None or not isinstance(dim, int):
        return None
    if not -len(shape) <= dim < len(shape) or len(index) > 1:
        return None
    return tuple(product(index) if i == dim % len(shape) else n for i, n in enumerate(shape))


def _distances(op: Operator) -> Shape | None:
    shapes = [input_.shape for input_ in op.inputs[:2]]
    if len(shapes) < 2 or any(shape is None or len(shape) < 2 for shape in shapes):
        return None
    one, two = (shape or () for shape in shapes)
    return (*one[:-1], two[-2])


def _scaled(length: int | None, factor: int | None) -> int | None:
    return product((length, factor))


def _repeated(shape: Shape, arguments: Arguments) -> Shape | None:
    """`repeat` and `tile`: each dimension as often as is said, from the last one on."""
    repeats = arguments["rest"] or [arguments.get("repeats", arguments.get("dims"))]
    listed = repeats[0] if isinstance(repeats[0], list | tuple) else repeats
    own_factors = [as_int(item) for item in listed]
    rank = max(len(own_factors), len(shape))
    factors = (*(1,) * (rank - len(own_factors)), *own_factors)
    lengths = (*(1,) * (rank - len(shape)), *shape)
    return tuple(_scaled(n, factor) for n, factor in zip(lengths, factors, strict=True))


def _each_repeated(shape: Shape, arguments: Arguments) -> Shape | None:
    """`repeat_interleave` by one number."""
    factor, dim = as_int(arguments.get("repeats")), arguments.get("dim")
    if dim is None:
        return (_scaled(product(shape), factor),)
    if not isinstance(dim, int) or not -len(shape) <= dim < len(shape):
        return None
    return tuple(_scaled(n, factor) if i == dim % len(shape) else n for i, n in enumerate(shape))


def _one_hot(shape: Shape, arguments: Arguments) -> Shape | None:
    return (*shape, as_int(arguments.get("num_classes")))


def _as_diagonals(shape: Shape, arguments: Arguments) -> Shape | None:
    return (*shape, shape[-1]) if shape and not arguments["rest"] else None


def _rotated(shape: Shape, arguments: Arguments) -> Shape | None:
    turns, dims = arguments.get("k", 1), arguments.get("dims", (0, 1))
    if not isinstance(turns, int) or not isinstance(dims, list | tuple) or len(dims) != 2:
        return None
    if turns % 2 == 0:
        return shape
    one, two = dims
    return swap_dims(shape, one, two) if isinstance(one, int) and isinstance(two, int) else None


def _windows(shape: Shape, arguments: Arguments) -> Shape | None:
    """`Tensor.unfold(dimension, size, step)`, and of images `unfold(kernel_size, ...)`."""
    rest = arguments["rest"]
    if len(rest) == 3 and all(isinstance(value, int) for value in rest):
        dim, size, step = rest
        length = shape[dim] if -len(shape) <= dim < len(shape) else None
        if length is None or step < 1 or not 0 < size <= length:
            return None
        dim %= len(shape)
        return (*shape[:dim], (length - size) // step + 1, *shape[dim + 1 :], size)
    if len(shape) != 4:
        return None
    settings = [
        value if isinstance(value, list | tuple) else (value, value)
        for value in (
            arguments.get("kernel_size"),
            arguments.get("dilation", 1),
            arguments.get("padding", 0),
            arguments.get("stride", 1),
        )
    ]
    positions, taps = 1, 1
    for place, (k, d, p, s) in enumerate(zip(*settings, strict=False)):
        length = shape[2 + place]
        if length is None or not all(isinstance(value, int) for value in (k, d, p, s)) or s < 1:
            return None
        count = (length + 2 * p - d * (k - 1) - 1) // s + 1
        if count < 1:
            return None
        positions *= count
        taps *= k
    return (shape[0], _scaled(shape[1], taps), positions)


def _shuffled(shape: Shape, arguments: Arguments) -> Shape | None:
    factor = as_int(arguments.get("upscale_factor"))
    if factor is None or factor < 1 or len(shape) < 3 or shape[-3] is None:
        return None
    image = (_scaled(n, factor) for n in shape[-2:])
    return (*shape[:-3], shape[-3] // factor**2, *image)


def _unshuffled(shape: Shape, arguments: Arguments) -> Shape | None:
    factor = as_int(arguments.get("downscale_factor"))
    if factor is None or factor < 1 or len(shape) < 3:
        return None
    image = (None if n is None else n // factor for n in shape[-2:])
    return (*shape[:-3], _scaled(shape[-3], factor**2), *image)


_SHAPES: Final[dict[str, Callable[[Shape, Arguments], Shape | None]]] = {
    "pad": _padded,
    "interpolate": _resized,
    "repeat": _repeated,
    "tile": _repeated,
    "repeat_interleave": _each_repeated,
    "one_hot": _one_hot,
    "diag_embed": _as_diagonals,
    "rot90": _rotated,
    "unfold": _windows,
    "pixel_shuffle": _shuffled,
    "pixel_unshuffle": _unshuffled,
}
"""Of operators whose result depends on the first tensor's shape and on numbers alone."""
_KEEPING: Final = frozenset(
    {"roll", "flip", "channel_shuffle", "scatter", "scatter_add", "index_add"}
)
"""Operators whose result is shaped like the first tensor."""
