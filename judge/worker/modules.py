"""Executes a Python source text as a module with a file of its own."""

import io
import itertools
import linecache
import re
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from judge.problem.syntax import parse

_numbers = itertools.count()


class MissingNameError(Exception):
    """The file does not define what its form needs."""


def execute(source: str, name: str, folder: Path) -> ModuleType:
    """Execute `source` and return the module; the exceptions of the source pass through.

    What is compiled is the tree of the very text that the judge has scanned: no file is decoded
    again, no coding comment is obeyed and no bytecode is looked for. Triton, torch.compile and
    tracebacks read the source of functions by file name; they are given the same text. The file
    itself is for programs that are started. Every execution has a file of its own, so that no
    cached line is stale.

    Raises
    ------
    judge.problem.syntax.ProblemFileError
        If `source` is not Python.
    """
    stem = re.sub(r"\W", "_", name)[:60] or "module"
    stem = stem if not stem[0].isdigit() else f"_{stem}"
    number = next(_numbers)
    module_name = stem if number == 0 else f"{stem}_{number}"
    path = folder / f"{module_name}.py"
    code = compile(parse(source, path.name), str(path), "exec", dont_inherit=True)
    path.write_text(source, encoding="utf-8", newline="")
    # Without a time of change, linecache never looks at the file again.
    lines = io.StringIO(source, newline=None).readlines()
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    linecache.cache[str(path)] = (len(source), None, lines, str(path))
    module = ModuleType(module_name)
    module.__file__ = str(path)
    module.__spec__ = ModuleSpec(module_name, None, origin=str(path))
    sys.modules[module_name] = module  # dataclasses and pickle look the module up
    try:
        exec(code, vars(module))  # noqa: S102 (what the sandbox is for)
    except BaseException:
        sys.modules.pop(module_name, None)
        raise
    return module


def member(module: ModuleType, name: str) -> object:
    """Return what a module defines under `name`.

    Raises
    ------
    MissingNameError
        It defines no such name.
    """
    try:
        return getattr(module, name)
    except AttributeError:
        raise MissingNameError(f"the file does not define {name}") from None
