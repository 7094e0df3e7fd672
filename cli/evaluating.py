"""The command that judges a kernel: is it right, is it honest, how fast is it."""

from pathlib import Path
from typing import Any

import click

from cli.options import baselines_option, dtype_option, flag, value
from kb.errors import InvalidInputError

# What the verdicts leave with; documented in the command's help.
_STATUS = {"correct": 0, "library": 0, "specialised": 0, "wrong": 3, "cheat": 4, "inconclusive": 5}
_PATH = click.Path(path_type=Path, dir_okay=False)


@click.command()
@click.argument("problem", type=_PATH)
@click.argument("kernel", type=_PATH)
@click.option("--json", "as_json", is_flag=True, help="Print the whole result as JSON.")
@dtype_option
@value("--device", "cuda:N", "GPU to use. Default: the first.")
@flag(
    "--interpret",
    "Without a GPU: check a Triton kernel's results in Triton's interpreter, at reduced "
    "sizes and without timing.",
)
@value("--against", "FILE", "Also time this kernel file (repeatable).", _PATH, multiple=True)
@baselines_option
@flag("--no-timing", "Judge correctness only.")
@click.option(
    "--seed-count",
    "seeds",
    type=click.IntRange(5),
    default=5,
    help="Number of secret seeds. Default: 5.",
)
@flag("--tf32", "Allow TF32 in float32 matrix products, for all contenders.")
@flag("--trust", "Run even if the sandbox is incomplete; only for files that you trust.")
@click.pass_context
def evaluate(
    ctx: click.Context,
    /,
    problem: Path,
    kernel: Path,
    *,
    as_json: bool,
    no_timing: bool,
    **options: Any,
) -> None:
    """Judge KERNEL on PROBLEM: correctness, times, verdict.

    PROBLEM defines Model, get_inputs and get_init_inputs, as KernelBench's files do. KERNEL
    defines ModelNew or kernel_function, or is a .cu file that declares its entry point. Both run
    in sandboxed processes; nothing that they report about themselves is trusted.

    Exit status: 0 if the verdict is correct, library or specialised, 3 wrong, 4 cheat,
    5 inconclusive; 1 if the kernel could not be judged, 2 for wrong usage.
    """
    from judge.evaluate.host import resolve_device
    from judge.evaluate.options import Options
    from judge.loading import loading_torch

    if options["device"] == "cpu":
        raise InvalidInputError("times on a CPU are meaningless; --interpret only checks results")
    # Before torch is loaded for good: a machine without a GPU gets its error at once.
    with loading_torch():
        options["device"] = resolve_device(options["device"], interpret=options["interpret"])
    from judge.evaluate.judge import evaluate as judge
    from judge.evaluate.render import render

    if options["baselines"] is None:
        del options["baselines"]
    opts = Options(timing=not (no_timing or options["interpret"]), **options)
    result = judge(problem, kernel, opts, on_progress=lambda p: click.echo(p.text, err=True))
    click.echo(result.model_dump_json(indent=2) if as_json else render(result))
    ctx.exit(_STATUS[result.verdict.value])
