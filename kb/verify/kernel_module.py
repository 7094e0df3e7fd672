"""Import a kernel file and check what it exports. Importing runs the file's code."""

import importlib.util
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

EXPORTS = ("kernel_function", "reference", "make_inputs", "TUNABLES")
_MAKE_INPUTS_PARAMETERS = ("size", "dtype", "device", "seed")


class ExportError(Exception):
    """A kernel file does not export what the corpus format asks for."""


@dataclass(frozen=True, slots=True)
class KernelModule:
    """The four exports of a kernel file, and the two that it may have besides."""

    kernel_function: Callable[..., Any]
    reference: Callable[..., Any]
    make_inputs: Callable[..., list[Any]]
    tunables: Mapping[str, list[Any]]
    agrees: Callable[[Any, Any], str | None] | None = None
    """(outputs, the reference's): what is wrong, or None. For results that no tolerance fits."""
    library: Callable[..., Any] | None = None
    """The vendor library's call for the same inputs, where the reference does not make it."""

    def defaults(self) -> dict[str, Any]:
        """The tunables' values when none are given."""
        parameters = inspect.signature(self.kernel_function).parameters
        return {name: parameters[name].default for name in self.tunables}


def load_kernel_module(path: Path) -> KernelModule:
    """Import a kernel file on its own, outside any package.

    Raises
    ------
    ExportError
        If one of the exports is missing or of the wrong kind.
    """
    spec = importlib.util.spec_from_file_location(f"kb_kernel_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ExportError(f"{path.name} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    missing = [name for name in EXPORTS if not hasattr(module, name)]
    if missing:
        raise ExportError(f"{path.name} does not export {', '.join(missing)}")
    for name in EXPORTS[:3]:
        if not callable(getattr(module, name)):
            raise ExportError(f"{name} is not a function")
    return KernelModule(
        module.kernel_function, module.reference, module.make_inputs, module.TUNABLES,
        getattr(module, "agrees", None), getattr(module, "library", None),
    )  # fmt: skip


def check_exports(module: KernelModule, check_params: Mapping[str, Any]) -> None:
    """Check signatures, and that TUNABLES agrees with `kernel_function` and `check_params`.

    Raises
    ------
    ExportError
        Naming the first disagreement.
    """
    takes = tuple(inspect.signature(module.make_inputs).parameters)
    if takes != _MAKE_INPUTS_PARAMETERS:
        raise ExportError(
            f"make_inputs takes ({', '.join(takes)}) instead of "
            f"({', '.join(_MAKE_INPUTS_PARAMETERS)})"
        )
    if not isinstance(module.tunables, Mapping):
        raise ExportError("TUNABLES is not a mapping of parameter name to values")
    parameters = inspect.signature(module.kernel_function).parameters
    for name, values in module.tunables.items():
        if name not in parameters:
            raise ExportError(f"TUNABLES names '{name}', which kernel_function does not take")
        default = parameters[name].default
        if default is inspect.Parameter.empty:
            raise ExportError(f"kernel_function has no default for the tunable '{name}'")
        if default not in values:
            raise ExportError(f"the default {name}={default!r} is not among its TUNABLES values")
    unknown = sorted(set(check_params) - set(module.tunables))
    if unknown:
        raise ExportError(f"check_params names '{unknown[0]}', which is not in TUNABLES")
