"""A problem file, executed: its model, what the model holds, and the inputs it makes."""

import copy
import inspect
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import torch
from torch._subclasses.fake_tensor import FakeTensor

from judge.worker.buffers import dtype_of, spec_of
from judge.worker.messages import InputSpec, LoadProblem, Parameter, Precision, Problem
from judge.worker.modules import execute, member
from judge.worker.seeds import RANDOM_DTYPES, generator, seed_everything, set_precision
from judge.worker.values import NotEncodableError, encode

# A tensor-free attribute longer than this (as JSON) configures nothing.
_MAX_ATTRIBUTE_CHARS: Final = 2000
_MAX_ATTRIBUTES: Final = 2000
# What norms of PyTorch keep beside their parameters.
_STATISTICS: Final = ("running_mean", "running_var")


class InputError(Exception):
    """`get_inputs` returned something that cannot be passed to a contender."""


class LoadedProblem:
    """One executed problem file.

    Parameters
    ----------
    command
        The file's text, and what it is loaded with. Its device is the default one of everything
        that the file creates; what the file itself sets as precision is overruled. The seed is set
        before `get_init_inputs` and again before the model is built, so that whoever builds the
        same layers under the same seed has the same parameters.
    """

    def __init__(self, command: LoadProblem, folder: Path) -> None:
        self.device = torch.device(command.device)
        self.dtype = None if command.dtype is None else dtype_of(command.dtype)
        self.precision: Precision = command.precision
        set_precision(self.precision)
        with self.device:
            module = execute(command.source, command.module_name, folder)
            model_class: Any = member(module, "Model")
            self._get_inputs: Any = member(module, "get_inputs")
            seed_everything(command.seed)
            init_inputs: Any = member(module, "get_init_inputs")
            self.init_inputs = list(init_inputs())
            seed_everything(command.seed)
            self.model: Any = model_class(*self.init_inputs)
        self.model.requires_grad_(False)
        move(self.model, self.device, self.dtype)
        self.redrawn = _part_constants(self.model, command.seed)
        self.built = copy.deepcopy(list(state(self.model)))
        """What calls may change in the model, as it is before the first one."""
        set_precision(self.precision)
        _, *parameters = inspect.signature(model_class.forward).parameters.values()
        positional = (p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD))
        self.input_names = [p.name for p in positional]
        self.attributes = _attributes(self.model, model_class, self.init_inputs)

    def tensors(self) -> list[tuple[Parameter, Any]]:
        """Describe and return the model's parameters, buffers and other tensors, each name once.

        Those of the state dict come first, in its order.
        """
        model = self.model
        order = {name: index for index, name in enumerate(model.state_dict(keep_vars=True))}
        tensors: dict[str, tuple[Parameter, Any]] = {}

        def add(name: str, tensor: Any, kind: Any) -> None:
            if name not in tensors:
                described = Parameter(name=name, tensor=spec_of(tensor), kind=kind)
                tensors[name] = (described, tensor.detach())

        for name, tensor in model.named_parameters(remove_duplicate=False):
            add(name, tensor, "parameter")
        for name, tensor in model.named_buffers(remove_duplicate=False):
            add(name, tensor, "buffer" if name in order else "attribute")
        for name, _, value in _plain_attributes(model):
            if isinstance(value, torch.Tensor):
                add(name, value, "attribute")
        return sorted(tensors.values(), key=lambda pair: order.get(pair[0].name, len(order)))

    def describe(self) -> Problem:
        """What the file defines, as the judge is told."""
        try:
            init_inputs = encode(self.init_inputs)
        except NotEncodableError:
            init_inputs = None
        return Problem(
            parameters=[parameter for parameter, _ in self.tensors()],
            attributes=self.attributes,
            init_inputs=init_inputs,
            input_names=self.input_names,
            redrawn=self.redrawn,
        )

    def inputs(self, seed: int) -> list[Any]:
        """Return what `get_inputs` makes under `seed`: contiguous tensors and plain values.

        Raises
        ------
        InputError
            It is no list or tuple, or holds sparse or nested tensors.
        """
        seed_everything(seed)
        with self.device:
            inputs = self._get_inputs()
        if not isinstance(inputs, list | tuple):
            raise InputError(f"get_inputs returned a {type(inputs).__name__}, not a list")
        return [self._prepare(value, index) for index, value in enumerate(inputs)]

    def _prepare(self, value: Any, index: int) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if value.layout != torch.strided or value.is_nested or value.is_quantized:
            raise InputError(f"input {index} is not a dense tensor")
        dtype = self.dtype if self.dtype is not None and value.is_floating_point() else value.dtype
        return value.detach().to(self.device, dtype).contiguous()

    def input_spec(self, value: Any, index: int) -> InputSpec:
        """Describe one input.

        Raises
        ------
        InputError
            It is neither a tensor nor a plain value.
        """
        names = self.input_names
        name = names[index] if index < len(names) else f"input{index}"
        if isinstance(value, torch.Tensor):
            return InputSpec(name=name, tensor=spec_of(value))
        try:
            return InputSpec(name=name, value=encode(value))
        except NotEncodableError as error:
            raise InputError(
                f"input {index} ({name}): {error}; inputs must be tensors or plain values"
            ) from None


