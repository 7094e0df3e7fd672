"""The commands that make a kernel faster and tell how: `kb optimize`, `kb report`."""

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli import Session
from cli.batching import is_batch, optimize_batch
from cli.dtypes import dtype_option
from cli.optimize_config import begun, default_folder, price_of, resumed
from cli.sweeping import is_sweep, optimize_folder
from cli.terminal import drawn
from kb.errors import KbError
from kb.printable import printable

if TYPE_CHECKING:
    from agent.optimize.config import RunConfig
    from agent.optimize.events import Event
    from kb.gpus import GpuSpec

_FILE = click.Path(path_type=Path, dir_okay=False)
_FOLDER = click.Path(path_type=Path, file_okay=False)
_POSITIVE = click.FloatRange(0, min_open=True)
_INTERRUPTED = 130


@click.command()
@click.argument("problem", type=click.Path(path_type=Path), required=False)
@click.option(
    "--kernel",
    type=_FILE,
    help="Start from this kernel file. Default: eager PyTorch, that is, no kernel.",
)
@click.option(
    "--out", type=_FOLDER, metavar="DIR", help="Run folder to make. Default: kb-runs/PROBLEM-TIME."
)
@click.option(
    "--resume",
    type=_FOLDER,
    metavar="RUN",
    help="Continue the run in this folder; only limits and the model can be changed.",
)
@click.option(
    "--proposers",
    metavar="NAMES",
    help="Which compete: tune (meta-parameters), recipe (kernels of the index), llm. "
    "Default: tune,recipe, and llm with --model.",
)
@click.option(
    "--model",
    metavar="NAME",
    help="Let this language model propose, too; or replay:RUN,"
    " which repeats its replies in a recorded run.",
)
@click.option("--base-url", metavar="URL", help="The model's OpenAI-compatible endpoint.")
@click.option(
    "--price",
    metavar="IN,OUT",
    help="The model's price per million tokens of requests and of replies, such as 1.25,10; or a "
    "YAML file: models: {NAME: {input: 1.25, output: 10}}.",
)
@click.option(
    "--batch",
    type=_FOLDER,
    metavar="DIR",
    help="Write the model's requests to DIR/requests.jsonl (OpenAI's Batch format), read replies "
    "from DIR/results.jsonl, and keep the runs in DIR/runs; --resume DIR goes on.",
)
@click.option("--gpu", metavar="NAME", help="The card, where this machine does not have it.")
@click.option(
    "--replay-verdicts",
    is_flag=True,
    help="With replay:RUN: take verdicts and times from the record, too. Needs no GPU.",
)
@dtype_option
@click.option("--tf32", is_flag=True, help="Allow TF32 in float32 products, to all contenders.")
@click.option(
    "--device", metavar="cuda:N", help="Use one GPU. Default: all of the first one's kind."
)
@click.option(
    "--ray",
    metavar="ADDRESS",
    help="Share a folder of problems out over all GPUs of the Ray cluster at HOST:PORT; auto: the "
    "one that this machine is in. Default: this machine's GPUs.",
)
@click.option("--gpu-spec", type=_FILE, help="YAML file with a card that kb does not know.")
@click.option(
    "--interpret",
    is_flag=True,
    help="Dry run without a GPU: correctness only, in Triton's interpreter.",
)
@click.option("--trust", is_flag=True, help="Run although the sandbox is incomplete here.")
@click.option("--max-seconds", type=_POSITIVE, metavar="S", help="End after so much wall time.")
@click.option(
    "--max-gpu-seconds",
    type=_POSITIVE,
    metavar="S",
    help="End after so much GPU time, compiling baselines not counted.",
)
@click.option(
    "--max-tokens",
    type=click.IntRange(1),
    metavar="N",
    help="End before the model has used more, prompts and replies.",
)
@click.option(
    "--max-money",
    type=_POSITIVE,
    metavar="X",
    help="End before the model has cost more; needs --price.",
)
@click.option(
    "--floor",
    type=_POSITIVE,
    metavar="X",
    help="End when the best reaches this fraction of the floor. Default: 0.97.",
)
@click.option(
    "--rounds", type=click.IntRange(0), metavar="N", help="End after so many rounds. Default: 8."
)
@click.option(
    "--patience",
    type=click.IntRange(1),
    metavar="N",
    help="End after so many rounds in a row without gain. Default: 2.",
)
@click.option(
    "--width",
    type=click.IntRange(1),
    metavar="N",
    help="Candidates that survive a round. Default: 4.",
)
@click.option("--greedy", is_flag=True, help="Keep the best alone: a width of 1.")
@click.option(
    "--branching",
    type=click.IntRange(1),
    metavar="N",
    help="Proposals of a proposer for each survivor. Default: 2.",
)
@click.option(
    "--repairs",
    type=click.IntRange(0),
    metavar="N",
    help="Attempts to mend a proposal that fails. Default: 2.",
)
@click.option("--no-crossover", is_flag=True, help="Do not ask to combine the best two.")
@click.option("--no-retirement", is_flag=True, help="Keep technique families that stay behind.")
@click.option(
    "--baselines",
    metavar="NAMES",
    help="What the best is compared with, of eager, compile, max-autotune. Default: all; the last "
    "one compiles for up to a minute.",
)
@click.option(
    "--fresh-baselines", is_flag=True, help="Time baselines although their times are cached."
)
@click.option(
    "--no-confirm",
    is_flag=True,
    help="Leave out the last session, which times the best beside all baselines.",
)
@click.option("--no-knowledge", is_flag=True, help="Neither ask the index nor take its kernels.")
@click.option(
    "--exclude-source",
    "exclude_sources",
    multiple=True,
    metavar="NAME",
    help="Show nothing of this source of the index (repeatable).",
)
@click.option(
    "--context-tokens",
    type=click.IntRange(64),
    metavar="N",
    help="Of knowledge that a round retrieves. Default: 3000.",
)
@click.option(
    "--seed", type=int, metavar="N", default=0, help="Of the search's own chance. Default: 0."
)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
@click.pass_context
def optimize(ctx: click.Context, /, problem: Path | None, **options: Any) -> None:
    """Make a kernel for PROBLEM faster, prove it, and keep how.

    PROBLEM is a file in KernelBench's format (Model, get_inputs, get_init_inputs), or
    a folder of them: each gets a run in a folder of its own below --out.

    Evaluates the start; then, round by round: diagnoses the best, retrieves what
    the index knows about it, lets the proposers compete, judges what they propose,
    and keeps the best of each technique. At the end the best is timed once more,
    beside the start, eager PyTorch and torch.compile.

    Prints a table and writes a run folder: best.py, the best kernel, which runs by
    itself; report.html, what was tried and why it was kept or dropped; and all that
    --resume and `kb report` need. Where nothing is faster than the start beyond the
    noise, the start is given back; where torch.compile is faster than all that was
    found, best.py is the problem's own model, compiled.

    A model's key is read from OPENAI_API_KEY.
    """
    from agent.opening import opened  # noqa: PLC0415 (the optimizer's part)
    from agent.optimize.run import RunFolder, read_config  # noqa: PLC0415
    from agent.optimize.summary import render  # noqa: PLC0415

    session: Session = ctx.obj
    root: Path | None
    if options["batch"] is not None or is_batch(options["resume"]):
        optimize_batch(ctx, problem, options)
        return
    if is_sweep(problem, options["resume"]):
        optimize_folder(ctx, problem, options)
        return
    if options["ray"] is not None:
        raise click.UsageError("--ray takes a folder of problems")
    root = options["resume"]
    if root is not None:
        config = resumed(ctx, read_config(root), problem, options)
        _require_gpu(config)
        price = price_of(options["price"], config)
        folder = RunFolder.resume(root, config)
    else:
        config = begun(problem, options)
        _require_gpu(config)
        price = price_of(options["price"], config)
        root = options["out"] or default_folder(config.problem.stem)
        folder = RunFolder.create(root, config)
    progress = Printer()
    with folder:
        try:
            with opened(
                folder,
                session.index,
                specs=_specs(options["gpu_spec"]),
                price=price,
                progress=progress,
            ) as search:
                found = search.run()
        except KeyboardInterrupt:
            progress.clear()
            click.echo(f"kb: interrupted; continue with: kb optimize --resume {root}", err=True)
            ctx.exit(_INTERRUPTED)
        finally:
            progress.clear()
    click.echo(found.model_dump_json(indent=2) if options["as_json"] else render(found))
    _told(root)


