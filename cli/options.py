"""Options of commands: flags and values in a line each, and the `--dtype` that several have."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from kb.dtypes import DTYPES, full_dtype

F = TypeVar("F", bound=Callable[..., Any])


def flag(name: str, text: str) -> Callable[[F], F]:
    """An option without a value; `text` is its help."""
    return click.option(name, is_flag=True, help=text)


def value(name: str, metavar: str, text: str, kind: Any = None, **more: Any) -> Callable[[F], F]:
    """An option with a value of the type `kind`, by default a text; `more` is for click."""
    return click.option(name, metavar=metavar, type=kind, help=text, **more)


class Dtype(click.ParamType[str]):
    """PyTorch's name of a floating-point type, or the usual short one."""

    name = "dtype"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The full name; a usage error for anything else."""
        dtype = full_dtype(value)
        if dtype not in DTYPES:
            self.fail(f"'{value}' is not one of {', '.join(DTYPES)} (or bf16, fp16, …)", param, ctx)
        return str(dtype)


dtype_option = value(
    "--dtype",
    "NAME",
    "Dtype of floating-point inputs and parameters: bfloat16 (bf16), float16, float32, float64.",
    Dtype(),
)


class Baselines(click.ParamType[tuple[str, ...]]):
    """Names of forms of PyTorch, separated by commas; eager is always among them."""

    name = "baselines"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """The names in their order; a usage error for one that is unknown."""
        from judge.evaluate.options import BASELINES

        if isinstance(value, tuple):
            return value
        names = {name.strip() for name in value.split(",") if name.strip()}
        if unknown := sorted(names - set(BASELINES)):
            self.fail(f"no baseline '{unknown[0]}': choose from {', '.join(BASELINES)}", param, ctx)
        return tuple(name for name in BASELINES if name in names or name == BASELINES[0])


baselines_option = value(
    "--baselines",
    "NAMES",
    "Baselines to compare with: eager, compile, max-autotune. Default: all. max-autotune "
    "compiles for up to a minute.",
    Baselines(),
)
