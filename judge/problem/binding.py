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
        name: _tuples(value)
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
    matches = _Matches(names, values)
    in_order = by_position[:inputs]
    try:
        return _bound(parameters, in_order, inputs, matches)
    except BindingError:
        # Such as `kernel_function(weight, x)`: whatever the model has no match for is an input.
        unmatched = [p for p in by_position if not matches.knows(p)]
        if takes_any or len(unmatched) < inputs or unmatched[:inputs] == in_order:
            raise
        return _bound(parameters, unmatched[:inputs], inputs, matches)


def _bound(
    parameters: _Parameters, for_inputs: _Parameters, inputs: int, matches: "_Matches"
) -> Binding:
    found = {p.name: Source(input=i) for i, p in enumerate(for_inputs)}
    extra = next((p for p in parameters if p.kind is p.VAR_POSITIONAL), None)
    rest = [
        p
        for p in parameters
        if p.name not in found and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    if extra is not None:
        # Nothing says which tensor is which: all of them, in the state dict's order.
        rest = [p for p in rest if p.kind is p.KEYWORD_ONLY or p.default is p.empty]
    found |= matches.resolve(rest, {p.name for p in parameters})
    positional, named, by_name_only = [], dict[str, Source](), False
    for p in parameters:
        source = found.get(p.name)
        if p.kind is p.VAR_POSITIONAL:
            if by_name_only:
                raise BindingError(
                    "kernel_function has a parameter with a default before *args that matches "
                    "nothing: move it after *args"
                )
            positional += [Source(input=i) for i in range(len(for_inputs), inputs)]
            taken = {each.tensor for each in found.values()}
            positional += [Source(tensor=name) for name in matches.tensors if name not in taken]
        elif p.kind is p.VAR_KEYWORD:
            named |= matches.configuration({parameter.name for parameter in parameters})
        elif source is None:
            by_name_only = True  # after a parameter that keeps its default
        elif p.kind is p.KEYWORD_ONLY or (by_name_only and p.kind is not p.POSITIONAL_ONLY):
            named[p.name] = source
        else:
            positional.append(source)
    return Binding(tuple(positional), named)


class _Matches:
    """Looks names up among the model's tensors and attributes."""

    def __init__(self, tensors: Sequence[str], attributes: Mapping[str, Any]) -> None:
        self.tensors = tensors
        self.attributes = attributes

    def knows(self, p: inspect.Parameter) -> bool:
        return any(_tensors(p.name, self.tensors, rule) for rule in range(4)) or bool(
            _named(p.name, self.attributes)
        )

    def resolve(self, wanted: _Parameters, all_names: set[str]) -> dict[str, Source]:
        found: dict[str, Source] = {}
        free = list(self.tensors)
        alias, own = _OWN_BIAS
        if alias in {p.name for p in wanted} and own in free:
            found[alias] = Source(tensor=own)
            free.remove(own)
        # Rule by rule over all parameters, so that `conv_weight` gets its tensor before `weight`.
        for rule in range(5):
            for p in wanted:
                if p.name in found or (p.name in self.attributes and rule > 0):
                    continue
                if name := _highest(_tensors(p.name, free, rule)):
                    found[p.name] = Source(tensor=name)
                    free.remove(name)
        for p in wanted:
            if p.name not in found:
                self._attribute(p, free, found, all_names)
        return found

    def _attribute(
        self, p: inspect.Parameter, free: list[str], found: dict[str, Source], all_names: set[str]
    ) -> None:
        names = _named(p.name, self.attributes)
        if _wants_tensor(p):  # a number does for none, but a layer may lack its bias
            names = [name for name in names if self.attributes[name] is None]
        several = next((t for rule in range(5) if (t := _tensors(p.name, free, rule))), [])
        if names and (value := _agreed(p, names, self.attributes)) is not None:
            found[p.name] = Source(value=value[0])
        elif p.default is p.empty:
            if names or several:
                raise BindingError(
                    f"kernel_function's argument '{p.name}' is ambiguous: "
                    f"{', '.join(sorted(names or several))} match; name one in full, such as "
                    f"'{min(names or several).replace('.', '_')}'"
                )
            raise BindingError(
                f"kernel_function's argument '{p.name}' matches nothing: tensors "
                f"{_list(t for t in self.tensors)}; attributes "
                f"{_list(a for a in self.attributes if a not in all_names)}"
            )

    def configuration(self, taken: set[str]) -> dict[str, Source]:
        found = {}
        for name in _CONFIGURATION:
            names = [] if name in taken else _named(name, self.attributes)
            as_integer = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=0)
            if names and (value := _agreed(as_integer, names, self.attributes)) is not None:
                found[name] = Source(value=value[0])
        return found


def _tensors(name: str, tensors: Iterable[str], rule: int) -> list[str]:
    """State-dict names that match `name` by one rule of the module's docstring, counted from 0."""
    flat = {tensor: tensor.replace(".", "_") for tensor in tensors}
    if rule == 0:
        return [t for t, whole in flat.items() if whole == name]
    if rule == 1:
        parts = {t: t.split(".") for t in flat}
        return [t for t, p in parts.items() if name in ("_".join(p[i:]) for i in range(len(p) - 1))]
    last = (name, name, name, _ALIASES.get(name), name.rpartition("_")[2])[rule]
    return [t for t in flat if t.rpartition(".")[2] == last]


def _highest(names: list[str]) -> str | None:
    """The only name, or the only one with the fewest components."""
    if not names:
        return None
    least = min(name.count(".") for name in names)
    top = [name for name in names if name.count(".") == least]
    return top[0] if len(top) == 1 else None


def _named(name: str, attributes: Mapping[str, Any]) -> list[str]:
    whole = [a for a in attributes if a.replace(".", "_") == name]
    last = [a for a in attributes if a.rpartition(".")[2] == name]
    return whole + [a for a in last if a not in whole]


def _agreed(
    p: inspect.Parameter, names: list[str], attributes: Mapping[str, Any]
) -> tuple[Any] | None:
    """The value that attributes of these names agree on, in a tuple; None if they do not."""
    values = [attributes[name] for name in names]
    first, scalars = values[0], [_scalar(value) for value in values]
    if p.name in attributes or names[0].replace(".", "_") == p.name:
        # The model's own. Where a layer spells it out, (2, 2) for 2, the layer's form is what
        # published kernels expect.
        chosen = next((v for v in values if isinstance(v, tuple) and _scalar(v) == first), first)
    elif all(_same(scalar, scalars[0]) for scalar in scalars):
        chosen = next((value for value in values if isinstance(value, tuple)), first)
    else:
        highest = _highest(names)
        if highest is None:
            return None
        chosen = attributes[highest]
    return (_scalar(chosen) if _wants_integer(p) else chosen,)


def _wants_integer(p: inspect.Parameter) -> bool:
    default = isinstance(p.default, int) and not isinstance(p.default, bool)
    return default or p.annotation is int or p.annotation == "int"


def _wants_tensor(p: inspect.Parameter) -> bool:
    return p.annotation is not p.empty and "Tensor" in str(p.annotation)


def _scalar(value: Any) -> Any:
    """(2, 2) as 2; anything else as it is."""
    if isinstance(value, tuple) and value and all(_same(each, value[0]) for each in value):
        return value[0]
    return value


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def _tuples(value: Any) -> Any:
    return tuple(_tuples(each) for each in value) if isinstance(value, list | tuple) else value


def _list(names: Iterable[str]) -> str:
    shown = sorted(names)
    more = f" and {len(shown) - 20} more" if len(shown) > 20 else ""
    return (", ".join(shown[:20]) or "none") + more
