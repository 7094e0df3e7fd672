"""A lone `.cu` file: what its front matter declares, and calling its entry point.

The front matter stands between `---` lines in the leading comment:

    /*
    ---
    entry: scale_rows            # extern "C" int scale_rows(...): 0, or a cudaError_t
    inputs: [x, factor]          # bound as the parameters of a kernel_function are
    outputs:
      - {name: y, like: x}
      - {name: sums, shape: "x.shape[0], 4", dtype: float32}
    arguments: x, y, sums, float factor, int64 x.shape[0], int64 x.shape[1], stream
    architectures: [sm_90a]      # optional; else the device's own
    ---
    */

`arguments` are those of the C function, in order: the name of a tensor for its device pointer (null
where the input is None), `stream` for the current CUDA stream, or a C type (int, int64, float,
double) and an expression. Expressions are sums, differences, products, floor divisions and
remainders of numbers, scalar inputs, `x.shape[i]`, `x.numel`, `x.ndim` and `x.dtype`, a code:
0 bfloat16, 1 float16, 2 float32, 3 float64, 4 float8_e4m3fn, 5 uint8, 6 int8, 7 int32, 8 int64,
9 bool. Lists are separated by commas; inside [ ], YAML wants quotes around what has brackets.

Tensors are contiguous; outputs are uninitialized. The file is compiled by itself with `kb.nvcc`: no
torch headers, no files of its own beside it.
"""

import ast
import ctypes
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from judge.problem.syntax import ARITHMETIC, ProblemFileError
from kb import nvcc
from kb.architectures import any_runs_on, describe_targets, parse_architecture
from kb.corpus.frontmatter import split_front_matter, validate_front_matter
from kb.errors import KbError
from kb.parsing import PARSING

DTYPES = (
    "bfloat16", "float16", "float32", "float64", "float8_e4m3fn", "uint8", "int8", "int32",
    "int64", "bool",
)  # fmt: skip
_C_TYPES: Mapping[str, Any] = {
    "int": ctypes.c_int,
    "int64": ctypes.c_int64,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
}
_STREAM = "stream"
_TYPED = re.compile(r"(int|int64|float|double)\s+(\S.*)")


def _separated(value: object) -> object:
    """`a, b` as [a, b]: YAML's own lists take the brackets of `x.shape[0]` for theirs."""
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else value


