"""The `--dtype` option."""

from typing import Any

import click

from kb.dtypes import DTYPES, full_dtype


class Dtype(click.ParamType[str]):
    """PyTorch's name of a floating-point type, or the usual short one."""

    name = "dtype"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The full name; a usage error for anything else."""
        found = full_dtype(value)
        if found not in DTYPES:
            self.fail(f"'{value}' is none of {', '.join(DTYPES)} (or bf16, fp16, …)", param, ctx)
        return str(found)


dtype_option = click.option(
    "--dtype",
    type=Dtype(),
    metavar="NAME",
    help="Floating-point inputs and parameters as bfloat16 (bf16), float16, float32 or float64.",
)
