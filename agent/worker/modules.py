"""Executes a Python source text as a module with a file of its own."""

import importlib.util
import itertools
import re
import sys
from pathlib import Path
from types import ModuleType

_numbers = itertools.count()


class MissingNameError(Exception):
    """The file does not define what its form needs."""


def execute(source: str, name: str, folder: Path) -> ModuleType:
    """Execute `source` and return the module; the exceptions of the source pass through.

    It is written to a file under `folder`: Triton and torch.compile read the source of functions
    from their files. Every execution has a file of its own, so that no cached line is stale.
    """
    stem = re.sub(r"\W", "_", name)[:60] or "module"
    stem = stem if not stem[0].isdigit() else f"_{stem}"
    number = next(_numbers)
    module_name = stem if number == 0 else f"{stem}_{number}"
    path = folder / f"{module_name}.py"
    path.write_text(source, encoding="utf-8", errors="surrogatepass")
    spec = importlib.util.spec_from_file_location(module_name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # dataclasses and pickle look the module up
    try:
        spec.loader.exec_module(module)
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
