"""Shape rules of views and new tensors; those of copies are in `copies`."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kb.problems.shapes import Arguments, as_int, axes
from kb.problems.values import Several, Shape, Tensor, dtype_name, product

# A split into more parts than this is no layout that a kernel is written for.
_MAX_PARTS = 1024


def parse_shape(values: Sequence[Any]) -> Shape:
    """Return a shape given as numbers or as one sequence; -1 and what is not known become None."""
    if len(values) == 1 and isinstance(values[0], list | tuple):
        values = values[0]
    return tuple(None if as_int(value) in (None, -1) else value for value in values)


def view(  # noqa: PLR0912 (one case a view)
    first: Tensor, name: str, args: list[Any], kwargs: Arguments
) -> Any:
    """Return the result of a view: the same elements in another shape."""
    if name in {"view", "reshape", "view_as", "reshape_as", "unflatten"}:
        return _reshape(first, name, args, kwargs)
    if name in {"chunk", "split", "unbind"}:
        return _split(first, name, args, kwargs)
    result = shape = first.shape
    if shape is not None:
        rank = len(shape)
        dims = [d for d in [*args, *kwargs.values()] if isinstance(d, int)]
        match name:
            case "permute":
                order = _as_sequence(args) or kwargs.get("dims", [])
                fits = len(order) == rank and all(isinstance(d, int) and -rank <= d < rank
                                                  for d in order)  # fmt: skip
                result = tuple(shape[d] for d in order) if fits else None
            case "transpose" | "t" | "adjoint":
                one, two = dims[:2] if len(dims) >= 2 else (-2, -1)
                result = swap_dims(shape, one, two) if rank > 1 else shape
            case "unsqueeze" if dims and -rank - 1 <= dims[0] <= rank:
                place = dims[0] % (rank + 1)
                result = (*shape[:place], 1, *shape[place:])
            case "squeeze":
                squeezed = axes(dims or None, rank) or []
                result = tuple(n for i, n in enumerate(shape) if not (i in squeezed and n == 1))
            case "flatten" | "ravel":
                result = _flatten(shape, args, kwargs)
            case "expand" | "broadcast_to":
                result = _expand(shape, args)
            case "expand_as" if args and isinstance(args[0], Tensor):
                result = args[0].shape
            case "select" if dims and -rank <= dims[0] < rank:
                result = tuple(n for i, n in enumerate(shape) if i != dims[0] % rank)
            case "narrow" if len(dims) == 3 and -rank <= dims[0] < rank:
                result = tuple(dims[2] if i == dims[0] % rank else n for i, n in enumerate(shape))
            case "movedim" if len(dims) == 2 and all(-rank <= d < rank for d in dims):
                rest = [n for i, n in enumerate(shape) if i != dims[0] % rank]
                place = dims[1] % rank
                result = (*rest[:place], shape[dims[0] % rank], *rest[place:])
            case "diagonal":
                result = _diagonal(shape, args, kwargs)
            case "movedim" | "as_strided":
                result = None
        if name in {"select", "narrow", "diagonal"}:
            return first.subview(result, f"{name} {dims}")
    return replace(first, shape=result)


def _as_sequence(values: Sequence[Any]) -> Sequence[Any]:
    """Numbers that are given one by one or as one sequence."""
    return values[0] if values and isinstance(values[0], list | tuple) else values


def _expand(shape: Shape, args: list[Any]) -> Shape | None:
    """Lengths as asked for; -1 keeps the dimension as it is."""
    sizes = _as_sequence(args)
    padded = (1,) * (len(sizes) - len(shape)) + shape
    pairs = zip(sizes, padded, strict=False)
    return tuple(old if as_int(new) == -1 else as_int(new) for new, old in pairs)


def swap_dims(shape: Shape, one: int, two: int) -> Shape | None:
    """Return a shape with two dimensions exchanged; None where there are no such dimensions."""
    rank = len(shape)
    if not (-rank <= one < rank and -rank <= two < rank):
        return None
    order = list(shape)
    order[one], order[two] = order[two], order[one]
    return tuple(order)


def _flatten(shape: Shape, args: list[Any], kwargs: Arguments) -> Shape | None:
    start = as_int(args[0] if args else kwargs.get("start_dim", 0))
    end = as_int(args[1] if len(args) > 1 else kwargs.get("end_dim", -1))
    rank = max(len(shape), 1)
    if start is None or end is None or not (-rank <= start < rank and -rank <= end < rank):
        return None
    start, end = start % rank, end % rank
    return (*shape[:start], product(shape[start : end + 1]), *shape[end + 1 :])


def _reshape(first: Tensor, name: str, args: list[Any], kwargs: Arguments) -> Tensor:
    if name.endswith("_as"):
        other = args[0] if args else None
        return replace(first, shape=other.shape if isinstance(other, Tensor) else None)
    if name == "unflatten":
        return replace(first, shape=_unflatten(first.shape, args, kwargs))
    sizes = _as_sequence(args or [kwargs.get("shape", kwargs.get("size"))])
    if len(sizes) == 1 and dtype_name(sizes[0]):
        return replace(first, shape=None)
    shape = parse_shape(sizes)
    open_places = [n for n, size in enumerate(sizes) if as_int(size) == -1]
    if len(open_places) == 1:
        place = open_places[0]
        rest = product([size for n, size in enumerate(shape) if n != place])
        elements = first.elements
        inferred = elements // rest if elements is not None and rest else None
        shape = (*shape[:place], inferred, *shape[place + 1 :])
    return replace(first, shape=shape)


def _unflatten(shape: Shape | None, args: list[Any], kwargs: Arguments) -> Shape | None:
    dim = args[0] if args else kwargs.get("dim")
    sizes = args[1] if len(args) > 1 else kwargs.get("sizes", kwargs.get("unflattened_size"))
    rank = len(shape or ())
    if shape is None or not isinstance(dim, int) or not isinstance(sizes, list | tuple):
        return None
    if not -rank <= dim < rank:
        return None
    lengths = parse_shape([sizes])
    length, known_product = shape[dim % rank], product([n for n in lengths if n is not None])
    if lengths.count(None) == 1 and length is not None and known_product:
        lengths = tuple(length // known_product if n is None else n for n in lengths)
    return (*shape[: dim % rank], *lengths, *shape[dim % rank + 1 :])


def _diagonal(shape: Shape, args: list[Any], kwargs: Arguments) -> Shape | None:
    """Without the two dimensions, and with their diagonal as the last."""
    offset, one, two = (*args, *(None,) * 3)[:3]
    offset = as_int(kwargs.get("offset", 0) if offset is None else offset)
    ends = (
        as_int(kwargs.get("dim1", 0) if one is None else one),
        as_int(kwargs.get("dim2", 1) if two is None else two),
    )
    places = [
        None if d is None or not -len(shape) <= d < len(shape) else d % len(shape) for d in ends
    ]
    if offset is None or None in places or places[0] == places[1]:
        return None
    rows, columns = (shape[place] for place in places if place is not None)
    rest = tuple(n for i, n in enumerate(shape) if i not in places)
    if rows is None or columns is None:
        return (*rest, None)
    return (*rest, max(0, min(rows + min(offset, 0), columns - max(offset, 0))))


def _split(first: Tensor, name: str, args: list[Any], kwargs: Arguments) -> Any:
    shape = first.shape
    size = args[0] if args else kwargs.get("chunks", kwargs.get("split_size_or_sections"))
    place = args[1] if len(args) > 1 else kwargs.get("dim", 0)
    if name == "unbind":
        size, place = 1, args[0] if args else kwargs.get("dim", 0)
    if shape is None or not isinstance(place, int) or not -len(shape) <= place < len(shape):
        if name != "chunk" or not isinstance(size, int):
            return Several([replace(first, shape=None)])
        return tuple(replace(first, shape=None) for _ in range(min(size, _MAX_PARTS)))
    place %= len(shape)
    length = shape[place]
    if isinstance(size, list | tuple) and not isinstance(size, Several):
        sizes: Sequence[int | None] = [as_int(part_size) for part_size in size]
    elif length is None or not isinstance(size, int) or size < 1:
        part = (*shape[:place], None, *shape[place + 1 :])
        return Several([first.subview(part, f"{name} ?")])
    else:
        step = -(-length // size) if name == "chunk" else size
        starts = range(0, length, max(step, 1))[:_MAX_PARTS]
        sizes = [min(step, length - at) for at in starts]
    parts = [(*shape[:place], part_size, *shape[place + 1 :]) for part_size in sizes[:_MAX_PARTS]]
    if name == "unbind":
        parts = [(*part[:place], *part[place + 1 :]) for part in parts]
    return tuple(first.subview(part, f"{name} {n}") for n, part in enumerate(parts))


def create_tensor(name: str, args: list[Any], kwargs: Arguments) -> Tensor:
    """Return a new tensor, filled with constants or random numbers."""
    dtype = dtype_name(kwargs.get("dtype"))
    if name.endswith(("_like", "_")) or name in {"normal", "bernoulli"}:  # shaped like a tensor
        for argument in (*args, *kwargs.values()):
            if isinstance(argument, Tensor):
                return Tensor(argument.shape, dtype or argument.dtype, "constant")
    if name.startswith("new_"):
        args = args[1:]
    if name in {"tensor", "as_tensor", "scalar_tensor", "from_numpy"}:
        value = args[0] if args else None
        return Tensor(_nested(value), dtype or "float32", "constant")
    if name in {"arange", "linspace", "randperm"}:
        return Tensor((_count(name, args),), dtype or "int64", "constant")
    sizes = args
    if name in {"randint", "full", "new_full", "normal"}:  # these take other numbers as well
        sizes = [item for item in args if isinstance(item, list | tuple)][:1]
        dtype = dtype or ("int64" if name == "randint" else "float32")
    shape = parse_shape(sizes or [kwargs.get("size")])
    if name == "eye" and len(shape) == 1:
        shape = (shape[0], shape[0])
    return Tensor(shape, dtype or "float32", "constant")


def advanced_index(tensor: Tensor, parts: Sequence[Any]) -> Tensor:
    """Return the rows that a tensor of indices or of truth values picks."""
    index, shape, result = parts[0], tensor.shape, None
    if shape is not None and len(parts) == 1 and isinstance(index, Tensor) and index.shape:
        by_position = index.dtype != "bool"
        result = (*index.shape, *shape[1:]) if by_position else (None, *shape[len(index.shape) :])
    # As many elements as there are may be others, or the same in another order.
    return replace(tensor, shape=result, part=(*tensor.part, index_text(parts)))


def index_text(parts: Sequence[Any]) -> str:
    """Return an index as text, equal for those that are known to take the same elements."""
    return ", ".join(map(_index, parts))


def _index(part: Any) -> str:
    match part:
        case slice(start=start, stop=stop, step=step):
            return ":".join(map(_index, (start, stop, step)))
        case Tensor(number=number):
            return f"tensor {number}"
        case int() | None:
            return str(part)
    return "?"


def meshgrid(vectors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return what `meshgrid` makes of vectors, in the order of their indices."""
    lengths = [tensor.shape[0] if tensor.shape else None for tensor in vectors]
    return tuple(Tensor(tuple(lengths), tensor.dtype, "constant") for tensor in vectors)


def _nested(value: Any) -> Shape | None:
    shape: list[int] = []
    while isinstance(value, list | tuple) and value and len(shape) < 8:
        shape.append(len(value))
        value = value[0]
    return tuple(shape) if isinstance(value, int | float | list | tuple) else None


def _count(name: str, args: list[Any]) -> int | None:
    numbers = [item for item in args if isinstance(item, int | float)]
    if not numbers or len(numbers) != len(args):
        return None
    if name == "linspace":
        return as_int(numbers[2]) if len(numbers) > 2 else None
    if name == "randperm" or len(numbers) == 1:
        return as_int(numbers[0])
    step = numbers[2] if len(numbers) > 2 else 1
    return max(0, int(-(-(numbers[1] - numbers[0]) // step))) if step else None
