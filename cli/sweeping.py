"""`kb optimize FOLDER`: a run for each problem, on the cards of a machine or of Ray."""

import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.optimize_config import default_folder, new_config, price_of, resume_config, specs_of
from kb.errors import KbError
from kb.ray_cluster import require_ray

if TYPE_CHECKING:
    from agent.cards.pool import CardPool
    from agent.endpoint.batch import BatchFolder
    from agent.optimize.config import RunConfig
    from agent.optimize.events import Event
    from agent.optimize.summary import Summary

CONFIG = "config.json"
DONE, WAITING, NEEDS_GPU, FAILED = "done", "waiting", "need a GPU", "failed"
INTERRUPTED = 130


def _problems_in(path: Path) -> list[tuple[str, Path]]:
    """(Name of its run folder, file) of all problems in a file or a folder.

    Raises
    ------
    KbError
        There is none.
    """
    from judge.problem.source import ProblemFile

    if not path.is_dir():
        return [(path.stem, path)]
    problems: list[tuple[str, Path]] = []
    for file in sorted(path.rglob("*.py")):
        try:
            ProblemFile.read(file)
        except KbError:
            continue
        problems.append((str(file.relative_to(path).with_suffix("")), file))
    if not problems:
        raise KbError(f"{path} contains no problem files (Model, get_inputs, get_init_inputs)")
    return problems


def runs_in(root: Path) -> list[Path]:
    """The run folders below a folder."""
    return [path.parent for path in sorted(root.rglob(CONFIG))]


def is_sweep(problem: Path | None, resume: Path | None) -> bool:
    """Whether a folder of problems, or of runs, is named."""
    if resume is not None:
        return not (resume / CONFIG).exists() and bool(runs_in(resume))
    return problem is not None and problem.is_dir()


def runs_on(
    problem: Path, root: Path, options: dict[str, Any], **update: Any
) -> "dict[Path, RunConfig]":
    """Configs of the runs on a file or a folder of problems, by run folder below `root`.

    Where the command is given again, a run is as it was begun, with the limits that are named now.

    Raises
    ------
    KbError
        There is no problem, or a run is on another file of this name.
    """
    from agent.optimize.run import read_config

    runs: dict[Path, RunConfig] = {}
    for name, file in _problems_in(problem):
        run, config = root / name, new_config(file, options).model_copy(update=update)
        if (run / CONFIG).exists():
            earlier = read_config(run)
            if earlier.problem.sha256 != config.problem.sha256:
                raise KbError(f"{run} is a run of another file of this name: use another folder")
            config = earlier.model_copy(update={"batch": config.batch, "limits": config.limits})
        runs[run] = config
    return runs


def optimize_folder(ctx: click.Context, problem: Path | None, options: dict[str, Any]) -> None:
    """Begin the runs of a folder of problems, or go on with those of --out or --resume."""
    from agent.optimize.run import read_config

    for name in ("kernel", "replay_verdicts", "device"):
        if options[name]:
            raise click.UsageError(f"--{name.replace('_', '-')} cannot be used with a folder")
    if options["resume"] is not None:
        root: Path = options["resume"]
        runs = {
            run: resume_config(ctx, read_config(run), problem, options) for run in runs_in(root)
        }
    else:
        assert problem is not None
        root = options["out"] or default_folder(problem.resolve().name)
        runs = runs_on(problem, root, options)
    states = sweep(ctx, root, runs, options)
    click.echo(f"Runs: {root}", err=options["as_json"])
    if states.count(DONE) < len(states):
        rest = len(states) - states.count(DONE)
        raise KbError(f"{rest} of {len(states)} failed; continue with: kb optimize --resume {root}")


def sweep(
    ctx: click.Context,
    root: Path,
    runs: "Mapping[Path, RunConfig]",
    options: dict[str, Any],
    *,
    batch: "BatchFolder | None" = None,
    away: bool = False,
) -> list[str]:
    """Go on with runs, one on each card at a time, and print what came of each.

    Parameters
    ----------
    root
        What `--resume` goes on with.
    runs
        Configs by run folder.
    batch, away
        See `agent.opening.open_search`.

    Returns
    -------
    list of str
        The state of each run: `DONE`, `WAITING`, `NEEDS_GPU` or `FAILED`.
    """
    from agent.cards.pool import CardPool
    from agent.cards.sweep import Runner, run_all
    from agent.optimize.run import RunFolder
    from agent.pause import NeedsGpuError, WaitingError

    specs = specs_of(options["gpu_spec"])
    prices = {run: price_of(options["price"], config) for run, config in runs.items()}
    dry = any(config.interpret for config in runs.values())
    states: dict[Path, str] = {}
    with CardPool([]) if away else _cards(options["ray"], interpret=dry) as cards:
        runner = Runner(ctx.obj.index, cards, lambda run: _Lines(_name(run, root)))

        def go_on(run: Path) -> None:
            more = {"price": prices[run], "specs": specs, "batch": batch, "away": away}
            try:
                summary = runner.run(run, runs[run], **more).summary
            except WaitingError:
                states[run] = WAITING
            except NeedsGpuError as error:
                states[run] = NEEDS_GPU
                if not away:
                    click.echo(f"{_name(run, root)}: {error}", err=True)
            except KbError as error:
                if cards.is_cancelled:  # Ctrl-C
                    return
                states[run] = FAILED
                click.echo(f"{_name(run, root)}: failed: {error}", err=True)
            else:
                states[run] = DONE
                line = f"{_name(run, root)}: {_summary_line(summary)}"
                click.echo(summary.model_dump_json() if options["as_json"] else line)

        if not away:
            kind = "CPUs" if dry else "GPUs"
            click.echo(f"{len(runs)} problems on {len(cards)} {kind}", err=True)
        for run, config in runs.items():  # so that --resume finds those that are not begun
            if not (run / CONFIG).exists():
                RunFolder.create(run, config).close()
        try:
            run_all(cards, list(runs), go_on)
        except KeyboardInterrupt:
            click.echo(f"kb: interrupted; continue with: kb optimize --resume {root}", err=True)
            ctx.exit(INTERRUPTED)
        for why in cards.lost:
            click.echo(f"removed: {why}", err=True)
    return list(states.values())


def _name(run: Path, root: Path) -> str:
    """A run's name for people: its place below the folder of all runs."""
    return str(run.relative_to(root)) if run != root and run.is_relative_to(root) else run.name


def _cards(address: str | None, *, interpret: bool) -> "AbstractContextManager[CardPool]":
    if address is None:
        from agent.cards.local import local_cards

        return local_cards(interpret=interpret)
    require_ray()
    from agent.cards.cluster import cluster_cards

    return cluster_cards(address, interpret=interpret)


class _Lines:
    """Prints what happens in one of several runs."""

    _printing = threading.Lock()

    def __init__(self, name: str) -> None:
        self._name = name

    def event(self, event: "Event") -> None:
        """A line, if the event has one."""
        from agent.optimize.progress import lines_of

        for line in lines_of(event):
            with self._printing:
                click.echo(f"{self._name}: {line}", err=True)

    def working(self, candidate: str, line: str) -> None:
        """Nothing: lines of several runs would run into each other."""


def _summary_line(summary: "Summary") -> str:
    if summary.dry:
        return f"{summary.right} of {summary.judged} candidates right; a dry run has no times"
    ratios = [f"{row.ratio:.2f}x {row.name}" for row in summary.rows if row.ratio is not None]
    best = summary.best.outcome.median_ms
    time = f"{best:.4g} ms" if best is not None else "not timed"
    return f"{summary.gpu}, {time}: {', '.join(ratios) or 'nothing faster than the start'}"
