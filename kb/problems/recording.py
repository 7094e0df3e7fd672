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
from kb.problems.composed import COMPOSITE_LAYERS, composite_module
from kb.problems.copies import data_movement
from kb.problems.interpreter import MAX_OPERATORS, Interpreter
from kb.problems.layers import container_method, new_container, new_layer
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
from kb.problems.vocabulary import SETTING, canonical, kind_of, layer_kind

_TORCH = ("torch", "torchvision")
# What `max` along a dimension, `sort` and `topk` return.
_RESULTS = ("values", "indices")
_CONTAINERS = frozenset(
    {"Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict"}
)
_PARAMETERS = frozenset({"Parameter", "Buffer", "UninitializedParameter"})
# Of an object that is a module; what they do changes no value that is read here.
_IGNORED = frozenset({
    "super", "__init__", "init", "manual_seed", "no_grad", "enable_grad", "autocast", "device",
    "train", "eval", "apply", "parameters", "register_module", "synchronize", "is_available",
})  # fmt: skip
_RULES: Final = RULES | PRODUCT_RULES | {"copy": data_movement, "accumulate": data_movement}
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

    def record_loop(self, places: Sequence[int]) -> None:
        """Take note of a loop whose steps need one another; places as `Interpreter` gives them."""
        cut = len(self.operators) == MAX_OPERATORS
        if self.recording and (loop := time_loop(self.operators, places, cut=cut)) is not None:
            self.loops.append(loop)

    # Operators

    def operate(self, name: str, operands: list[Any]) -> Any:
        """Record an operator of Python on tensors."""
        return self._operator(canonical(name), operands[0], operands[1:], {}, operands)

    def _operator(  # noqa: PLR0911, PLR0912 (one branch a kind of operator)
        self, name: str, first: Any, rest: list[Any], kwargs: dict[str, Any], values: Any
    ) -> Any:
        kind = kind_of(name) or "unknown"
        tensors = tensors_in(values)
        if name == "meshgrid":
            return moves.meshgrid(tensors)
        if kind == "create":
            return moves.create_tensor(name, [first, *rest] if first is not None else rest, kwargs)
        if not tensors:
            return UNKNOWN
        if kind == "view":
            return moves.view(tensors[0], name, rest, kwargs)
        if name in {"max", "min"} and rest and isinstance(rest[0], Tensor):
            kind, name = "elementwise", {"max": "maximum", "min": "minimum"}[name]
        if name in {"to", "float", "half", "bfloat16", "double", "type_as", "bool", "int", "long"}:
            return self._cast(name, tensors[0], [*rest, *kwargs.values()])
        op = Operator(name, kind, tensors)
        arguments = bind(op, rest, kwargs)
        if name == "einsum":
            arguments["equation"] = first
        _RULES[kind](op, arguments)
        if "ord" in arguments:  # torch.linalg's name for it
            arguments["p"] = arguments["ord"]
        for key in SETTING:
            if key in arguments and isinstance(arguments[key], str | int | float):
                op.facts.setdefault(key, arguments[key])
        unknown = [key for key in ("p", "alpha", "value") if arguments.get(key) is UNKNOWN]
        op.facts |= dict.fromkeys(unknown, "unknown")  # not PyTorch's default
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
            dtype = next((name_ for value in values if (name_ := dtype_name(value))), None)
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

    def call(self, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:  # noqa: PLR0911
        """Return what a call gives."""
        match function:
            case Function():
                return self.apply(function, args, kwargs)
            case Class():
                return self._instance(function, args, kwargs)
            case Instance():
                forward = self.attribute(function, "forward")
                return self.call(forward, args, kwargs)
            case Layer():
                return self._layer(function, args, kwargs)
            case Container():
                return self._container(function, args)
            case Method():
                return self._method(function, args, kwargs)
            case Library():
                return self._library(function.path, args, kwargs)
            case _Partial(function=inner, args=first, kwargs=bound):
                return self.call(inner, [*first, *args], {**bound, **kwargs})
            case Unknown():
                tensors = tensors_in([args, kwargs])
                if tensors and self.recording:
                    return Tensor(None, tensors[0].dtype)
        return UNKNOWN

    def _instance(self, cls: Class, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if any(isinstance(base, Library) and base.path.endswith("Function") for base in cls.bases):
            return UNKNOWN
        instance = Instance(cls)
        constructor = self._class_member(cls, "__init__")
        if isinstance(constructor, Function):
            bound = Function(constructor.node, constructor.scope, instance)
            self.apply(bound, args, kwargs)
        return instance

    def has_method(self, instance: Instance, name: str) -> bool:
        """Whether the class of an object defines a name."""
        return self._class_member(instance.cls, name) is not UNKNOWN

    def _class_member(self, cls: Class, name: str, depth: int = 0) -> Any:
        if name in cls.names:
            return cls.names[name]
        for base in cls.bases:
            if isinstance(base, Class) and depth < 8:
                attribute = self._class_member(base, name, depth + 1)
                if attribute is not UNKNOWN:
                    return attribute
        return UNKNOWN

    def _layer(self, layer: Layer, args: list[Any], kwargs: dict[str, Any]) -> Any:
        kind = layer_kind(layer.name)
        if kind is None:
            return self._operator(layer.name, None, args, kwargs, [args, kwargs])
        tensors = tensors_in([args, kwargs])
        if not tensors:
            return UNKNOWN
        settings = {**layer.arguments, **kwargs}
        if layer.name == "Softmax2d":
            settings["dim"] = 1
        op_kind = kind_of(kind.op)
        if op_kind == "view":
            return moves.view(tensors[0], kind.op, [], settings)
        operands = [*tensors, *layer.parameters]
        return self._operator(kind.op, operands[0], [], settings, operands)

    def _container(self, container: Container, args: list[Any]) -> Any:
        if container.name != "Sequential" or not args:
            return UNKNOWN
        value = args[0]
        for item in container.items:
            value = self.call(item, [value], {})
        return value

    def _method(  # noqa: PLR0911
        self, method: Method, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        owner, name = method.owner, method.name
        if isinstance(owner, Tensor):
            return self._tensor_method(owner, name, args, kwargs)
        if isinstance(owner, Container):
            return container_method(owner, name, args)
        if isinstance(owner, Instance):
            if name in {"register_buffer", "register_parameter", "add_module"} \
                    and len(args) > 1 and isinstance(args[0], str):  # fmt: skip
                value = args[1]
                if isinstance(value, Tensor):
                    value.origin = "parameter"
                owner.attributes[args[0]] = value
            return owner if name in {"to", "cuda", "eval", "train", "half", "float"} else UNKNOWN
        if isinstance(owner, list) and name in {"append", "extend", "insert"}:
            if len(owner) >= MAX_ITEMS or not args:
                return None
            if name == "extend":
                owner.extend(self.items(args[0])[: MAX_ITEMS - len(owner)])
            elif name == "append":
                owner.append(args[0])
            return None
        if isinstance(owner, dict) and name in {"get", "items", "keys", "values"}:
            if name == "get":
                return owner.get(*args[:2])
            return [tuple(e) if name == "items" else e for e in getattr(owner, name)()]
        return UNKNOWN

    def _tensor_method(  # noqa: PLR0911
        self, owner: Tensor, name: str, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        match name:
            case "size":
                shape = members.lengths(owner)
                return shape if not args else members.length_at(shape, args[0])
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
        values = [owner, *args, *kwargs.values()]
        result = self._operator(canonical(name), owner, args, kwargs, values)
        if name.endswith("_") and isinstance(result, Tensor) and result.made_by is not None:
            result.made_by.facts["in_place"] = True
        return members.values(name, result)

    def _library(self, path: str, args: list[Any], kwargs: dict[str, Any]) -> Any:  # noqa: PLR0911
        root, leaf = path.partition(".")[0], path.rpartition(".")[2]
        if root == "builtins":
            result = builtin(self, leaf, args)
            return {**result, **kwargs} if leaf == "dict" and isinstance(result, dict) else result
        if root in {"math", "numpy", "np"} and leaf in _MATH:
            return members.arithmetic(_MATH[leaf], args, leaf)
        if leaf in _IGNORED or root == "super":
            return UNKNOWN
        if leaf in {"deepcopy", "checkpoint"} and args:
            return self._deep_copy(args[0]) if leaf == "deepcopy" else args[0]
        if path.startswith("collections") and leaf == "OrderedDict":
            return members.ordered_dict(args)
        if leaf == "partial" and args:
            return _Partial(args[0], args[1:], kwargs)
        if root in _TORCH or leaf in _CONTAINERS:
            return self._torch(leaf, args, kwargs)
        tensors = tensors_in([args, kwargs])
        if tensors:
            return self._operator(leaf, tensors[0], [], {}, tensors)
        return UNKNOWN

    def _deep_copy(self, value: Any) -> Any:
        """A copy of a layer or a module, with parameters of its own."""
        self._step()
        match value:
            case Tensor():
                return Tensor(value.shape, value.dtype, value.origin, value.made_by)
            case Layer():
                return replace(
                    value, parameters=[self._deep_copy(parameter) for parameter in value.parameters]
                )
            case Container():
                return replace(value, items=[self._deep_copy(item) for item in value.items])
            case Instance():
                attributes = {
                    key: self._deep_copy(attribute) for key, attribute in value.attributes.items()
                }
                return Instance(value.cls, attributes)
        return value

    def _torch(self, leaf: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if leaf in _CONTAINERS:
            return new_container(leaf, args)
        if leaf in _PARAMETERS:
            value = args[0] if args else kwargs.get("data")
            tensor = value if isinstance(value, Tensor) else Tensor(None)
            return Tensor(tensor.shape, tensor.dtype, "parameter")
        if leaf == "Size" and args:
            return tuple(self.items(args[0]))
        if leaf in COMPOSITE_LAYERS:
            if self._composed is None:
                self._composed = self.run_module(composite_module())
            return self.call(self._composed.get(leaf), args, kwargs)
        if leaf[:1].isupper() and leaf not in {"Tensor", "T"}:
            return new_layer(leaf, args, kwargs)
        first, *rest = args or [kwargs.get("input")]
        if not args:
            kwargs = {key: value for key, value in kwargs.items() if key != "input"}
        values = [first, *rest, *kwargs.values()]
        return members.values(leaf, self._operator(canonical(leaf), first, rest, kwargs, values))

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
                member = self._class_member(owner.cls, name)
                if isinstance(member, Function):
                    static = any(
                        getattr(decorator, "id", "") == "staticmethod"
                        for decorator in getattr(member.node, "decorator_list", [])
                    )
                    return member if static else Function(member.node, member.scope, owner)
                if name == "training":
                    return True
                return Method(owner, name) if member is UNKNOWN else member
            case Class():
                return self._class_member(owner, name)
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

    def take_index(self, tensor: Tensor, index: Any) -> Any:
        """Return a part of a tensor."""
        parts = list(index) if isinstance(index, tuple) else [index]
        if tensor.shape is None:
            return tensor.subview(None, moves.index_text(parts))
        if any(isinstance(part, Tensor) for part in parts):
            return moves.advanced_index(tensor, parts)
        if Ellipsis in parts:
            place = parts.index(Ellipsis)
            used = sum(part is not None and part is not Ellipsis for part in parts)
            parts[place : place + 1] = [slice(None)] * max(len(tensor.shape) - used, 0)
        return tensor.subview(members.index_shape(tensor.shape, parts), moves.index_text(parts))


@dataclass(frozen=True, slots=True)
class _Partial:
    """`functools.partial` of a class or a function."""

    function: Any
    args: list[Any]
    kwargs: dict[str, Any]
