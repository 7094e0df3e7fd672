"""Which value each argument of a `kernel_function` gets, by position and by name.

The problem's inputs fill the parameters in order. What is left is looked up by name among the
model's tensors and attributes, as KernelAgent's published artefacts expect: `kernel_function(x)`,
`kernel_function(x, weight, bias, stride, padding)`, `kernel_function(*args)`. A parameter with a
default keeps it when nothing matches.

A tensor matches a name, the first rule that finds one deciding:

1. the whole state-dict name: `conv.weight` for `conv_weight`;
2. its end: `block.conv.weight` for `conv_weight`;
3. its last component: `conv.weight` for `weight`;
4. an alias of the last component: `w` and `gamma` are `weight`, `b` and `beta` are `bias`;
5. only the last component, whatever is before: `conv2d.bias` for `conv_bias`.

A tensor is bound once. Attributes match by rules 1 to 3. Several that match are ambiguous unless
equal, or unless one of them stands highest in the model. A parameter annotated as a tensor takes no
number.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kb.errors import KbError

_ALIASES = {"w": "weight", "b": "bias", "gamma": "weight", "beta": "bias"}
# KernelAgent's name for a bias of the model itself, where a layer has one as well.
_OWN_BIAS = ("add_bias", "bias")
# What `**kwargs` receives: how layers are configured, by the names torch.nn gives.
_CONFIGURATION = (
    "kernel_size", "stride", "padding", "dilation", "output_padding", "groups",
    "eps", "num_groups", "normalized_shape",
)  # fmt: skip
# Every torch.nn.Module has it; a kernel's parameter of this name means something else.
_NOT_ATTRIBUTES = frozenset({"training"})

_Parameters = list[inspect.Parameter]


class BindingError(KbError):
    """A kernel's arguments cannot be bound. The message names the argument and what there was."""

    status = 422


@dataclass(frozen=True, slots=True)
class Source:
    """Where one argument comes from."""

    input: int | None = None
    """Index among the inputs."""
    tensor: str | None = None
    """State-dict name."""
    value: Any = None
    """An attribute's value, where the other two are None."""