def _told(root: Path) -> None:
    """Write the run's report; a run is not lost because its report cannot be written."""
    from agent.report.report import write_report  # noqa: PLC0415 (the optimizer's part)

    try:
        written = write_report(root)
    except (KbError, OSError) as error:
        click.echo(f"kb: no report was written: {error}; try: kb report {root}", err=True)
        return
    click.echo(f"report: {written.html}", err=True)


def _require_gpu(config: "RunConfig") -> None:
    """Say at once that there is no GPU, before anything is loaded or written."""
    from judge.profile.profiler import has_gpu  # noqa: PLC0415

    if config.interpret or config.replay_verdicts or has_gpu():
        return
    raise KbError(
        "no GPU was found; --interpret makes a dry run without one, which checks results at "
        "reduced sizes"
    )


def _specs(file: Path | None) -> "tuple[GpuSpec, ...]":
    from kb.gpus import load_specs  # noqa: PLC0415

    return load_specs(file) if file is not None else ()


class Printer:
    """Prints a line for each event; on a terminal, also what is being done, in a line that goes."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._shown = False

    def event(self, event: "Event") -> None:
        """A line, if the event has one."""
        from agent.optimize.progress import lines_of  # noqa: PLC0415

        self.clear()
        for line in lines_of(event):
            click.echo(line, err=True)

    def working(self, candidate: str, line: str) -> None:
        """What is being done to a candidate."""
        if not self._live:
            return
        width = shutil.get_terminal_size().columns - 1
        text = f"{candidate}: {' '.join(line.split())}"[:width]
        click.echo(f"\r\x1b[K{printable(text)}", drawn(sys.stderr), nl=False)
        self._shown = True

    def clear(self) -> None:
        """Take the line away."""
        if self._shown:
            click.echo("\r\x1b[K", drawn(sys.stderr), nl=False)
            self._shown = False


@click.command()
@click.argument("run", type=_FOLDER)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON instead.")
@click.option(
    "--custom-op",
    type=_FOLDER,
    metavar="DIR",
    help="Write the best kernel as a torch.library custom op instead: a package that can be "
    "imported, for models under torch.compile.",
)
def report(run: Path, *, as_json: bool, custom_op: Path | None) -> None:
    """Write the report of a run: report.html, report.md.

    The report shows contenders, convergence, every attempt with why it was kept or
    dropped, and the sources. It reads only the run folder, also during a run.
    """
    if custom_op is not None:
        from agent.optimize.custom_op import write_custom_op  # noqa: PLC0415

        click.echo(write_custom_op(run, custom_op))
        return
    if as_json:
        from agent.optimize.run import read_run  # noqa: PLC0415 (the optimizer's part)
        from agent.optimize.summary import summarise  # noqa: PLC0415

        config, record = read_run(run)
        if record.standing is None:
            raise KbError(f"the run in {run} has not evaluated its start yet: continue it")
        click.echo(summarise(config, record, run).model_dump_json(indent=2))
        return
    from agent.report.report import write_report  # noqa: PLC0415

    written = write_report(run)
    click.echo(f"{written.html}\n{written.markdown}")
