"""The operators of a problem's model as data: exported on fake tensors, nothing computed."""

import contextlib
import logging
import operator
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from unittest import mock

import torch
from torch._C import DispatchKey
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind

from judge.worker.buffers import cast, default_dtype, dtype_name, dtype_of
from judge.worker.messages import (
    MAX_NODES,
    ExportGraph,
    Graph,
    GraphNode,
    GraphTensor,
    one_line,
)  # fmt: skip
from judge.worker.modules import execute, member
from judge.worker.problem import apply_to_fakes, move
from judge.worker.seeds import seed_everything

# What export raises where a branch or a size depends on values.
_BY_VALUES: Final = frozenset({"GuardOnDataDependentSymNode", "DataDependentOutputException"})

# Checks that export adds; they compute nothing.
_CHECKS: Final = ("aten._assert", "aten.sym_constrain")

# Elements of a constant that a graph carries: lists that code indexes with, small tables.
_MOST_NUMBERS: Final = 256

# Where Python registers what an operator is replaced by as soon as a graph is traced again.
_DECOMPOSING: Final = frozenset({DispatchKey.Autograd, DispatchKey.CompositeImplicitAutograd})


def export(command: ExportGraph, folder: Path) -> Graph:
    """Export the model of a problem file with `torch.export`, without in-place operators.

    The file is executed, the model built and the graph traced under `FakeTensorMode`: parameters
    and inputs have shapes and dtypes but no memory. Composite operators (softmax, linear,
    rms_norm) stay whole.

    Where the model cannot be exported (control flow that depends on values), the reply has a
    reason and no nodes. What the file itself raises passes through.
    """
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        module: Any = execute(command.source, command.module_name, folder)
        seed_everything(0)
        build: Any = member(module, "Model")
        get_init_inputs: Any = member(module, "get_init_inputs")
        get_inputs: Any = member(module, "get_inputs")
        model = build(*get_init_inputs())
        inputs = get_inputs()
        dtype = None if command.dtype is None else dtype_of(command.dtype)
        model.requires_grad_(False)
        with mock.patch.object(torch.nn.Module, "_apply", apply_to_fakes):
            move(model, None, dtype)
        inputs = tuple(
            cast(input_, dtype).contiguous() if isinstance(input_, torch.Tensor) else input_
            for input_ in inputs
        )
    try:
        with (
            contextlib.ExitStack() as stack,
            warnings.catch_warnings(),
            torch.no_grad(),
            default_dtype(dtype),
        ):
            warnings.simplefilter("ignore")
            # Export logs at length what it raises as well.
            stack.callback(logging.disable, logging.root.manager.disable)
            logging.disable(logging.CRITICAL)
            program = torch.export.export(model, inputs, strict=False)
            program = _functional(program)
        return _to_message(program)
    except Exception as error:  # export raises whatever the model meets on the way
        return Graph(reason=_why(error, str(module.__file__)))


def _functional(program: Any) -> Any:
    """The program with what is in place or may alias decomposed; composite operators stay whole.

    Decomposing takes ten times as long as the export, whatever it finds to do.
    """
    operators = [node.target for node in program.graph.nodes if node.op == "call_function"]
    if not all(_stays(target) for target in operators):
        return program.run_decompositions({})
    # Decomposing drops what is computed for nothing, random numbers as well.
    program.graph.eliminate_dead_code(
        is_impure_node=lambda node: node.op in ("placeholder", "output")
    )
    return program


def _stays(target: Any) -> bool:
    """Whether PyTorch's decompositions leave an operator as it is, by its schema and kernels."""
    if target is operator.getitem:
        return True
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
        return False  # a region of other settings, or an operator that PyTorch does not define
    if target._schema.is_mutable or torch.Tag.maybe_aliasing_or_mutating in target.tags:
        return False
    aliases = any(argument.alias_info is not None for argument in target._schema.arguments)
    registered = torch._C._dispatch_has_kernel_for_dispatch_key
    if registered(target.name(), DispatchKey.CompositeImplicitAutograd):
        return not aliases
    if not _DECOMPOSING.isdisjoint(target.py_kernels):
        return False
    # Views have a rule of functionalization and stay; anything else that has one is replaced.
    return aliases or not registered(target.name(), DispatchKey.Functionalize)


