"""The commands that make a kernel faster and tell how: `kb optimize`, `kb report`."""

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli import Session
from cli.batching import is_batch, optimize_batch
from cli.optimize_config import default_folder, new_config, price_of, resume_config, specs_of
from cli.options import baselines_option, dtype_option, flag, value
from cli.sweeping import INTERRUPTED, is_sweep, optimize_folder
from cli.terminal import raw_stream
from kb.errors import KbError
from kb.printable import printable

if TYPE_CHECKING:
    from agent.optimize.config import RunConfig
    from agent.optimize.events import Event

_FILE = click.Path(path_type=Path, dir_okay=False)
_FOLDER = click.Path(path_type=Path, file_okay=False)
_POSITIVE = click.FloatRange(0, min_open=True)


@click.command()
@click.argument("problem", type=click.Path(path_type=Path), required=False)
@click.option("--kernel", type=_FILE, help="Start from this kernel file. Default: eager PyTorch.")
@value("--out", "DIR", "Folder of the run, or of all runs. Default: kb-runs/PROBLEM-TIME.", _FOLDER)
@value(
    "--resume",
    "RUN",
    "Continue the run, or the runs, in this folder. Only limits and the model can change.",
    _FOLDER,
)
@value(
    "--proposers",
    "NAMES",
    "Proposers to use: tune (meta-parameters), recipe (kernels from the index), llm. "
    "Default: tune,recipe, plus llm if --model is given.",
)
@value(
    "--model",
    "NAME",
    "Use this language model as a proposer. replay:RUN replays the replies of a recorded run.",
)
@value("--base-url", "URL", "The model's OpenAI-compatible endpoint.")
@value(
    "--price",
    "IN,OUT",
    "The model's price per million prompt tokens and per million reply tokens, such as "
    "1.25,10; or a YAML file: models: {NAME: {input: 1.25, output: 10}}.",
)
@value(
    "--batch",
    "DIR",
    "Write the model's requests to DIR/requests.jsonl (OpenAI's Batch format), read replies "
    "from DIR/results.jsonl, and keep the runs in DIR/runs. Continue with --resume DIR.",
    _FOLDER,
)
@value("--gpu", "NAME", "Target GPU, if this machine does not have it.")
@flag(
    "--replay-verdicts",
    "With replay:RUN: also take verdicts and times from that run. Needs no GPU.",
)
@dtype_option
@flag("--tf32", "Allow TF32 in float32 matrix products, for all contenders.")
@value("--device", "cuda:N", "Use this GPU. Default: all GPUs of the same model as the first.")
@value(
    "--ray",
    "ADDRESS",
    "Run a folder of problems on all GPUs of the Ray cluster at HOST:PORT, or of the cluster "
    "that this machine belongs to (auto). Default: this machine's GPUs.",
)
@click.option(
    "--gpu-spec",
    type=_FILE,
    help="YAML file with the specification of a GPU that kb does not know.",
)
@flag("--interpret", "Dry run without a GPU: correctness only, in Triton's interpreter.")
@flag("--trust", "Run even if the sandbox is incomplete on this machine.")
@value("--max-seconds", "S", "Stop after this much wall time.", _POSITIVE)
@value(
    "--max-gpu-seconds",
    "S",
    "Stop after this much GPU time. Compiling baselines is not counted.",
    _POSITIVE,
)
@value(
    "--max-tokens",
    "N",
    "Stop before the model uses more tokens (prompts and replies).",
    click.IntRange(1),
)
@value("--max-money", "X", "Stop before the model costs more. Needs --price.", _POSITIVE)
@value(
    "--floor",
    "X",
    "Stop when the floor (the least time that a roofline allows) is this fraction of the "
    "best kernel's time. Default: 0.97.",
    _POSITIVE,
)
@value("--rounds", "N", "Stop after this many rounds. Default: 8.", click.IntRange(0))
@value(
    "--patience",
    "N",
    "Stop after this many rounds in a row without a gain. Default: 2.",
    click.IntRange(1),
)
@value(
    "--width", "N", "Beam width: candidates that survive a round. Default: 4.", click.IntRange(1)
)
@flag("--greedy", "Keep only the best candidate: a width of 1.")
@value("--branching", "N", "Proposals per proposer and survivor. Default: 2.", click.IntRange(1))
@value("--repairs", "N", "Attempts to repair a failing proposal. Default: 2.", click.IntRange(0))
@flag("--no-crossover", "Do not ask for combinations of the best two candidates.")
@flag("--no-retirement", "Keep technique families that fall behind.")
@baselines_option
@flag("--fresh-baselines", "Time baselines again even if their times are cached.")
@flag("--no-confirm", "Skip the last session, which times the best kernel against all baselines.")
@flag("--profile", "Profile the best kernels. Default: only with --model, which reads profiles.")
@flag("--no-knowledge", "Do not use the index or its kernels.")
@click.option(
    "--exclude-source",
    "exclude_sources",
    multiple=True,
    metavar="NAME",
    help="Exclude this source of the index (repeatable).",
)
@value(
    "--context-tokens",
    "N",
    "Tokens of knowledge to retrieve in each round. Default: 3000.",
    click.IntRange(64),
)
@value("--seed", "N", "Random seed of the search. Default: 0.", int, default=0)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
@click.pass_context
def optimize(ctx: click.Context, /, problem: Path | None, **options: Any) -> None:
    """Search for a faster kernel, and prove that it is faster.

    PROBLEM is a file in KernelBench's format (Model, get_inputs, get_init_inputs), or
    a folder of such files. Each file of a folder gets its own run below --out.

    A run first evaluates its start: --kernel, or eager PyTorch. Each round then
    diagnoses the best kernel (with --model from a profile), retrieves what the index
    knows about its bottleneck, asks the proposers, judges their proposals, and keeps
    the best of each technique. A last session times the best kernel against the
    start, eager PyTorch and torch.compile.

    Prints a table and writes a run folder. best.py is the best kernel and runs by
    itself. report.html shows what was tried and why it was kept or dropped. If
    nothing is significantly faster than the start, best.py is the start; if
    torch.compile is faster than every candidate, best.py is the compiled model.

    The model's key is read from OPENAI_API_KEY.
    """
    from agent.opening import open_search
    from agent.optimize.run import RunFolder, read_config
    from agent.optimize.summary import render

    session: Session = ctx.obj
    root: Path | None
    if options["batch"] is not None or is_batch(options["resume"]):
        optimize_batch(ctx, problem, options)
        return
    if is_sweep(problem, options["resume"]):
        optimize_folder(ctx, problem, options)
        return
    if options["ray"] is not None:
        raise click.UsageError("--ray needs a folder of problems")
    root = options["resume"]
    if root is not None:
        config = resume_config(ctx, read_config(root), problem, options)
        _require_gpu(config)
        price = price_of(options["price"], config)
        folder = RunFolder.resume(root, config)
    else:
        config = new_config(problem, options)
        _require_gpu(config)
        price = price_of(options["price"], config)
        root = options["out"] or default_folder(config.problem.stem)
        folder = RunFolder.create(root, config)
        _echo_known_lines(config)
    progress = Printer()
    with folder:
        try:
            with open_search(
                folder,
                session.index,
                specs=specs_of(options["gpu_spec"]),
                price=price,
                progress=progress,
            ) as search:
                summary = search.run()
        except KeyboardInterrupt:
            progress.clear()
            click.echo(f"kb: interrupted; continue with: kb optimize --resume {root}", err=True)
            ctx.exit(INTERRUPTED)
        finally:
            progress.clear()
    click.echo(summary.model_dump_json(indent=2) if options["as_json"] else render(summary))
    _write_report(root)


