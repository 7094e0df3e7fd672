"""The command that profiles a kernel file: Nsight Compute's metrics and static facts."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.options import dtype_option, flag, value
from cli.requirements import require_torch

if TYPE_CHECKING:
    from judge.profile.sanitize import Tool
    from judge.progress import Progress

_FILE = click.Path(path_type=Path)


@click.command()
@click.argument("problem", type=_FILE)
@click.argument("kernel", type=_FILE)
@dtype_option
@flag("--tf32", "Allow TF32 in float32 matrix products.")
@click.option("--device", default="cuda:0", show_default=True, help="GPU to use.")
@click.option(
    "--calls", default=1, show_default=True, type=click.IntRange(1, 20), help="Calls to profile."
)
@flag("--static-only", "Only report facts from the machine code; needs no GPU.")
@value("--arch", "SM", "Target to compile for without a GPU: sm_90a, or a GPU such as H100.")
@flag("--sanitize", "Also run compute-sanitizer's memcheck.")
@flag("--racecheck", "Also run compute-sanitizer's racecheck.")
@click.option("--ncu", type=_FILE, help="Path of the ncu program to use.")
@click.option("--report", type=_FILE, help="Save ncu's report to this file.")
@click.option("--timeout", default=600.0, show_default=True, help="Profiler time limit in seconds.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def profile(problem: Path, kernel: Path, *, as_json: bool, **options: Any) -> None:
    """Profile a kernel file on its problem's inputs.

    Profile only kernels that `kb evaluate` found correct: here the problem and the kernel share a
    process. In the JSON, `profile` holds the dominant kernel's metrics as POST /v1/context takes
    them.
    """
    from judge.problem.kernel import KernelFile
    from judge.problem.source import ProblemFile
    from judge.profile.profiler import Request
    from judge.profile.profiler import profile as run
    from judge.profile.render import render
    from kb.gpus import device_of

    tools: dict[Tool, str] = {"memcheck": "sanitize", "racecheck": "racecheck"}
    request = Request(
        problem=ProblemFile.read(problem),
        kernel=KernelFile.read(kernel),
        architecture=device_of(options.pop("arch")),
        sanitize=[tool for tool, name in tools.items() if options.pop(name)],
        say=_progress,
        **options,
    )
    require_torch("profiling")
    facts = run(request)
    if as_json:
        click.echo(json.dumps({"profile": facts.metrics} | facts.model_dump(mode="json"), indent=2))
    else:
        click.echo(render(facts), nl=False)


def _progress(progress: "Progress") -> None:
    if sys.stderr.isatty():
        click.echo(f"{progress} …", err=True)