def _why(error: Exception, file: str) -> str:
    """Why a model has no graph: in plain words where its own branches or sizes depend on values."""
    if type(error).__name__ not in _BY_VALUES:
        return one_line(f"{type(error).__name__}: {error}")
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == file]
    where = f" (line {lines[-1]})" if lines else ""
    return f"its branches or sizes depend on values of its tensors{where}"


def _to_message(program: Any) -> Graph:
    sources = {s.arg.name: s for s in program.graph_signature.input_specs}
    index = 0
    nodes: list[GraphNode] = []
    outputs: list[Any] = []
    kinds = [s.kind for s in program.graph_signature.output_specs]
    for node in program.graph.nodes:
        if node.op == "placeholder":
            spec = sources[node.name]
            if spec.kind is InputKind.USER_INPUT:
                constant = isinstance(spec.arg, ConstantArgument)
                args = [_value(spec.arg.value)] if constant else []
                nodes.append(_node(node, "input", args, input=index))
                index += 1
            elif spec.kind is InputKind.CONSTANT_TENSOR:
                numbers = _numbers(program.constants.get(spec.target))
                nodes.append(_node(node, "constant", [_value(numbers)]))
            else:
                nodes.append(_node(node, "tensor", [], tensor=spec.target))
        elif node.op == "output":
            returned = zip(node.args[0], kinds, strict=True)
            outputs = [_value(value) for value, kind in returned if kind is OutputKind.USER_OUTPUT]
        elif node.op == "call_function":
            name = _operator(node.target)
            if not name.startswith(_CHECKS):
                kwargs = {key: _value(value) for key, value in node.kwargs.items()}
                args = [_value(arg) for arg in node.args]
                nodes.append(_node(node, name, args, kwargs=kwargs))
        else:
            raise TypeError(f"a {node.op} has no place in a graph of operators")
        if len(nodes) > MAX_NODES:
            raise ValueError(f"the graph has more than {MAX_NODES} nodes")
    updates = list(program.graph_signature.buffers_to_mutate.values())
    return Graph(nodes=nodes, outputs=outputs, updates=updates)


def _numbers(tensor: Any) -> Any:
    """A constant's value, or nested lists of values; None where it is large or not known."""
    # A constant that was made under `FakeTensorMode` keeps its values where it is small.
    real = getattr(tensor, "constant", None) if isinstance(tensor, FakeTensor) else tensor
    if not isinstance(real, torch.Tensor) or real.is_complex() or real.numel() > _MOST_NUMBERS:
        return None
    with unset_fake_temporarily():
        return real.item() if real.numel() == 1 else real.tolist()


def _operator(target: Any) -> str:
    if isinstance(target, torch._ops.OpOverload):
        return str(target)  # aten.add.Tensor
    return str(getattr(target, "__name__", target))  # getitem


def _node(node: Any, op: str, args: list[Any], **more: Any) -> GraphNode:
    tensors = list(_tensors(node.meta.get("val")))
    return GraphNode(name=node.name, op=op, args=args, tensors=tensors, **more)


def _tensors(value: Any) -> Iterator[GraphTensor]:
    if isinstance(value, torch.Tensor):
        shape = [int(size) for size in value.shape]
        yield GraphTensor(shape=shape, dtype=dtype_name(value.dtype))
    elif isinstance(value, list | tuple):
        for element in value:
            yield from _tensors(element)


def _value(value: Any) -> Any:
    """An argument as JSON: `{"node": name}` for a value of the graph, `{"torch": …}` for a dtype,
    device, layout or memory format."""
    if isinstance(value, torch.fx.Node):
        return {"node": value.name}
    if isinstance(value, list | tuple):
        return [_value(element) for element in value]
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | float):
        # JSON has no infinities.
        return value if abs(value) < float("inf") else {"float": str(float(value))}
    if isinstance(value, torch.dtype | torch.layout | torch.memory_format):
        return {"torch": str(value).removeprefix("torch.")}
    if isinstance(value, torch.device):
        return {"device": str(value)}
    raise TypeError(f"a {type(value).__name__} is no constant of an operator")
