"""Writes the winner of a run as a package with a `torch.library` custom op, for use in a model.

::

    NAME/
      __init__.py   the op (`op`), and `ModelOp`, the problem's model with the op as its forward
      kernel.py     the kernel as it was judged
      problem.py    the problem, whose plain model tells the op's shapes to `torch.compile`

The package needs torch and what the kernel imports, and nothing of this project.
"""

import ast
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from agent.optimize.candidate import Candidate
from agent.optimize.config import RunConfig
from agent.optimize.files import cannot_write, write_atomically
from agent.optimize.record import Record
from agent.optimize.run import read_run
from agent.optimize.summary import FORM_NAMES, summarise
from judge.problem.binding import Binding, Source, bind
from judge.problem.kernel import Form
from judge.sandbox.launch import Zygote
from judge.worker import messages as m
from judge.worker.values import decode
from kb.errors import InvalidInputError, KbError

_MODULE: Final = '''"""{about}

`op(inputs, tensors)` is the custom op `{name}`: `inputs` are those of the
problem's `forward`, `tensors` the parameters and buffers that `TENSORS` names, in that order; it
returns a list of tensors. `ModelOp()` is the problem's model with the op as its forward, and takes
its state dict. Shapes for `torch.compile` come from the plain model. There is no gradient.
"""

import torch

from . import kernel, problem

TENSORS = {tensors!r}


@torch.library.custom_op("{name}", mutates_args=())
def op(inputs: list[torch.Tensor], tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """The kernel; its results are new, contiguous tensors."""
    found = kernel.kernel_function({arguments})
    found = [found] if isinstance(found, torch.Tensor) else list(found)
    found = [each.contiguous() for each in found]
    held = {{each.untyped_storage().data_ptr() for each in (*inputs, *tensors)}}
    return [each.clone() if each.untyped_storage().data_ptr() in held else each for each in found]


@op.register_fake
def _(inputs, tensors):
    with torch.device("meta"):
        model = problem.Model(*problem.get_init_inputs())
    given = dict(zip(TENSORS, tensors, strict=True))
    found = torch.func.functional_call(model, given, tuple(inputs))
    found = [found] if isinstance(found, torch.Tensor) else list(found)
    return [torch.empty_like(each, memory_format=torch.contiguous_format) for each in found]


class ModelOp(problem.Model):
    """The problem's model, as `get_init_inputs` builds it, with the op as its forward."""

    def __init__(self):
        super().__init__(*problem.get_init_inputs())

    def forward(self, *inputs):
        held = {{**dict(self.named_parameters()), **dict(self.named_buffers())}}
        found = op(list(inputs), [held[name] for name in TENSORS])
        return found[0] if {single} else tuple(found)
'''


def write_custom_op(root: Path, target: Path, *, zygote: Zygote | None = None) -> Path:
    """Write the winner of the run in `root` as a package `target`, a folder that is not there yet.

    The problem is executed in a sandboxed worker on the CPU, which builds its model: names of
    tensors and values of attributes that the kernel takes are found as the judge finds them.

    Raises
    ------
    KbError
        The run has no kernel to write (nothing better was found, the winner is a whole module or a
        CUDA file), the problem's model cannot be built here, or the folder cannot be written.
    """
    config, record = read_run(root)
    best = _winner(config, record, root)
    package = target.name
    if not package.isidentifier():
        raise InvalidInputError(f"'{package}' is not a module name: name another folder")
    if target.exists():
        raise InvalidInputError(f"{target} already exists: name another folder")
    description, outputs = _describe_problem(config, zygote)
    tensors = [parameter.name for parameter in description.parameters]
    attributes = {name: decode(value) for name, value in description.attributes.items()}
    binding = bind(signature_of(best.source), len(description.input_names), tensors, attributes)
    sources = (*binding.positional, *binding.named.values())
    names = list(dict.fromkeys(source.tensor for source in sources if source.tensor is not None))
    stem = re.sub("[^0-9A-Za-z]", "_", config.problem.stem).lower()
    about = f"{config.problem.name} by candidate {best.id} of `kb optimize`, a custom op."
    text = _MODULE.format(
        about=about,
        name=f"kernel_kb::{stem}_{best.id}",
        tensors=names,
        arguments=_arguments(binding, names),
        single=outputs == 1,
    )
    try:
        target.mkdir(parents=True)
    except OSError as error:
        raise cannot_write(target, error) from error
    write_atomically(target / "kernel.py", best.source)
    write_atomically(target / "problem.py", config.problem.source)
    write_atomically(target / "__init__.py", text)
    return target


