"""Kernel files: which form and language they have, told from the syntax tree; nothing runs here."""

import ast
import hashlib
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Self

from judge.problem.cuda_entry import CudaEntry, read_entry
from judge.problem.syntax import ProblemFileError, Text, definitions, parse, read_text, within

CUDA_SUFFIXES = (".cu", ".cuh")
# Modules and functions through which a Python file brings CUDA C++ of its own.
_CUDA_MODULES = ("kb.nvcc", "cupy", "pycuda", "cuda", "numba.cuda", "torch.utils.cpp_extension")
_CUDA_NAMES = frozenset(
    {"load_inline", "compile_shared", "nvcc", "RawKernel", "RawModule", "_compile_kernel"}
)


class Form(StrEnum):
    """How a kernel file is called."""

    MODEL_NEW = "ModelNew"
    """A class built and called as the problem's `Model` is."""
    KERNEL_FUNCTION = "kernel_function"
    """A function whose arguments are bound (`judge.problem.binding`)."""
    CUDA = "cuda"
    """A lone `.cu` whose leading comment declares the call (`judge.problem.cuda_entry`)."""


class Language(StrEnum):
    """What a kernel file is written in."""

    TRITON = "triton"
    CUDA = "cuda"
    TORCH = "torch"
    """Neither: calls of PyTorch, compiled or not."""


@dataclass(frozen=True, slots=True)
class KernelFile:
    """A kernel file and what its syntax tree tells."""

    name: str
    text: str
    sha256: str
    form: Form
    language: Language
    entry: CudaEntry | None
    """For `Form.CUDA` only."""

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a `.py` or `.cu` kernel file.

        A Python file that has both forms is taken as `ModelNew`: such files wrap their function in
        the class, and a class is called without guessing arguments.

        Raises
        ------
        KbError
            If it cannot be read, is not Python, has no known form, or is CUDA without a valid
            declaration.
        """
        return cls._from(read_text(path))

    @classmethod
    def parse(cls, text: str, name: str = "kernel.py") -> Self:
        """As `read`, from text; a `name` that ends in `.cu` is CUDA."""
        digest = hashlib.sha256(text.encode("utf-8", errors="replace")).hexdigest()
        return cls._from(Text(name, text, digest))

    @classmethod
    def _from(cls, file: Text) -> Self:
        if file.name.endswith(CUDA_SUFFIXES):
            entry = read_entry(file.text, file.name)
            return cls(file.name, file.text, file.sha256, Form.CUDA, Language.CUDA, entry)
        module = parse(file.text, file.name)
        defined = definitions(module)
        form = next((f for f in (Form.MODEL_NEW, Form.KERNEL_FUNCTION) if f in defined), None)
        if form is None:
            raise ProblemFileError(
                f"{file.name}:1: no class ModelNew and no function kernel_function is defined"
            )
        statement = defined[form]
        kind = ast.ClassDef if form is Form.MODEL_NEW else ast.FunctionDef
        others = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
        if isinstance(statement, others) and not isinstance(statement, kind):
            word = "class" if kind is ast.ClassDef else "function"
            raise ProblemFileError(f"{file.name}:{statement.lineno}: {form} is not a {word}")
        return cls(file.name, file.text, file.sha256, form, language_of(module), None)


def language_of(module: ast.Module) -> Language:
    """Triton where a function is decorated by its `jit`, CUDA where C++ is brought along.

    A file that only imports triton counts as Triton, after CUDA.
    """
    imported: set[str] = set()
    names: set[str] = set()
    jitted = False
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            imported |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.FunctionDef):
            jitted = jitted or any(
                "jit" in ast.unparse(decorator) for decorator in node.decorator_list
            )
    triton = any(within(name, "triton") for name in imported)
    if triton and jitted:
        return Language.TRITON
    cuda = any(within(name, *_CUDA_MODULES) for name in imported)
    if cuda or names & _CUDA_NAMES:
        return Language.CUDA
    return Language.TRITON if triton else Language.TORCH