@dataclass(frozen=True, slots=True)
class Binding:
    """How to call a kernel_function; made once, used for every call."""

    positional: tuple[Source, ...]
    named: Mapping[str, Source]

    def arguments(
        self, inputs: Sequence[Any], tensors: Mapping[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """Positional and keyword arguments for these inputs and state-dict tensors."""

        def value(source: Source) -> Any:
            if source.input is not None:
                return inputs[source.input]
            return source.value if source.tensor is None else tensors[source.tensor]

        named = {name: value(source) for name, source in self.named.items()}
        return [value(source) for source in self.positional], named

    def call(
        self, function: Callable[..., Any], inputs: Sequence[Any], tensors: Mapping[str, Any]
    ) -> Any:
        """Call `function` with the bound arguments."""
        positional, named = self.arguments(inputs, tensors)
        return function(*positional, **named)


def bind(
    function: Callable[..., Any], inputs: int, tensors: Iterable[str], attributes: Mapping[str, Any]
) -> Binding:
    """Bind the parameters of `function`.

    Parameters
    ----------
    function
        Only its signature is looked at.
    inputs
        How many inputs the problem has.
    tensors
        State-dict names of the model's parameters and buffers.
    attributes
        Values by dotted name: attributes of the model and its submodules, and arguments of its
        constructor by plain name. Lists become tuples.

    Raises
    ------
    BindingError
        If a parameter without default has no match or several, or the inputs do not all fit.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise BindingError(f"cannot read the signature of kernel_function: {error}") from error
    names = list(tensors)
    values = {
        name: _as_tuples(value)
        for name, value in attributes.items()
        if name.rpartition(".")[2] not in _NOT_ATTRIBUTES
    }
    by_position = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    takes_any = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    if len(by_position) < inputs and not takes_any:
        raise BindingError(
            f"kernel_function takes {len(by_position)} positional arguments, "
            f"but the problem has {inputs} inputs"
        )
    lookup = _NameLookup(names, values)
    in_order = by_position[:inputs]
    try:
        return _bind_parameters(parameters, in_order, inputs, lookup)
    except BindingError:
        # Such as `kernel_function(weight, x)`: whatever the model has no match for is an input.
        unmatched = [p for p in by_position if not lookup.has_match(p)]
        if takes_any or len(unmatched) < inputs or unmatched[:inputs] == in_order:
            raise
        return _bind_parameters(parameters, unmatched[:inputs], inputs, lookup)


def _bind_parameters(
    parameters: _Parameters, for_inputs: _Parameters, inputs: int, lookup: "_NameLookup"
) -> Binding:
    sources = {p.name: Source(input=i) for i, p in enumerate(for_inputs)}
    var_positional = next((p for p in parameters if p.kind is p.VAR_POSITIONAL), None)
    rest = [
        p
        for p in parameters
        if p.name not in sources and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    if var_positional is not None:
        # Nothing says which tensor is which: all of them, in the state dict's order.
        rest = [p for p in rest if p.kind is p.KEYWORD_ONLY or p.default is p.empty]
    sources |= lookup.resolve(rest, {p.name for p in parameters})
    positional, named, by_name_only = [], dict[str, Source](), False
    for p in parameters:
        source = sources.get(p.name)
        if p.kind is p.VAR_POSITIONAL:
            if by_name_only:
                raise BindingError(
                    "kernel_function has a parameter with a default before *args that matches "
                    "nothing: move it after *args"
                )
            positional += [Source(input=i) for i in range(len(for_inputs), inputs)]
            bound = {source.tensor for source in sources.values()}
            positional += [Source(tensor=name) for name in lookup.tensors if name not in bound]
        elif p.kind is p.VAR_KEYWORD:
            named |= lookup.configuration({parameter.name for parameter in parameters})
        elif source is None:
            by_name_only = True  # after a parameter that keeps its default
        elif p.kind is p.KEYWORD_ONLY or (by_name_only and p.kind is not p.POSITIONAL_ONLY):
            named[p.name] = source
        else:
            positional.append(source)
    return Binding(tuple(positional), named)


class _NameLookup:
    """Looks names up among the model's tensors and attributes."""

    def __init__(self, tensors: Sequence[str], attributes: Mapping[str, Any]) -> None:
        self.tensors = tensors
        self.attributes = attributes

    def has_match(self, p: inspect.Parameter) -> bool:
        return any(_matching_tensors(p.name, self.tensors, rule) for rule in range(4)) or bool(
            _matching_attributes(p.name, self.attributes)
        )

    def resolve(self, parameters: _Parameters, all_names: set[str]) -> dict[str, Source]:
        sources: dict[str, Source] = {}
        free = list(self.tensors)
        alias, own_bias = _OWN_BIAS
        if alias in {p.name for p in parameters} and own_bias in free:
            sources[alias] = Source(tensor=own_bias)
            free.remove(own_bias)
        # Rule by rule over all parameters, so that `conv_weight` gets its tensor before `weight`.
        for rule in range(5):
            for p in parameters:
                if p.name in sources or (p.name in self.attributes and rule > 0):
                    continue
                if name := _highest(_matching_tensors(p.name, free, rule)):
                    sources[p.name] = Source(tensor=name)
                    free.remove(name)
        for p in parameters:
            if p.name not in sources:
                self._attribute(p, free, sources, all_names)
        return sources

    def _attribute(
        self, p: inspect.Parameter, free: list[str], sources: dict[str, Source], all_names: set[str]
    ) -> None:
        names = _matching_attributes(p.name, self.attributes)
        if _expects_tensor(p):  # a number does for none, but a layer may lack its bias
            names = [name for name in names if self.attributes[name] is None]
        tied = next((t for rule in range(5) if (t := _matching_tensors(p.name, free, rule))), [])
        if names and (value := _agreed_value(p, names, self.attributes)) is not None:
            sources[p.name] = Source(value=value[0])
        elif p.default is p.empty:
            if names or tied:
                raise BindingError(
                    f"kernel_function's argument '{p.name}' is ambiguous: "
                    f"{', '.join(sorted(names or tied))} match; name one in full, such as "
                    f"'{min(names or tied).replace('.', '_')}'"
                )
            raise BindingError(
                f"kernel_function's argument '{p.name}' matches nothing: tensors "
                f"{_join_names(t for t in self.tensors)}; attributes "
                f"{_join_names(a for a in self.attributes if a not in all_names)}"
            )

    def configuration(self, reserved: set[str]) -> dict[str, Source]:
        sources = {}
        for name in _CONFIGURATION:
            names = [] if name in reserved else _matching_attributes(name, self.attributes)
            as_integer = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=0)
            if names and (value := _agreed_value(as_integer, names, self.attributes)) is not None:
                sources[name] = Source(value=value[0])
        return sources


def _matching_tensors(name: str, tensors: Iterable[str], rule: int) -> list[str]:
    """State-dict names that match `name` by one rule of the module's docstring, counted from 0."""
    flat = {tensor: tensor.replace(".", "_") for tensor in tensors}
    if rule == 0:
        return [t for t, flat_name in flat.items() if flat_name == name]
    if rule == 1:
        parts = {t: t.split(".") for t in flat}
        return [t for t, p in parts.items() if name in ("_".join(p[i:]) for i in range(len(p) - 1))]
    last_component = (name, name, name, _ALIASES.get(name), name.rpartition("_")[2])[rule]
    return [t for t in flat if t.rpartition(".")[2] == last_component]


def _highest(names: list[str]) -> str | None:
    """The only name, or the only one with the fewest components."""
    if not names:
        return None
    min_depth = min(name.count(".") for name in names)
    highest = [name for name in names if name.count(".") == min_depth]
    return highest[0] if len(highest) == 1 else None


def _matching_attributes(name: str, attributes: Mapping[str, Any]) -> list[str]:
    full_matches = [a for a in attributes if a.replace(".", "_") == name]
    last_matches = [a for a in attributes if a.rpartition(".")[2] == name]
    return full_matches + [a for a in last_matches if a not in full_matches]


def _agreed_value(
    p: inspect.Parameter, names: list[str], attributes: Mapping[str, Any]
) -> tuple[Any] | None:
    """The value that attributes of these names agree on, in a tuple; None if they do not."""
    values = [attributes[name] for name in names]
    first, scalars = values[0], [_scalar(value) for value in values]
    if p.name in attributes or names[0].replace(".", "_") == p.name:
        # The model's own. Where a layer spells it out, (2, 2) for 2, the layer's form is what
        # published kernels expect.
        chosen = next((v for v in values if isinstance(v, tuple) and _scalar(v) == first), first)
    elif all(_same_value(scalar, scalars[0]) for scalar in scalars):
        chosen = next((value for value in values if isinstance(value, tuple)), first)
    else:
        highest = _highest(names)
        if highest is None:
            return None
        chosen = attributes[highest]
    return (_scalar(chosen) if _expects_integer(p) else chosen,)


def _expects_integer(p: inspect.Parameter) -> bool:
    default = isinstance(p.default, int) and not isinstance(p.default, bool)
    return default or p.annotation is int or p.annotation == "int"


def _expects_tensor(p: inspect.Parameter) -> bool:
    return p.annotation is not p.empty and "Tensor" in str(p.annotation)


def _scalar(value: Any) -> Any:
    """(2, 2) as 2; anything else as it is."""
    if isinstance(value, tuple) and value and all(_same_value(item, value[0]) for item in value):
        return value[0]
    return value


def _same_value(left: Any, right: Any) -> bool:
    return type(left) is type(right) and bool(left == right)


def _as_tuples(value: Any) -> Any:
    return tuple(_as_tuples(v) for v in value) if isinstance(value, list | tuple) else value


def _join_names(names: Iterable[str]) -> str:
    sorted_names = sorted(names)
    more = f" and {len(sorted_names) - 20} more" if len(sorted_names) > 20 else ""
    return (", ".join(sorted_names[:20]) or "none") + more
