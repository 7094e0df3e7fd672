"""The command that says what holds a kernel up: `kb diagnose`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli import Session
from cli.optimize_config import specs_of
from cli.options import dtype_option, value
from cli.profiles import kernel_name_option, name_of, read_profile_text, read_text
from cli.requirements import require_torch
from kb.errors import IndexUnavailableError, InvalidInputError, KbError

if TYPE_CHECKING:
    from agent.diagnose.inputs import ProfileData
    from agent.diagnose.techniques import Catalog
    from kb.gpus import GpuSpec

_FILE = click.Path(path_type=Path)


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="PROFILE | PROBLEM KERNEL")
@value("--gpu", "NAME", "GPU whose limits apply. Default: the GPU that the profile names.")
@value("--gpu-spec", "FILE", "YAML file that describes another GPU.", _FILE)
@value("--evaluation", "FILE", "JSON from `kb evaluate`, for the floor and the measured roofs.")
@value("--kernel", "FILE", "Source of the profiled kernel.")
@kernel_name_option
@click.option(
    "--language", type=click.Choice(["triton", "cuda"]), help="Only techniques for this language."
)
@dtype_option
@value("--model", "NAME", "Also ask this language model.")
@value("--base-url", "URL", "The model's OpenAI-compatible endpoint.")
@click.option("--json", "as_json", is_flag=True, help="Print the diagnosis as JSON.")
@click.pass_obj
def diagnose(
    session: Session,
    /,
    files: tuple[str, ...],
    *,
    gpu: str | None,
    gpu_spec: Path | None,
    language: str | None,
    as_json: bool,
    **options: str | None,
) -> None:
    """Say what limits a kernel and what may help.

    PROFILE is what `kb profile --json` printed, or Nsight Compute's metrics: JSON
    (metric -> number), `ncu --csv` of the raw or details page, its console output,
    an .ncu-rep if ncu is installed, or what `nvcc -Xptxas -v` printed; - reads
    standard input. With PROBLEM and KERNEL, kb profiles the kernel first: use only
    a kernel that `kb evaluate` found correct.

    The answer names the bottleneck, up to two causes with their evidence, and
    techniques. The rules need no model: the same profile always gives the same
    answer. With --model, a language model judges the same evidence, and its opinion
    is also shown; its key is read from OPENAI_API_KEY.
    """
    from agent.diagnose.diagnose import diagnose as judge
    from agent.diagnose.diagnose import gather_facts
    from agent.diagnose.inputs import read_evaluation, read_profile
    from kb.gpus import resolve_gpu

    _check(files, options)
    evaluation, model = options["evaluation"], options["model"]
    extra = specs_of(gpu_spec)
    target, note = resolve_gpu(gpu, extra) if gpu is not None else (None, None)
    if len(files) == 1:
        profile, name = read_profile_text(files[0]), name_of(files[0])
        measured = read_profile(profile, name, options["kernel_name"])
        kernel = options["kernel"]
    else:
        measured = _profile(files[0], files[1], options["dtype"], target)
        kernel = files[1]
    source = read_text(kernel) if kernel else None
    result = read_evaluation(read_text(evaluation), name_of(evaluation)) if evaluation else None
    card = measured.gpu or (result.gpu if result is not None else None)
    spec = target or _card(card, extra, gpu_spec)
    catalog, remarks = _catalog(session.index)
    facts = gather_facts(measured, spec, result, source)
    notes = (*filter(None, (note,)), *measured.notes, *remarks)
    answer = judge(facts, catalog, language=language, notes=notes, ignored=measured.ignored)
    failure: KbError | None = None
    if model is not None:
        from agent.diagnose.model_judge import ask_model
        from agent.endpoint.errors import LlmError

        try:
            opinion = ask_model(model, options["base_url"], facts, answer, catalog)
            answer = answer.model_copy(update={"opinion": opinion})
        except LlmError as error:
            failure = error  # what the rules found is shown all the same
    if as_json:
        click.echo(answer.model_dump_json(indent=2))
    else:
        from agent.diagnose.render import render
        from cli.render import console
        from kb.printable import WIDTH

        width = min(WIDTH, console().width)
        for line in render(answer, width, lambda text: click.style(text, bold=True)):
            click.echo(line)
    if failure is not None:
        raise failure


def _check(files: tuple[str, ...], options: dict[str, str | None]) -> None:
    two, kernel, evaluation = len(files) == 2, options["kernel"], options["evaluation"]
    rules = {
        "give one profile, or a problem and a kernel": len(files) > 2,
        "--kernel needs a profile: here the second file is the kernel": two and kernel is not None,
        "PROBLEM and KERNEL must be files, not standard input": two and "-" in files,
        "--dtype needs PROBLEM KERNEL: a profile has its own": not two and bool(options["dtype"]),
        "--kernel-name needs a profile": two and options["kernel_name"] is not None,
        "only one file can be read from standard input": [*files, kernel, evaluation].count("-")
        > 1,
        "--base-url needs --model": options["base_url"] is not None and options["model"] is None,
    }
    for message, broken in rules.items():
        if broken:
            raise click.UsageError(message)


def _profile(problem: str, kernel: str, dtype: str | None, spec: "GpuSpec | None") -> "ProfileData":
    """Profile first; without a GPU there are static facts, compiled for the named card."""
    from agent.diagnose.inputs import from_profile
    from judge.problem.kernel import KernelFile
    from judge.problem.source import ProblemFile
    from judge.profile.profiler import Request, has_gpu, profile

    if spec is None and not has_gpu():
        raise InvalidInputError(
            "no GPU was found to profile on: name a GPU with --gpu to analyse only the code"
        )
    require_torch("profiling")
    request = Request(
        problem=ProblemFile.read(Path(problem)),
        kernel=KernelFile.read(Path(kernel)),
        dtype=dtype,
        architecture=None if has_gpu() or spec is None else spec.architecture,
        say=lambda progress: click.echo(progress.text, err=True),
    )
    return from_profile(profile(request))


def _card(name: str | None, extra: "Sequence[GpuSpec]", file: Path | None) -> "GpuSpec | None":
    """The card of a name; without one, the only card that the file describes."""
    from kb.gpus import find_spec

    if name is not None:
        return find_spec(name, extra)
    if len(extra) > 1:
        cards = ", ".join(spec.name for spec in extra)
        raise InvalidInputError(f"{file} describes several GPUs: choose one with --gpu: {cards}")
    return extra[0] if extra else None


def _catalog(index: Path) -> "tuple[Catalog, tuple[str, ...]]":
    """The techniques of the index; of the shipped corpus where it has none."""
    from agent.diagnose.techniques import catalog_from_corpus, catalog_from_index

    try:
        catalog = catalog_from_index(index)
    except IndexUnavailableError as error:
        reason = str(error).split(":")[0]
        return catalog_from_corpus(), (f"techniques come from the shipped corpus ({reason})",)
    if catalog.techniques:
        return catalog, ()
    return catalog_from_corpus(), ("techniques come from the shipped corpus: the index has none",)
