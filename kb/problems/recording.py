"""Reading a module's calls: what is a layer, an operator, a view or plain arithmetic.

Every operator that is met is recorded with the shapes it takes and gives.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from kb.problems import members, moves
from kb.problems.arithmetic import MAX_ITEMS
from kb.problems.builtins import builtin
from kb.problems.composed import COMPOSED, composed
from kb.problems.copies import copied
from kb.problems.interpreter import Interpreter
from kb.problems.layers import contain, contained, new_layer
from kb.problems.loops import TimeLoop, time_loop
from kb.problems.products import PRODUCT_RULES
from kb.problems.shapes import RULES, bind
from kb.problems.values import (
    UNKNOWN,
    Class,
    Container,
    Function,
    Instance,
    Layer,
    Library,
    Method,
    Operator,
    Scope,
    Tensor,
    Unknown,
    dtype_name,
    product,
    tensors_in,
)
from kb.problems.vocabulary import canonical, kind_of, layer_kind

MAX_OPERATORS = 4000
_TORCH = ("torch", "torchvision")
# What `max` along a dimension, `sort` and `topk` return.
_RESULTS = ("values", "indices")
_CONTAINERS = frozenset(
    {"Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict"}
)
_PARAMETERS = frozenset({"Parameter", "Buffer", "UninitializedParameter"})
# Of an object that is a module; what they do changes no value that is read here.
_QUIET = frozenset({
    "super", "__init__", "init", "manual_seed", "no_grad", "enable_grad", "autocast", "device",
    "train", "eval", "apply", "parameters", "register_module", "synchronize", "is_available",
})  # fmt: skip
_RULES: Final = RULES | PRODUCT_RULES | {"copy": copied}
_MATH: Final[dict[str, Callable[..., Any]]] = {
    name: getattr(math, name)
    for name in ("sqrt", "ceil", "floor", "log", "log2", "exp", "gcd", "prod", "pow", "tanh")
}


class Recorder(Interpreter):
    """An interpreter that keeps the operators it meets, in their order."""

    def __init__(self) -> None:
        super().__init__()
        self.operators: list[Operator] = []
        self.unknown: dict[str, None] = {}
        """Names of operators that the vocabulary lacks, in their order."""
        self.loops: list[TimeLoop] = []
        self._composed: Scope | None = None
        self.recording = False

    @property
    def place(self) -> int:
        """How many operators were met so far."""
        return len(self.operators)

    def looped(self, places: Sequence[int]) -> None:
        """Take note of a loop whose steps need one another; places as `Interpreter` gives them."""
        cut = len(self.operators) == MAX_OPERATORS
        if self.recording and (found := time_loop(self.operators, places, cut=cut)) is not None:
            self.loops.append(found)

    # Operators

    def operate(self, name: str, operands: list[Any]) -> Any:
        """Record an operator of Python on tensors."""
        return self._operator(canonical(name), operands[0], operands[1:], {}, operands)

    def _operator(  # noqa: PLR0911, PLR0912 (one branch a kind of operator)
        self, name: str, first: Any, rest: list[Any], named: dict[str, Any], values: Any
    ) -> Any:
        kind = kind_of(name) or "unknown"
        tensors = tensors_in(values)
        if name == "meshgrid":
            return moves.grids(tensors)
        if kind == "create":
            return moves.created(name, [first, *rest] if first is not None else rest, named)
        if not tensors:
            return UNKNOWN
        if kind == "view":
            return moves.view(tensors[0], name, rest, named)
        if name in {"max", "min"} and rest and isinstance(rest[0], Tensor):
            kind, name = "elementwise", {"max": "maximum", "min": "minimum"}[name]
        if name in {"to", "float", "half", "bfloat16", "double", "type_as", "bool", "int", "long"}:
            return self._cast(name, tensors[0], [*rest, *named.values()])
        op = Operator(name, kind, tensors)
        arguments = bind(op, rest, named)
        if name == "einsum":
            arguments["equation"] = first
        _RULES[kind](op, arguments)
        if "ord" in arguments:  # torch.linalg's name for it
            arguments["p"] = arguments["ord"]
        for key in ("reduction", "p", "approximate", "causal", "diagonal", "training"):
            if key in arguments and isinstance(arguments[key], str | int | float):
                op.facts.setdefault(key, arguments[key])
        if arguments.get("p") is UNKNOWN:
            op.facts["p"] = "unknown"  # not PyTorch's default
        if kind == "unknown":
            self.unknown.setdefault(name)
        if self.recording and len(self.operators) < MAX_OPERATORS:
            self.operators.append(op)
        if kind == "recurrent":
            state = tuple(op.outputs[1:])
            return (op.outputs[0], state if len(state) > 1 else state[0])
        return tuple(op.outputs) if len(op.outputs) > 1 else op.outputs[0]

    def _cast(self, name: str, tensor: Tensor, values: list[Any]) -> Tensor:
        if name in {"to", "type_as"}:
            dtype = next((found for value in values if (found := dtype_name(value))), None)
        else:
            dtype = dtype_name(Library(name))
        if (dtype or "").startswith("float8") and tensor.dtype != dtype:
            # More than a cast: scales, and a format that saturates.
            op = Operator("quantize_fp8", "norm", [tensor])
            op.facts["flops"] = product([3, tensor.elements])
            op.add_output(tensor.shape, dtype or "")
            if self.recording:
                self.operators.append(op)
            return op.outputs[0]
        return replace(tensor, dtype=dtype or tensor.dtype)

    # Calls

    def call(self, function: Any, positional: list[Any], named: dict[str, Any]) -> Any:  # noqa: PLR0911
        """Return what a call gives."""
        match function:
            case Function():
                return self.apply(function, positional, named)
            case Class():
                return self._instance(function, positional, named)
            case Instance():
                forward = self.attribute(function, "forward")
                return self.call(forward, positional, named)
            case Layer():
                return self._layer(function, positional, named)
            case Container():
                return self._container(function, positional)
            case Method():
                return self._method(function, positional, named)
            case Library():
                return self._library(function.path, positional, named)
            case _Partial(function=inner, positional=first, named=usual):
                return self.call(inner, [*first, *positional], {**usual, **named})
            case Unknown():
                tensors = tensors_in([positional, named])
                if tensors and self.recording:
                    return Tensor(None, tensors[0].dtype)
        return UNKNOWN

    def _instance(self, cls: Class, positional: list[Any], named: dict[str, Any]) -> Any:
        if any(isinstance(base, Library) and base.path.endswith("Function") for base in cls.bases):
            return UNKNOWN
        instance = Instance(cls)
        constructor = self._in_class(cls, "__init__")
        if isinstance(constructor, Function):
            bound = Function(constructor.node, constructor.scope, instance)
            self.apply(bound, positional, named)
        return instance

    def has_method(self, instance: Instance, name: str) -> bool:
        """Whether the class of an object defines a name."""
        return self._in_class(instance.cls, name) is not UNKNOWN

    def _in_class(self, cls: Class, name: str, depth: int = 0) -> Any:
        if name in cls.names:
            return cls.names[name]
        for base in cls.bases:
            if isinstance(base, Class) and depth < 8:
                found = self._in_class(base, name, depth + 1)
                if found is not UNKNOWN:
                    return found
        return UNKNOWN

    def _layer(self, layer: Layer, positional: list[Any], named: dict[str, Any]) -> Any:
        kind = layer_kind(layer.name)
        if kind is None:
            return self._operator(layer.name, None, positional, named, [positional, named])
        tensors = tensors_in([positional, named])
        if not tensors:
            return UNKNOWN
        settings = {**layer.arguments, **named}
        if layer.name == "Softmax2d":
            settings["dim"] = 1
        found = kind_of(kind.op)
        if found == "view":
            return moves.view(tensors[0], kind.op, [], settings)
        operands = [*tensors, *layer.parameters]
        return self._operator(kind.op, operands[0], [], settings, operands)

    def _container(self, container: Container, positional: list[Any]) -> Any:
        if container.name != "Sequential" or not positional:
            return UNKNOWN
        value = positional[0]
        for item in container.items:
            value = self.call(item, [value], {})
        return value

    def _method(  # noqa: PLR0911
        self, method: Method, positional: list[Any], named: dict[str, Any]
    ) -> Any:
        owner, name = method.owner, method.name
        if isinstance(owner, Tensor):
            return self._tensor_method(owner, name, positional, named)
        if isinstance(owner, Container):
            return contain(owner, name, positional)
        if isinstance(owner, Instance):
            if name in {"register_buffer", "register_parameter", "add_module"} \
                    and len(positional) > 1 and isinstance(positional[0], str):  # fmt: skip
                value = positional[1]
                if isinstance(value, Tensor):
                    value.origin = "parameter"
                owner.attributes[positional[0]] = value
            return owner if name in {"to", "cuda", "eval", "train", "half", "float"} else UNKNOWN
        if isinstance(owner, list) and name in {"append", "extend", "insert"}:
            if len(owner) >= MAX_ITEMS or not positional:
                return None
            if name == "extend":
                owner.extend(self.items(positional[0])[: MAX_ITEMS - len(owner)])
            elif name == "append":
                owner.append(positional[0])
            return None
        if isinstance(owner, dict) and name in {"get", "items", "keys", "values"}:
            if name == "get":
                return owner.get(*positional[:2])
            return [tuple(e) if name == "items" else e for e in getattr(owner, name)()]
        return UNKNOWN

    def _tensor_method(  # noqa: PLR0911
        self, owner: Tensor, name: str, positional: list[Any], named: dict[str, Any]
    ) -> Any:
        match name:
            case "size":
                shape = members.lengths(owner)
                return shape if not positional else members.length_at(shape, positional[0])
            case "dim" | "ndimension":
                return UNKNOWN if owner.shape is None else len(owner.shape)
            case "numel" | "nelement":
                return UNKNOWN if owner.elements is None else owner.elements
            case "is_contiguous" | "is_floating_point":
                return True
            case "stride" | "storage_offset" | "data_ptr" | "backward":
                return UNKNOWN
            case "item":
                return UNKNOWN
            case "tolist" if owner.shape is not None and len(owner.shape) == 1:
                count = owner.shape[0]
                return UNKNOWN if count is None else [UNKNOWN] * min(count, MAX_ITEMS)
            case "copy_":
                return owner
        values = [owner, *positional, *named.values()]
        return _alone(name, self._operator(canonical(name), owner, positional, named, values))

    def _library(self, path: str, positional: list[Any], named: dict[str, Any]) -> Any:  # noqa: PLR0911
        root, leaf = path.partition(".")[0], path.rpartition(".")[2]
        if root == "builtins":
            found = builtin(self, leaf, positional)
            return {**found, **named} if leaf == "dict" and isinstance(found, dict) else found
        if root in {"math", "numpy", "np"} and leaf in _MATH:
            return members.arithmetic(_MATH[leaf], positional, leaf)
        if leaf in _QUIET or root == "super":
            return UNKNOWN
        if leaf in {"deepcopy", "checkpoint"} and positional:
            return self._copied(positional[0]) if leaf == "deepcopy" else positional[0]
        if path.startswith("collections") and leaf == "OrderedDict":
            return members.ordered_dict(positional)
        if leaf == "partial" and positional:
            return _Partial(positional[0], positional[1:], named)
        if root in _TORCH or leaf in _CONTAINERS:
            return self._torch(leaf, positional, named)
        tensors = tensors_in([positional, named])
        if tensors:
            return self._operator(leaf, tensors[0], [], {}, tensors)
        return UNKNOWN

    def _copied(self, value: Any) -> Any:
        """A copy of a layer or a module, with parameters of its own."""
        self._step()
        match value:
            case Tensor():
                return Tensor(value.shape, value.dtype, value.origin, value.made_by)
            case Layer():
                return replace(
                    value, parameters=[self._copied(parameter) for parameter in value.parameters]
                )
            case Container():
                return replace(value, items=[self._copied(item) for item in value.items])
            case Instance():
                attributes = {key: self._copied(one) for key, one in value.attributes.items()}
                return Instance(value.cls, attributes)
        return value

    def _torch(self, leaf: str, positional: list[Any], named: dict[str, Any]) -> Any:
        if leaf in _CONTAINERS:
            return contained(leaf, positional)
        if leaf in _PARAMETERS:
            value = positional[0] if positional else named.get("data")
            given = value if isinstance(value, Tensor) else Tensor(None)
            return Tensor(given.shape, given.dtype, "parameter")
        if leaf == "Size" and positional:
            return tuple(self.items(positional[0]))
        if leaf in COMPOSED:
            if self._composed is None:
                self._composed = self.run_module(composed())
            return self.call(self._composed.get(leaf), positional, named)
        if leaf[:1].isupper() and leaf not in {"Tensor", "T"}:
            return new_layer(leaf, positional, named)
        first, *rest = positional or [named.get("input")]
        if not positional:
            named = {key: value for key, value in named.items() if key != "input"}
        values = [first, *rest, *named.values()]
        return _alone(leaf, self._operator(canonical(leaf), first, rest, named, values))

    # Attributes and indices

    def attribute(self, owner: Any, name: str) -> Any:  # noqa: PLR0911, PLR0912
        """Return an attribute of a value."""
        match owner:
            case Library(path=path):
                if path in {"math", "torch", "numpy"} and name in {"pi", "e", "inf"}:
                    return getattr(math, name)
                return Library(f"{path}.{name}")
            case Tensor():
                return members.tensor_attribute(owner, name)
            case Instance():
                if name in owner.attributes:
                    return owner.attributes[name]
                found = self._in_class(owner.cls, name)
                if isinstance(found, Function):
                    static = any(
                        getattr(each, "id", "") == "staticmethod"
                        for each in getattr(found.node, "decorator_list", [])
                    )
                    return found if static else Function(found.node, found.scope, owner)
                if name == "training":
                    return True
                return Method(owner, name) if found is UNKNOWN else found
            case Class():
                return self._in_class(owner, name)
            case Layer():
                if name == "weight" and owner.parameters:
                    return owner.parameters[0]
                if name == "bias" and len(owner.parameters) > 1:
                    return owner.parameters[1]
                return owner.arguments.get(name, UNKNOWN)
            case tuple() if name in _RESULTS and len(owner) == len(_RESULTS):
                return owner[_RESULTS.index(name)]
            case Container(items=items, keys=keys) if name in keys:
                return items[keys.index(name)]
            case Container() | list() | dict():
                return Method(owner, name)
        return UNKNOWN

    def indexed(self, tensor: Tensor, index: Any) -> Any:
        """Return a part of a tensor."""
        parts = list(index) if isinstance(index, tuple) else [index]
        if tensor.shape is None:
            return tensor.taken(None, moves.index_text(parts))
        if any(isinstance(part, Tensor) for part in parts):
            return moves.picked(tensor, parts)
        if Ellipsis in parts:
            place = parts.index(Ellipsis)
            used = sum(part is not None and part is not Ellipsis for part in parts)
            parts[place : place + 1] = [slice(None)] * max(len(tensor.shape) - used, 0)
        return tensor.taken(members.part_of(tensor.shape, parts), moves.index_text(parts))


def _alone(name: str, found: Any) -> Any:
    """What a call returns: `amax` gives no indices, where `max` does."""
    return found[0] if name in {"amax", "amin"} and isinstance(found, tuple) else found


@dataclass(frozen=True, slots=True)
class _Partial:
    """`functools.partial` of a class or a function."""

    function: Any
    positional: list[Any]
    named: dict[str, Any]