def move(model: Any, device: Any, dtype: Any) -> None:
    """Move a module to a device and cast its floating-point tensors, plain attributes included."""
    model.to(device=device, dtype=dtype)
    for module in model.modules():
        for name, value in list(vars(module).items()):
            if isinstance(value, torch.Tensor):
                cast = dtype if dtype is not None and value.is_floating_point() else value.dtype
                setattr(module, name, value.detach().to(device, cast))


def state(model: Any) -> Iterator[tuple[str, Any]]:
    """Yield what a model holds beside its parameters: tensors and numbers, by dotted name."""
    yield from model.named_buffers(remove_duplicate=False)
    for dotted, _, value in _plain_attributes(model):
        if isinstance(value, torch.Tensor | int | float):
            yield dotted, value


def set_state(model: Any, values: Iterable[tuple[str, Any]]) -> None:
    """Give a model the state that another one of its class had; tensors are copied."""
    for dotted, value in copy.deepcopy(list(values)):
        prefix, _, name = dotted.rpartition(".")
        setattr(model.get_submodule(prefix), name, value)


def apply_to_fakes(module: Any, function: Any, recurse: bool = True) -> Any:
    """Stand in for `Module._apply`, which cannot exchange parameters that are fake tensors."""
    for child in module.children() if recurse else ():
        apply_to_fakes(child, function)
    for name, parameter in module._parameters.items():
        if parameter is not None:
            moved = torch.nn.Parameter(function(parameter.detach()), parameter.requires_grad)
            module._parameters[name] = moved
    for name, buffer in module._buffers.items():
        if buffer is not None:
            module._buffers[name] = function(buffer)
    return module


def _part_constants(model: Any, seed: int) -> list[str]:
    """Draw the values of what is learned and alike throughout: norms' weights of 1, biases of 0.

    A kernel that leaves them out would be right, until the model is trained. Values are within
    half of what they were, or within half of 1 where that is 0; signs stay.
    """
    candidates = list(model.named_parameters())
    for prefix, module in model.named_modules():
        if type(module).__module__.startswith("torch.nn."):
            buffers = module.named_buffers(prefix, recurse=False)
            candidates += [buffer for buffer in buffers if buffer[0].endswith(_STATISTICS)]
    redrawn = []
    for index, (name, tensor) in enumerate(candidates):
        if isinstance(tensor, FakeTensor):  # where kernels are only compiled
            continue
        if tensor.dtype not in RANDOM_DTYPES or tensor.numel() < 2 or 0 in tensor.stride():
            continue
        first = float(tensor.reshape(-1)[0])
        if not math.isfinite(first) or not bool((tensor == first).all()):
            continue
        factors = torch.empty(tensor.shape, dtype=torch.float32, device=tensor.device)
        factors.uniform_(0.5, 1.5, generator=generator(tensor.device, seed, index))
        tensor.copy_(factors * (first or 1.0))
        redrawn.append(name)
    return redrawn


def _plain_attributes(model: Any) -> Iterator[tuple[str, str, Any]]:
    """Yield dotted name, name and value of what a module and its submodules hold as attributes."""
    for prefix, module in model.named_modules():
        for name, value in vars(module).items():
            yield (f"{prefix}.{name}" if prefix else name), name, value


def _attributes(model: Any, model_class: Any, init_inputs: list[Any]) -> dict[str, Any]:
    """Return plain values by dotted name: the constructor's arguments, then attributes."""
    attributes: dict[str, Any] = {}

    def add(name: str, value: Any) -> None:
        if len(attributes) >= _MAX_ATTRIBUTES or name in attributes:
            return
        try:
            encoded = encode(value)
        except NotEncodableError:
            return
        if len(repr(encoded)) <= _MAX_ATTRIBUTE_CHARS:
            attributes[name] = encoded

    for dotted, name, value in _plain_attributes(model):
        if not name.startswith("_") and name != "training":
            add(dotted, value)
    try:
        arguments = inspect.signature(model_class).bind(*init_inputs)
        arguments.apply_defaults()
    except (TypeError, ValueError):
        return attributes
    for name, value in arguments.arguments.items():
        add(name, value)
    return attributes
