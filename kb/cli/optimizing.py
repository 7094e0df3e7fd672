"""The commands that make a kernel faster and tell how: `kb optimize`, `kb report`."""

import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kb.cli import Session
from kb.cli.dtypes import dtype_option
from kb.errors import KbError

if TYPE_CHECKING:
    from agent.optimize.candidate import Proposal
    from agent.optimize.config import Limits, RunConfig
    from agent.optimize.events import Event
    from kb.gpus import GpuSpec

_FILE = click.Path(path_type=Path, dir_okay=False)
_FOLDER = click.Path(path_type=Path, file_okay=False)
_LIMITS = {
    "rounds": "rounds",
    "max_seconds": "seconds",
    "max_gpu_seconds": "gpu_seconds",
    "max_tokens": "tokens",
    "max_money": "money",
    "floor": "floor_target",
}
# What a resumed run may be given anew; the rest is as it was begun.
_RESUMABLE = {*_LIMITS, "resume", "model", "base_url", "price", "gpu_spec", "as_json"}
_INTERRUPTED = 130


@click.command()
@click.argument("problem", type=_FILE, required=False)
@click.option("--kernel", type=_FILE, help="Start from this kernel. Default: eager PyTorch.")
@click.option("--out", type=_FOLDER, help="Run folder. Default: kb-runs/PROBLEM-TIME.")
@click.option("--resume", type=_FOLDER, metavar="RUN", help="Continue a run.")
@click.option("--model", metavar="NAME", help="Let a language model propose; or replay:RUN.")
@click.option("--base-url", metavar="URL", help="Its OpenAI-compatible endpoint.")
@click.option("--price", metavar="IN,OUT", help="Of the model, per million tokens.")
@click.option(
    "--proposers",
    metavar="NAMES",
    help="Which compete, such as tune,recipe. Default: all; llm with --model.",
)
@dtype_option
@click.option("--device", metavar="cuda:N", help="One GPU. Default: all of the first one's kind.")
@click.option("--tf32", is_flag=True, help="Allow TF32 in float32 products, to all contenders.")
@click.option(
    "--interpret",
    is_flag=True,
    help="Dry run without a GPU: correctness only, in Triton's interpreter.",
)
@click.option("--trust", is_flag=True, help="Run although the sandbox lacks layers here.")
@click.option("--rounds", type=click.IntRange(0), help="At most so many. Default: 8.")
@click.option("--width", type=click.IntRange(1), help="Survivors of a round. Default: 4.")
@click.option("--branching", type=click.IntRange(1), help="Proposals per survivor. Default: 2.")
@click.option("--greedy", is_flag=True, help="Keep the best alone: a width of 1.")
@click.option("--repairs", type=click.IntRange(0), help="Per proposal. Default: 2.")
@click.option("--patience", type=click.IntRange(1), help="Rounds without gain. Default: 2.")
@click.option("--no-crossover", is_flag=True, help="Do not ask to combine the best two.")
@click.option("--no-retirement", is_flag=True, help="Keep families that stay behind.")
@click.option("--no-confirm", is_flag=True, help="No last session of the best and all baselines.")
@click.option("--fresh-baselines", is_flag=True, help="Time baselines although they are cached.")
@click.option("--max-seconds", type=click.FloatRange(0, min_open=True), help="Wall time.")
@click.option("--max-gpu-seconds", type=click.FloatRange(0, min_open=True), help="GPU time.")
@click.option("--max-tokens", type=click.IntRange(1), help="Of prompts and replies.")
@click.option("--max-money", type=click.FloatRange(0, min_open=True), help="In --price's currency.")
@click.option("--floor", type=click.FloatRange(0, min_open=True), help="End at this fraction.")
@click.option("--context-tokens", type=click.IntRange(64), help="Of a round. Default: 3000.")
@click.option("--gpu-spec", type=_FILE, metavar="FILE", help="YAML with a further card.")
@click.option("--replay-verdicts", is_flag=True, help="With replay:RUN: needs no GPU.")
@click.option("--seed", type=int, default=0, help="Of the search's own chance. Default: 0.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
@click.pass_context
def optimize(ctx: click.Context, /, problem: Path | None, **options: Any) -> None:
    """Make a kernel for PROBLEM faster, prove it, and keep how.

    Evaluates the start and the baselines; then, round by round: profiles and
    diagnoses the best, retrieves what the index knows about it, lets the proposers
    compete, judges what they propose, and keeps the best of each technique. Ends
    with a table, and a run folder that can be continued with --resume and told by
    `kb report`. The best kernel is in the run folder as best.py.

    Where nothing is faster than the start beyond the noise, the start is given
    back. A model's key is read from OPENAI_API_KEY.
    """
    from agent.optimize.opening import opened  # noqa: PLC0415 (the optimizer's part)
    from agent.optimize.run import RunFolder, read_config  # noqa: PLC0415
    from agent.optimize.summary import render  # noqa: PLC0415

    session: Session = ctx.obj
    root: Path | None = options["resume"]
    if root is not None:
        config = _resumed(ctx, read_config(root), problem, options)
        _require_gpu(config)
        folder = RunFolder.resume(root, config)
    else:
        config = _begun(problem, options)
        _require_gpu(config)
        root = options["out"] or _default_folder(config.problem.stem)
        folder = RunFolder.create(root, config)
    progress = _Printer()
    with folder:
        try:
            with opened(
                folder,
                session.index,
                specs=_specs(options["gpu_spec"]),
                price=_price(options["price"]),
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


def _begun(problem: Path | None, options: dict[str, Any]) -> "RunConfig":
    """Config of a new run."""
    from agent.optimize.config import REPLAY, RunConfig, Strategy  # noqa: PLC0415
    from agent.optimize.opening import LLM, NAMES  # noqa: PLC0415
    from agent.optimize.run import read_config  # noqa: PLC0415

    model: str | None = options["model"]
    recorded = None
    if model is not None and model.startswith(REPLAY):
        recorded = read_config(Path(model.removeprefix(REPLAY)).expanduser())
    if options["replay_verdicts"]:
        if recorded is None:
            raise click.UsageError("--replay-verdicts needs --model replay:RUN")
        if problem is None:
            # Everything is as it was, but for where replies come from.
            update = {"model": model, "base_url": None, "replay_verdicts": True}
            return recorded.model_copy(update=update)
    if problem is None:
        raise click.UsageError("Missing argument 'PROBLEM'.")
    if options["base_url"] is not None and model is None:
        raise click.UsageError("--base-url needs --model")
    if options["greedy"] and options["width"] not in (None, 1):
        raise click.UsageError("--greedy is a width of 1: leave --width out")
    names = [each.strip() for each in (options["proposers"] or "").split(",") if each.strip()]
    if not names:
        names = [each for each in NAMES if each != LLM or model is not None]
    if unknown := [each for each in names if each not in NAMES]:
        raise click.UsageError(f"no proposer '{unknown[0]}': there are {', '.join(NAMES)}")
    if LLM in names and model is None:
        raise click.UsageError("the proposer llm needs --model")
    strategy = {
        "width": 1 if options["greedy"] else options["width"],
        "branching": options["branching"],
        "repairs": options["repairs"],
        "patience": options["patience"],
        "crossover": not options["no_crossover"],
        "retirement": not options["no_retirement"],
        "confirm": not options["no_confirm"],
    }
    info, start = _read(problem, options["kernel"])
    more = {"context_tokens": options["context_tokens"]}
    return RunConfig(
        problem=info,
        given=start is not None,
        start=start,
        dtype=options["dtype"],
        tf32=options["tf32"],
        device=options["device"],
        interpret=options["interpret"],
        trust=options["trust"],
        fresh_baselines=options["fresh_baselines"],
        proposers=tuple(dict.fromkeys(names)),
        model=model,
        base_url=options["base_url"],
        replay_verdicts=options["replay_verdicts"],
        seed=options["seed"],
        limits=_limits(options),
        strategy=Strategy.model_validate({k: v for k, v in strategy.items() if v is not None}),
        **{name: value for name, value in more.items() if value is not None},
    )


def _resumed(
    ctx: click.Context, config: "RunConfig", problem: Path | None, options: dict[str, Any]
) -> "RunConfig":
    """Config of a run that goes on, with what was given anew."""
    said = {
        name
        for name in options
        if ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
    }
    if problem is not None or (said := said - _RESUMABLE):
        named = "PROBLEM" if problem is not None else f"--{min(said).replace('_', '-')}"
        raise click.UsageError(f"{named} cannot be changed: --resume goes on as the run was begun")
    update: dict[str, Any] = {"limits": _limits(options, config.limits)}
    for name in ("model", "base_url"):
        if options[name] is not None:
            update[name] = options[name]
    if options["model"] is not None and "llm" not in config.proposers:
        update["proposers"] = (*config.proposers, "llm")
    return config.model_copy(update=update)


def _limits(options: dict[str, Any], before: "Limits | None" = None) -> "Limits":
    from agent.optimize.config import Limits  # noqa: PLC0415

    chosen = {field: options[name] for name, field in _LIMITS.items() if options[name] is not None}
    return Limits.model_validate((before or Limits()).model_dump() | chosen)


def _read(problem: Path, kernel: Path | None) -> "tuple[Any, Proposal | None]":
    """The problem, and the kernel to start from."""
    from agent.optimize.candidate import ProblemInfo, Proposal  # noqa: PLC0415
    from agent.problem.kernel import KernelFile  # noqa: PLC0415
    from agent.problem.source import ProblemFile  # noqa: PLC0415

    file = ProblemFile.read(problem)
    info = ProblemInfo(name=problem.name, source=file.text, sha256=file.sha256)
    if kernel is None:
        return info, None
    found = KernelFile.read(kernel)
    return info, Proposal(
        source=found.text,
        proposer="start",
        family="baseline",
        suffix=".cu" if found.entry is not None else ".py",
        note=kernel.name,
    )


def _require_gpu(config: "RunConfig") -> None:
    """Say at once that there is no GPU, before anything is loaded or written."""
    from agent.profile.profiler import has_gpu  # noqa: PLC0415

    if config.interpret or config.replay_verdicts or has_gpu():
        return
    raise KbError(
        "no GPU was found; --interpret makes a dry run without one, which checks results at "
        "reduced sizes"
    )


def _default_folder(stem: str) -> Path:
    return Path("kb-runs") / f"{stem}-{datetime.now(UTC):%Y%m%d-%H%M%S}"


def _specs(file: Path | None) -> "tuple[GpuSpec, ...]":
    from kb.gpus import load_specs  # noqa: PLC0415

    return load_specs(file) if file is not None else ()


def _price(text: str | None) -> Any:
    from agent.llm.accounting import parse_price  # noqa: PLC0415

    return parse_price(text) if text is not None else None


class _Printer:
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
        click.echo(f"\r\x1b[K{text}", err=True, nl=False)
        self._shown = True

    def clear(self) -> None:
        """Take the line away."""
        if self._shown:
            click.echo("\r\x1b[K", err=True, nl=False)
            self._shown = False


@click.command()
@click.argument("run", type=_FOLDER)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON instead.")
def report(run: Path, *, as_json: bool) -> None:
    """Write the report of a RUN folder: report.html and report.md in it.

    All of it comes from the run folder, also while the run goes on: contenders,
    convergence, what was tried and why it was kept or dropped, and the sources.
    """
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
