"""The `--dtype` option of the commands that run kernels."""

from typing import Any

import click

DTYPES = ("float32", "float16", "bfloat16", "float64")
SHORT = {"fp32": "float32", "fp16": "float16", "half": "float16", "bf16": "bfloat16",
         "fp64": "float64", "double": "float64"}  # fmt: skip


class Dtype(click.ParamType[str]):
    """PyTorch's name of a floating-point type, or the usual short one."""

    name = "dtype"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The full name; a usage error for anything else."""
        spelled = str(value).lower().removeprefix("torch.")
        found = SHORT.get(spelled, spelled)
        if found not in DTYPES:
            self.fail(f"'{value}' is none of {', '.join(DTYPES)} (or bf16, fp16, …)", param, ctx)
        return found


dtype_option = click.option(
    "--dtype",
    type=Dtype(),
    metavar="NAME",
    help="Floating-point inputs and parameters as bfloat16 (bf16), float16, float32 or float64.",
)