def _winner(config: RunConfig, record: Record, root: Path) -> Candidate:
    if record.standing is None:
        raise InvalidInputError(f"the run in {root} has not evaluated its start yet: continue it")
    summary = summarise(config, record, root)
    if summary.given_back is not None:
        raise InvalidInputError(
            f"the run returned the problem's own model, run with {FORM_NAMES[summary.given_back]}, "
            "which needs no custom op"
        )
    best = summary.best.candidate
    if best.form is not Form.KERNEL_FUNCTION:
        what = "a CUDA file" if best.form is Form.CUDA else "a whole module (ModelNew)"
        raise InvalidInputError(f"the best is {what}: only a kernel_function becomes a custom op")
    return best


def _describe_problem(config: RunConfig, zygote: Zygote | None) -> tuple[m.Problem, int]:
    """What the problem defines, and how many tensors its model returns."""
    from judge.evaluate.session import (  # noqa: PLC0415 (it starts what loads torch)
        CommandFailedError,
        Session,
        WorkerError,
    )
    from judge.graph import export_graph  # noqa: PLC0415

    problem = config.problem
    with Session("cpu", zygote=zygote) as session:
        try:
            loading = m.LoadProblem(source=problem.source, device="cpu", dtype=config.dtype)
            definition = session.worker("problem").load_problem(loading)
        except (CommandFailedError, WorkerError) as error:
            raise KbError(f"the problem's model cannot be built: {error}") from error
    return definition, len(export_graph(problem.source, problem.name, config.dtype, zygote).outputs)


def signature_of(source: str) -> Callable[..., Any]:
    """A function with the signature of a file's `kernel_function`; nothing of the file runs.

    Raises
    ------
    InvalidInputError
        There is no such function.
    """
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name == "kernel_function":
            break
    else:
        raise InvalidInputError("the best kernel's file defines no kernel_function itself")
    arguments = node.args
    for arg in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        if arg.annotation is not None:
            arg.annotation = ast.Constant(ast.unparse(arg.annotation))
    for variadic in (arguments.vararg, arguments.kwarg):
        if variadic is not None:
            variadic.annotation = None
    arguments.defaults = [_literal(default) for default in arguments.defaults]
    arguments.kw_defaults = [default and _literal(default) for default in arguments.kw_defaults]
    stub = ast.FunctionDef(
        name=node.name, args=arguments, body=[ast.Pass()], decorator_list=[], returns=None
    )
    module = ast.fix_missing_locations(ast.Module(body=[stub], type_ignores=[]))
    scope: dict[str, Any] = {}
    # Literals and nothing else: the file is not trusted.
    exec(compile(module, "signature", "exec"), {"__builtins__": {}}, scope)  # noqa: S102
    function: Callable[..., Any] = scope[node.name]
    return function


def _literal(node: ast.expr) -> ast.expr:
    """A default as it is where it is a literal, else None: that there is one is what counts."""
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return ast.Constant(None)
    return node


def _arguments(binding: Binding, names: list[str]) -> str:
    def value(source: Source) -> str:
        if source.input is not None:
            return f"inputs[{source.input}]"
        if source.tensor is not None:
            return f"tensors[{names.index(source.tensor)}]"
        return _as_literal(source.value)

    arguments = [value(source) for source in binding.positional]
    arguments += [f"{name}={value(source)}" for name, source in binding.named.items()]
    return ", ".join(arguments)


def _as_literal(value: Any) -> str:
    """A value as Python; numbers that are none have no literal."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_as_literal, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)
