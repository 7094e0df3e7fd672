"""Layers and containers of `torch.nn` as values, with the parameters they hold."""

from typing import Any, Final

from kb.problems.arithmetic import MAX_ITEMS
from kb.problems.shapes import as_int
from kb.problems.values import UNKNOWN, Container, Layer, Shape, Tensor, dtype_name
from kb.problems.vocabulary import kind_of, layer_kind

# More layers of a recurrent network than this are no network's.
_MAX_LAYERS: Final = 64


def new_container(name: str, args: list[Any]) -> Container:
    """Return a container of the layers that its constructor is given."""
    values: Any = args
    if len(args) == 1 and isinstance(args[0], list | tuple | dict):
        values = args[0]
    if isinstance(values, dict):
        return Container(name, list(values.values()), list(values))
    return Container(name, list(values))


def container_method(container: Container, name: str, args: list[Any]) -> Any:
    """Return what a container's own method gives; `append` adds to it."""
    room = len(container.items) < MAX_ITEMS
    if name == "append" and args and room:
        container.items.append(args[0])
    elif name == "add_module" and len(args) > 1 and room:
        container.items.append(args[1])
    elif name in {"values", "children"}:
        return list(container.items)
    elif name == "items":
        return list(zip(container.keys, container.items, strict=False))
    return container if name in {"append", "to", "eval", "train"} else UNKNOWN


def new_layer(name: str, args: list[Any], kwargs: dict[str, Any]) -> Layer:
    """Return a layer with its constructor's arguments by name."""
    kind = layer_kind(name)
    names = kind.arguments if kind is not None else ()
    arguments = dict(zip(names, args, strict=False)) | kwargs
    parameters = _parameters(kind.op if kind else "", arguments)
    dtype = dtype_name(arguments.get("dtype"))
    for parameter in parameters if dtype is not None else ():
        parameter.dtype = str(dtype)
    return Layer(name, arguments, parameters)


def _parameters(op: str, args: dict[str, Any]) -> list[Tensor]:
    def size(key: str) -> int | None:
        return as_int(args.get(key))

    def weights(*shapes: Shape | None) -> list[Tensor]:
        bias = args.get("bias", True)
        param_shapes = shapes if bias is not False and bias is not None else shapes[:1]
        return [Tensor(shape, "float32", "parameter") for shape in param_shapes]

    kind = kind_of(op)
    if op in {"linear", "bilinear"}:
        out = size("out_features")
        wide = ("in_features",) if op == "linear" else ("in1_features", "in2_features")
        return weights((out, *map(size, wide)), (out,))
    if kind in {"conv", "conv_transpose"}:
        rank = int(op[-2])
        window = args.get("kernel_size")
        lengths = list(window) if isinstance(window, list | tuple) else [window] * rank
        taps = tuple(as_int(tap) for tap in lengths)
        groups = args.get("groups", 1)
        one, two = size("in_channels"), size("out_channels")
        grouped, other = (two, one) if kind == "conv_transpose" else (one, two)
        valid = isinstance(groups, int) and groups > 0
        per = grouped // groups if valid and grouped is not None else None
        return weights((other, per, *taps), (two,))
    if op in {"batch_norm", "group_norm", "layer_norm", "rms_norm"}:
        length = args.get("num_features", args.get("num_channels", args.get("normalized_shape")))
        shape = tuple(as_int(e) for e in (length if isinstance(length, list | tuple) else [length]))
        plain = args.get("affine", args.get("elementwise_affine", True)) is False
        count = 0 if plain else 1 if op == "rms_norm" else 2
        return [Tensor(shape, "float32", "parameter") for _ in range(count)]
    shapes: list[Shape] = []
    if kind == "embedding":
        shapes = [(size("num_embeddings"), size("embedding_dim"))]
    elif kind == "recurrent":
        shapes = _recurrent(op, args, size("input_size"), size("hidden_size"))
    elif op == "multi_head_attention_forward":
        width, bias = size("embed_dim"), args.get("bias", True) is not False
        three = None if width is None else 3 * width
        shapes = [(three, width), (width, width), *([(three,), (width,)] if bias else [])]
    elif op == "prelu":
        shapes = [(as_int(args.get("num_parameters", 1)),)]
    return [Tensor(shape, "float32", "parameter") for shape in shapes]


def _recurrent(op: str, args: dict[str, Any], wide: int | None, hidden: int | None) -> list[Shape]:
    """Of every layer and direction: the gates' weights of input and state, and two biases."""
    gates = {"lstm": 4, "gru": 3}.get(op, 1)
    directions = 2 if args.get("bidirectional") is True else 1
    rows = None if hidden is None else gates * hidden
    shapes: list[Shape] = []
    for layer in range(min(as_int(args.get("num_layers", 1)) or 1, _MAX_LAYERS)):
        above = None if hidden is None else directions * hidden
        weights: list[Shape] = [(rows, above if layer else wide), (rows, hidden)]
        biases: list[Shape] = [] if args.get("bias", True) is False else [(rows,), (rows,)]
        shapes += [*weights, *biases] * directions
    return shapes