_List = BeforeValidator(_separated)
Identifier = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$", max_length=200)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Output(_Strict):
    """A tensor that the entry point writes."""

    name: Identifier
    like: Identifier | None = None
    """An input of the same shape and, unless `dtype` says otherwise, dtype."""
    shape: Annotated[tuple[str | int, ...] | None, _List] = None
    """One expression for each dimension; a list, or separated by commas."""
    dtype: str | None = None
    """A dtype's name, or `x.dtype` for the dtype of input `x`."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if (self.like is None) == (self.shape is None):
            raise ValueError("give either 'like' or 'shape'")
        if self.shape is not None and self.dtype is None:
            raise ValueError("'shape' needs a 'dtype'")
        return self


class CudaEntry(_Strict):
    """The front matter of a `.cu` file."""

    entry: Identifier
    inputs: Annotated[tuple[Identifier, ...], _List, Field(min_length=1)]
    outputs: Annotated[tuple[Output, ...], Field(min_length=1)]
    arguments: Annotated[tuple[str, ...], _List, Field(min_length=1)]
    architectures: Annotated[tuple[str, ...], _List] = ()

    @model_validator(mode="after")
    def _names_are_known(self) -> Self:
        outputs = [output.name for output in self.outputs]
        names = [*self.inputs, *outputs]
        if repeated := {name for name in names if names.count(name) > 1 or name == _STREAM}:
            raise ValueError(f"the name '{min(repeated)}' is used twice or reserved")
        for output in self.outputs:
            if output.like is not None and output.like not in self.inputs:
                raise ValueError(f"'{output.like}' is not an input")
            if output.dtype is not None:
                self._check_dtype(output.dtype)
            for size in output.shape or ():
                _check(str(size), self.inputs)
        for argument in self.arguments:
            if typed := _TYPED.fullmatch(argument):
                _check(typed[2], names)
            elif argument not in names and argument != _STREAM:
                raise ValueError(
                    f"argument '{argument}' is not an input, an output, 'stream', or a type "
                    f"({', '.join(_C_TYPES)}) and an expression"
                )
        if unused := [name for name in outputs if name not in self.arguments]:
            raise ValueError(f"output '{unused[0]}' is not among the arguments")
        for architecture in self.architectures:
            try:
                parse_architecture(architecture)
            except KbError as error:
                raise ValueError(str(error)) from error
        return self

    def _check_dtype(self, dtype: str) -> None:
        if dtype not in DTYPES and dtype.removesuffix(".dtype") not in self.inputs:
            raise ValueError(f"unknown dtype '{dtype}': one of {', '.join(DTYPES)}, or x.dtype")

    def check_architecture(self, device: str) -> None:
        """Raise ProblemFileError unless the kernel is for a device such as `sm_90a`."""
        if not any_runs_on(self.architectures, device):
            raise ProblemFileError(
                f"{self.entry} is for {describe_targets(self.architectures)}, "
                f"but the device is {device}"
            )


def read_entry(text: str, name: str) -> CudaEntry:
    """The declaration in a `.cu` file's leading comment.

    Raises
    ------
    ProblemFileError
        If there is none.
    EntryError
        If it is malformed; names file and line.
    """
    front = split_front_matter(text, name)
    if front is None:
        raise ProblemFileError(
            f"{name}:1: no entry point is declared: begin the file with a comment that holds "
            "`entry`, `inputs`, `outputs` and `arguments` between two --- lines"
        )
    return validate_front_matter(front, CudaEntry, name)


def build(text: str, name: str, architecture: str) -> Callable[..., Any]:
    """Compile a `.cu` file and return its entry point as a function of the declared inputs.

    The function allocates the outputs beside the first tensor it is given, launches on that
    device's current stream, and returns one tensor or a tuple; its signature names the inputs.

    Parameters
    ----------
    architecture
        The device's, such as `sm_90a`.

    Raises
    ------
    KbError
        If the declaration is malformed or for other devices, the file does not compile, or it
        has no such function.
    """
    entry = read_entry(text, name)
    entry.check_architecture(architecture)
    library = nvcc.load_text(text, entry.entry, architecture)
    try:
        function = getattr(library, entry.entry)
    except AttributeError as error:
        raise ProblemFileError(
            f"{name}: the compiled library has no function '{entry.entry}': is it extern \"C\"?"
        ) from error
    typed = [_TYPED.fullmatch(argument) for argument in entry.arguments]
    function.argtypes = [_C_TYPES[m[1]] if m else ctypes.c_void_p for m in typed]
    function.restype = ctypes.c_int

    def call(*positional: Any, **named: Any) -> Any:
        values = dict(call.__signature__.bind(*positional, **named).arguments)  # type: ignore[attr-defined]
        return _launch(entry, function, values)

    names = [
        inspect.Parameter(input_, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        for input_ in entry.inputs
    ]
    call.__signature__ = inspect.Signature(names)  # type: ignore[attr-defined]
    call.__name__ = entry.entry
    return call


def _launch(entry: CudaEntry, function: Callable[..., int], values: dict[str, Any]) -> Any:
    import torch  # noqa: PLC0415 (only the worker calls kernels)

    for name, value in values.items():
        if isinstance(value, torch.Tensor):
            values[name] = value.contiguous()
    first = next((v for v in values.values() if isinstance(v, torch.Tensor)), None)
    if first is None:
        raise ProblemFileError(f"{entry.entry}: none of the inputs is a tensor")
    outputs = [_allocate(output, values, first.device) for output in entry.outputs]
    values |= {output.name: tensor for output, tensor in zip(entry.outputs, outputs, strict=True)}
    stream = torch.cuda.current_stream(first.device).cuda_stream if first.is_cuda else 0
    arguments = [_argument(argument, values, stream) for argument in entry.arguments]
    with torch.cuda.device(first.device) if first.is_cuda else nullcontext():
        status = function(*arguments)
    if status:
        raise RuntimeError(f"{entry.entry} failed with CUDA error {status}")
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def _allocate(output: Output, values: Mapping[str, Any], device: Any) -> Any:
    import torch  # noqa: PLC0415

    dtype = None
    if output.dtype is not None:
        is_dtype = output.dtype in DTYPES
        name = output.dtype.removesuffix(".dtype")
        dtype = getattr(torch, name) if is_dtype else values[name].dtype
    if output.like is not None:
        return torch.empty_like(values[output.like], dtype=dtype)
    shape = [int(_evaluate(_tree(str(size)), values)) for size in output.shape or ()]
    return torch.empty(shape, dtype=dtype, device=device)


def _argument(argument: str, values: Mapping[str, Any], stream: int) -> Any:
    if typed := _TYPED.fullmatch(argument):
        value = _evaluate(_tree(typed[2]), values)
        return value if typed[1] in ("float", "double") else int(value)
    if argument == _STREAM:
        return stream
    tensor = values[argument]
    return None if tensor is None else tensor.data_ptr()


def _tree(expression: str) -> ast.expr:
    with PARSING:
        return ast.parse(expression, mode="eval").body


def _check(expression: str, names: Sequence[str]) -> None:
    """Raise ValueError unless `expression` is of the small language, over these names."""
    try:
        tree = _tree(expression)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"'{expression}' is not an expression") from error
    if (unknown := _outside(tree, names)) is not None:
        raise ValueError(f"'{expression}': '{ast.unparse(unknown)}' is not allowed here")


def _outside(node: ast.expr, names: Sequence[str]) -> ast.expr | None:  # noqa: PLR0911
    """The first part that does not belong to the language."""
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return None
        case ast.Name(id=name) if name in names:
            return None
        case ast.Attribute(value=ast.Name(id=name), attr="numel" | "ndim" | "dtype"):
            return None if name in names else node
        case ast.Subscript(
            value=ast.Attribute(value=ast.Name(id=name), attr="shape"), slice=index
        ) if name in names:
            return _outside(index, names)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _outside(operand, names)
        case ast.BinOp(op=op, left=left, right=right) if type(op) in ARITHMETIC:
            return _outside(left, names) or _outside(right, names)
    return node


def _evaluate(node: ast.expr, values: Mapping[str, Any]) -> Any:  # noqa: PLR0911
    """The value of a checked expression."""
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return values[name]
        case ast.Attribute(value=ast.Name(id=name), attr="dtype"):
            return DTYPES.index(str(values[name].dtype).removeprefix("torch."))
        case ast.Attribute(value=ast.Name(id=name), attr="numel"):
            return values[name].numel()
        case ast.Attribute(value=ast.Name(id=name), attr="ndim"):
            return values[name].ndim
        case ast.Subscript(value=ast.Attribute(value=ast.Name(id=name)), slice=index):
            return values[name].shape[_evaluate(index, values)]
        case ast.UnaryOp(operand=operand):
            return -_evaluate(operand, values)
        case ast.BinOp(op=op, left=left, right=right):
            return ARITHMETIC[type(op)](_evaluate(left, values), _evaluate(right, values))
    raise AssertionError(ast.dump(node))
