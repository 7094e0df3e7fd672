"""Contenders as functions of the problem's inputs: the model itself, compiled, or a kernel file.

All run under `torch.no_grad` and not under `torch.inference_mode`: tensors made in inference mode
refuse in-place changes and views outside of it, and a candidate that packs weights in its
constructor or returns a held buffer would raise for a reason that is none of its own.
"""

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from judge.problem import binding, cuda_entry
from judge.problem.forms import COMPILED, ModelForm
from judge.worker.buffers import default_dtype, dtype_of
from judge.worker.events import Run
from judge.worker.messages import LoadKernel
from judge.worker.modules import MissingNameError, execute, member
from judge.worker.problem import move
from judge.worker.seeds import seed_everything, set_precision
from judge.worker.values import decode
from kb import nvcc


def load_model(model: Any, form: ModelForm, dtype: Any) -> Run:
    """Return the problem's model in one form; a compiled one compiles at its first call.

    What it creates without a dtype, such as a recurrent network's first state, is of `dtype`.
    """
    options: dict[str, Any] | None = COMPILED.get(form)
    run = model if options is None else torch.compile(model, **options)
    return _without_gradients(_in_dtype(run, dtype))


def warm_up(form: ModelForm, device: Any) -> None:
    """Have what a compiled form uses on a GPU imported and started, by compiling next to nothing.

    That takes seconds in every process, here while the judge is busy with other contenders.
    """
    options: dict[str, Any] | None = COMPILED.get(form)
    if options is not None and torch.device(device).type == "cuda":
        with torch.no_grad(), contextlib.suppress(Exception):  # the model's own compilation tells
            torch.compile(lambda x: x.relu() + 1, **options)(torch.zeros(16, device=device))


def load_kernel(command: LoadKernel, tensors: Mapping[str, Any], folder: Path) -> Run:
    """Execute a kernel file and return it as a function of the inputs.

    Parameters
    ----------
    tensors
        The model's tensors by dotted name, in the order of the state dict.
    """
    set_precision(command.precision)
    if command.form == "cuda":
        run = _cuda(command, tensors)
    else:
        with torch.device(command.device):
            module = execute(command.source, command.module_name, folder)
            make = _model_new if command.form == "ModelNew" else _kernel_function
            run = make(command, member(module, command.form), tensors)
    # A file that sets TF32 for itself computes in another precision than was declared.
    set_precision(command.precision)
    return _without_gradients(run)


def _in_dtype(run: Run, dtype: Any) -> Run:
    def call(*inputs: Any) -> Any:
        with default_dtype(dtype):
            return run(*inputs)

    return call


def _without_gradients(run: Run) -> Run:
    def call(*inputs: Any) -> Any:
        with torch.no_grad():
            return run(*inputs)

    return call


def _model_new(command: LoadKernel, model_class: Any, tensors: Mapping[str, Any]) -> Run:
    """Build `ModelNew` as the problem's `Model` was built, and give it the same state.

    The state dict is loaded where the keys and shapes are the same; otherwise the same seed has
    to do, under which the same layers draw the same parameters.
    """
    if command.init_inputs is None:
        raise MissingNameError("get_init_inputs returns values that cannot be sent to ModelNew")
    seed_everything(command.seed)
    model: Run = model_class(*decode(command.init_inputs))
    dtype = None if command.dtype is None else dtype_of(command.dtype)
    if isinstance(model, torch.nn.Module):
        state = {
            parameter.name: tensors[parameter.name]
            for parameter in command.parameters
            if parameter.kind in ("parameter", "buffer")
        }
        own_state = model.state_dict()
        if own_state.keys() == state.keys() and all(
            own_state[name].shape == tensor.shape for name, tensor in state.items()
        ):
            model.load_state_dict(state)
        model.requires_grad_(False)
        if "forward" not in vars(model_class):  # the problem's own model, as it runs there
            move(model, torch.device(command.device), dtype)
            return _in_dtype(model, dtype)
        # As KernelBench does: registered tensors are cast, others are the candidate's own matter.
        model.to(torch.device(command.device))
        if dtype is not None:
            model.to(dtype)
    return model


def _kernel_function(command: LoadKernel, function: Any, tensors: Mapping[str, Any]) -> Run:
    attributes = {name: decode(value) for name, value in command.attributes.items()}
    kernel_binding = binding.bind(function, len(command.input_names), list(tensors), attributes)

    def run(*inputs: Any) -> Any:
        return kernel_binding.call(function, inputs, tensors)

    return run


def _cuda(command: LoadKernel, tensors: Mapping[str, Any]) -> Run:
    device = torch.device(command.device)
    if device.type != "cuda":
        raise MissingNameError("a CUDA kernel needs a GPU")
    architecture = nvcc.device_architecture(device.index)
    function = cuda_entry.build(command.source, command.module_name, architecture)
    return _kernel_function(command, function, tensors)
