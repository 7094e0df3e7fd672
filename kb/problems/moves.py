"""Shape rules of views and new tensors; those of copies are in `copies`."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kb.problems.shapes import Arguments, axes, whole
from kb.problems.values import Shape, Tensor, dtype_name, product

# A split into more parts than this is no layout that a kernel is written for.
_MOST_PARTS = 1024


def lengths_of(values: Sequence[Any]) -> Shape:
    """Return a shape given as numbers or as one sequence; -1 and what is not known become None."""
    if len(values) == 1 and isinstance(values[0], list | tuple):
        values = values[0]
    return tuple(None if whole(value) in (None, -1) else value for value in values)


def view(  # noqa: PLR0912 (one case a view)
    first: Tensor, name: str, positional: list[Any], named: Arguments
) -> Any:
    """Return the result of a view: the same elements in another shape."""
    if name in {"view", "reshape", "view_as", "reshape_as", "unflatten"}:
        return _reshaped(first, name, positional, named)
    if name in {"chunk", "split", "unbind"}:
        return _parts(first, name, positional, named)
    found = shape = first.shape
    if shape is not None:
        rank = len(shape)
        dims = [d for d in [*positional, *named.values()] if isinstance(d, int)]
        match name:
            case "permute":
                order = _listed(positional) or named.get("dims", [])
                fits = len(order) == rank and all(isinstance(d, int) and -rank <= d < rank
                                                  for d in order)  # fmt: skip
                found = tuple(shape[d] for d in order) if fits else None
            case "transpose" | "t" | "adjoint":
                one, two = dims[:2] if len(dims) >= 2 else (-2, -1)
                found = swapped(shape, one, two) if rank > 1 else shape
            case "unsqueeze" if dims and -rank - 1 <= dims[0] <= rank:
                place = dims[0] % (rank + 1)
                found = (*shape[:place], 1, *shape[place:])
            case "squeeze":
                wanted = axes(dims or None, rank) or []
                found = tuple(n for i, n in enumerate(shape) if not (i in wanted and n == 1))
            case "flatten" | "ravel":
                found = _flat(shape, positional, named)
            case "expand" | "broadcast_to":
                found = _expanded(shape, positional)
            case "expand_as" if positional and isinstance(positional[0], Tensor):
                found = positional[0].shape
            case "select" if dims and -rank <= dims[0] < rank:
                found = tuple(n for i, n in enumerate(shape) if i != dims[0] % rank)
            case "narrow" if len(dims) == 3 and -rank <= dims[0] < rank:
                found = tuple(dims[2] if i == dims[0] % rank else n for i, n in enumerate(shape))
            case "movedim" if len(dims) == 2 and all(-rank <= d < rank for d in dims):
                rest = [n for i, n in enumerate(shape) if i != dims[0] % rank]
                place = dims[1] % rank
                found = (*rest[:place], shape[dims[0] % rank], *rest[place:])
            case "diagonal":
                found = _diagonal(shape, positional, named)
            case "movedim" | "as_strided":
                found = None
        if name in {"select", "narrow", "diagonal"}:
            return first.taken(found, f"{name} {dims}")
    return replace(first, shape=found)


def _listed(values: Sequence[Any]) -> Sequence[Any]:
    """Numbers that are given one by one or as one sequence."""
    return values[0] if values and isinstance(values[0], list | tuple) else values


def _expanded(shape: Shape, positional: list[Any]) -> Shape | None:
    """Lengths as asked for; -1 keeps the dimension as it is."""
    given = _listed(positional)
    own = (1,) * (len(given) - len(shape)) + shape
    asked = zip(given, own, strict=False)
    return tuple(old if whole(each) == -1 else whole(each) for each, old in asked)


def swapped(shape: Shape, one: int, two: int) -> Shape | None:
    """Return a shape with two dimensions exchanged; None where there are no such dimensions."""
    rank = len(shape)
    if not (-rank <= one < rank and -rank <= two < rank):
        return None
    order = list(shape)
    order[one], order[two] = order[two], order[one]
    return tuple(order)


def _flat(shape: Shape, positional: list[Any], named: Arguments) -> Shape | None:
    start = whole(positional[0] if positional else named.get("start_dim", 0))
    end = whole(positional[1] if len(positional) > 1 else named.get("end_dim", -1))
    rank = max(len(shape), 1)
    if start is None or end is None or not (-rank <= start < rank and -rank <= end < rank):
        return None
    start, end = start % rank, end % rank
    return (*shape[:start], product(shape[start : end + 1]), *shape[end + 1 :])


def _reshaped(first: Tensor, name: str, positional: list[Any], named: Arguments) -> Tensor:
    if name.endswith("_as"):
        other = positional[0] if positional else None
        return replace(first, shape=other.shape if isinstance(other, Tensor) else None)
    if name == "unflatten":
        return replace(first, shape=_unflattened(first.shape, positional, named))
    given = _listed(positional or [named.get("shape", named.get("size"))])
    if len(given) == 1 and dtype_name(given[0]):
        return replace(first, shape=None)
    shape = lengths_of(given)
    open_places = [n for n, each in enumerate(given) if whole(each) == -1]
    if len(open_places) == 1:
        place = open_places[0]
        rest = product([size for n, size in enumerate(shape) if n != place])
        elements = first.elements
        left = elements // rest if elements is not None and rest else None
        shape = (*shape[:place], left, *shape[place + 1 :])
    return replace(first, shape=shape)


def _unflattened(shape: Shape | None, positional: list[Any], named: Arguments) -> Shape | None:
    dim = positional[0] if positional else named.get("dim")
    sizes = (
        positional[1] if len(positional) > 1 else named.get("sizes", named.get("unflattened_size"))
    )
    rank = len(shape or ())
    if shape is None or not isinstance(dim, int) or not isinstance(sizes, list | tuple):
        return None
    if not -rank <= dim < rank:
        return None
    whole_ones = lengths_of([sizes])
    length, known = shape[dim % rank], product([n for n in whole_ones if n is not None])
    if whole_ones.count(None) == 1 and length is not None and known:
        whole_ones = tuple(length // known if n is None else n for n in whole_ones)
    return (*shape[: dim % rank], *whole_ones, *shape[dim % rank + 1 :])


def _diagonal(shape: Shape, positional: list[Any], named: Arguments) -> Shape | None:
    """Without the two dimensions, and with their diagonal as the last."""
    offset, one, two = (*positional, *(None,) * 3)[:3]
    offset = whole(named.get("offset", 0) if offset is None else offset)
    ends = (
        whole(named.get("dim1", 0) if one is None else one),
        whole(named.get("dim2", 1) if two is None else two),
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


def _parts(first: Tensor, name: str, positional: list[Any], named: Arguments) -> Any:
    shape = first.shape
    size = positional[0] if positional else named.get("chunks", named.get("split_size_or_sections"))
    place = positional[1] if len(positional) > 1 else named.get("dim", 0)
    if name == "unbind":
        size, place = 1, positional[0] if positional else named.get("dim", 0)
    if shape is None or not isinstance(place, int) or not -len(shape) <= place < len(shape):
        count = size if name == "chunk" and isinstance(size, int) else 0
        return tuple(replace(first, shape=None) for _ in range(min(count, _MOST_PARTS)))
    place %= len(shape)
    length = shape[place]
    if isinstance(size, list | tuple):
        sizes: Sequence[int | None] = [whole(each) for each in size]
    elif length is None or not isinstance(size, int) or size < 1:
        return ()
    else:
        step = -(-length // size) if name == "chunk" else size
        starts = range(0, length, max(step, 1))[:_MOST_PARTS]
        sizes = [min(step, length - at) for at in starts]
    parts = [(*shape[:place], each, *shape[place + 1 :]) for each in sizes[:_MOST_PARTS]]
    if name == "unbind":
        parts = [(*part[:place], *part[place + 1 :]) for part in parts]
    return tuple(first.taken(part, f"{name} {n}") for n, part in enumerate(parts))


def created(name: str, positional: list[Any], named: Arguments) -> Tensor:
    """Return a new tensor, filled with constants or random numbers."""
    dtype = dtype_name(named.get("dtype"))
    if name.endswith(("_like", "_")) or name in {"normal", "bernoulli"}:  # shaped like a tensor
        for given in (*positional, *named.values()):
            if isinstance(given, Tensor):
                return Tensor(given.shape, dtype or given.dtype, "constant")
    if name.startswith("new_"):
        positional = positional[1:]
    if name in {"tensor", "as_tensor", "scalar_tensor", "from_numpy"}:
        value = positional[0] if positional else None
        return Tensor(_nested(value), dtype or "float32", "constant")
    if name in {"arange", "linspace", "randperm"}:
        return Tensor((_count(name, positional),), dtype or "int64", "constant")
    sizes = positional
    if name in {"randint", "full", "new_full", "normal"}:  # these take other numbers as well
        sizes = [each for each in positional if isinstance(each, list | tuple)][:1]
        dtype = dtype or ("int64" if name == "randint" else "float32")
    shape = lengths_of(sizes or [named.get("size")])
    if name == "eye" and len(shape) == 1:
        shape = (shape[0], shape[0])
    return Tensor(shape, dtype or "float32", "constant")


def picked(tensor: Tensor, parts: Sequence[Any]) -> Tensor:
    """Return the rows that a tensor of indices or of truth values picks."""
    index, shape, found = parts[0], tensor.shape, None
    if shape is not None and len(parts) == 1 and isinstance(index, Tensor) and index.shape:
        one = index.dtype != "bool"
        found = (*index.shape, *shape[1:]) if one else (None, *shape[len(index.shape) :])
    return tensor.taken(found, index_text(parts))


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


def grids(given: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return what `meshgrid` makes of vectors, in the order of their indices."""
    lengths = [tensor.shape[0] if tensor.shape else None for tensor in given]
    return tuple(Tensor(tuple(lengths), tensor.dtype, "constant") for tensor in given)


def _nested(value: Any) -> Shape | None:
    shape: list[int] = []
    while isinstance(value, list | tuple) and value and len(shape) < 8:
        shape.append(len(value))
        value = value[0]
    return tuple(shape) if isinstance(value, int | float | list | tuple) else None


def _count(name: str, positional: list[Any]) -> int | None:
    numbers = [each for each in positional if isinstance(each, int | float)]
    if not numbers or len(numbers) != len(positional):
        return None
    if name == "linspace":
        return whole(numbers[2]) if len(numbers) > 2 else None
    if name == "randperm" or len(numbers) == 1:
        return whole(numbers[0])
    step = numbers[2] if len(numbers) > 2 else 1
    return max(0, int(-(-(numbers[1] - numbers[0]) // step))) if step else None