def _write_report(root: Path) -> None:
    """Write the run's report; a run is not lost because its report cannot be written."""
    from agent.report.report import write_report

    try:
        files = write_report(root)
    except (KbError, OSError) as error:
        click.echo(f"kb: no report was written: {error}; try: kb report {root}", err=True)
        return
    click.echo(f"report: {files.html}", err=True)


def _echo_known_lines(config: "RunConfig") -> None:
    """Say what the problem's text tells, which takes no GPU: starting one takes half a minute."""
    from kb.problems.plan import fact_sheet

    lines = fact_sheet(config.problem.source, config.problem.stem, config.dtype, None)
    # The third is the floor, which is told once the card is known.
    for line in (*lines[:2], *lines[3:]):
        click.echo(line, err=True)


def _require_gpu(config: "RunConfig") -> None:
    """Say at once that there is no GPU, before anything is loaded or written."""
    from judge.profile.profiler import has_gpu

    if config.interpret or config.replay_verdicts or has_gpu():
        return
    raise KbError(
        "no GPU was found; --interpret makes a dry run without one: it checks results at "
        "reduced sizes"
    )


class Printer:
    """Prints a line for each event; on a terminal, also what is being done, in a line that goes."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._shown = False

    def event(self, event: "Event") -> None:
        """A line, if the event has one."""
        from agent.optimize.progress import lines_of

        self.clear()
        for line in lines_of(event):
            click.echo(line, err=True)

    def working(self, candidate: str, line: str) -> None:
        """What is being done to a candidate."""
        if not self._live:
            return
        width = shutil.get_terminal_size().columns - 1
        text = f"{candidate}: {' '.join(line.split())}"[:width]
        click.echo(f"\r\x1b[K{printable(text)}", raw_stream(sys.stderr), nl=False)
        self._shown = True

    def clear(self) -> None:
        """Take the line away."""
        if self._shown:
            click.echo("\r\x1b[K", raw_stream(sys.stderr), nl=False)
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
    """Write report.html and report.md for a run.

    The report shows the contenders, convergence, and every attempt with the reason
    why it was kept or dropped. It reads only the run folder, and works during a run.
    """
    if custom_op is not None:
        from agent.optimize.custom_op import write_custom_op

        click.echo(write_custom_op(run, custom_op))
        return
    if as_json:
        from agent.optimize.run import read_run
        from agent.optimize.summary import summarise

        config, record = read_run(run)
        if record.standing is None:
            raise KbError(f"the run in {run} has not evaluated its start yet: continue it")
        click.echo(summarise(config, record, run).model_dump_json(indent=2))
        return
    from agent.report.report import write_report

    files = write_report(run)
    click.echo(f"{files.html}\n{files.markdown}")
