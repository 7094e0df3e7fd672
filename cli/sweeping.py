"""`kb optimize FOLDER`: a run for each problem, on the cards of a machine or of Ray."""

import importlib.util
import threading
from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.optimize_config import begun, default_folder, price_of, resumed
from kb.errors import KbError

if TYPE_CHECKING:
    from agent.cards.pool import CardPool
    from agent.optimize.config import RunConfig
    from agent.optimize.events import Event
    from agent.optimize.summary import Summary

CONFIG = "config.json"
_INTERRUPTED = 130


def problems_in(path: Path) -> list[tuple[str, Path]]:
    """(Name of its run folder, file) of all problems in a file or a folder.

    Raises
    ------
    KbError
        There is none.
    """
    from judge.problem.source import ProblemFile  # noqa: PLC0415

    if not path.is_dir():
        return [(path.stem, path)]
    found: list[tuple[str, Path]] = []
    for each in sorted(path.rglob("*.py")):
        try:
            ProblemFile.read(each)
        except KbError:
            continue
        found.append((str(each.relative_to(path).with_suffix("")), each))
    if not found:
        raise KbError(f"{path} holds no problem files (Model, get_inputs, get_init_inputs)")
    return found


def runs_in(root: Path) -> list[Path]:
    """The run folders below a folder."""
    return [path.parent for path in sorted(root.rglob(CONFIG))]


def is_sweep(problem: Path | None, resume: Path | None) -> bool:
    """Whether a folder of problems, or of runs, is named."""
    if resume is not None:
        return not (resume / CONFIG).exists() and bool(runs_in(resume))
    return problem is not None and problem.is_dir()


def again(root: Path, config: "RunConfig") -> "RunConfig":
    """The config that a run in `root` goes on with, where its command is given again: as it was
    begun, with the limits that are named now.

    Raises
    ------
    KbError
        It is a run on another file of this name.
    """
    from agent.optimize.run import read_config  # noqa: PLC0415

    if not (root / CONFIG).exists():
        return config
    known = read_config(root)
    if known.problem.sha256 != config.problem.sha256:
        raise KbError(f"{root} is a run on another file of this name: name another folder")
    return known.model_copy(update={"batch": config.batch, "limits": config.limits})


def optimize_folder(ctx: click.Context, problem: Path | None, options: dict[str, Any]) -> None:
    """Begin the runs of a folder of problems, or go on with those of --out or --resume."""
    from agent.cards.sweep import Runner, share  # noqa: PLC0415 (the optimizer's part)

    for name in ("kernel", "replay_verdicts", "device"):
        if options[name]:
            raise click.UsageError(f"--{name.replace('_', '-')} does not go with a folder")
    if options["resume"] is not None:
        root: Path = options["resume"]
        configs = {each: resumed(ctx, _config(each), problem, options) for each in runs_in(root)}
    else:
        assert problem is not None
        root = options["out"] or default_folder(problem.resolve().name)
        found = {root / name: file for name, file in problems_in(problem)}
        configs = {
            run: again(run, _first_card(begun(file, options))) for run, file in found.items()
        }
    config = next(iter(configs.values()))
    price = price_of(options["price"], config)
    done: dict[Path, Summary] = {}
    failed: dict[Path, str] = {}
    with _cards(options["ray"], interpret=config.interpret) as cards:
        runner = Runner(ctx.obj.index, cards, lambda run: _Lines(str(run.relative_to(root))))
        click.echo(f"{len(configs)} problems on {len(cards)} cards", err=True)

        def run(folder: Path) -> None:
            more = {"price": price, "specs": _specs(options["gpu_spec"])}
            try:
                done[folder] = runner.run(folder, configs[folder], **more).summary
            except KbError as error:
                failed[folder] = str(error)

        try:
            share(cards, list(configs), run)
        except KeyboardInterrupt:
            click.echo(f"kb: interrupted; continue with: kb optimize --resume {root}", err=True)
            ctx.exit(_INTERRUPTED)
        for why in cards.lost:
            click.echo(f"taken out: {why}", err=True)
    _print(root, done, failed, as_json=options["as_json"])
    if failed:
        again_with = f"kb optimize --resume {root}"
        raise KbError(f"{len(failed)} of {len(configs)} failed; continue with: {again_with}")


def _config(run: Path) -> "RunConfig":
    from agent.optimize.run import read_config  # noqa: PLC0415

    return read_config(run)


def _first_card(config: "RunConfig") -> "RunConfig":
    """Of those that a judging process sees, which is the one that it holds."""
    return config if config.interpret else config.model_copy(update={"device": "cuda:0"})


def _cards(address: str | None, *, interpret: bool) -> "AbstractContextManager[CardPool]":
    if address is None:
        from agent.cards.local import local_cards  # noqa: PLC0415

        return local_cards(interpret=interpret)
    if importlib.util.find_spec("ray") is None:
        raise KbError("--ray needs Ray: install it with `pip install 'kernel-kb[ray]'`")
    from agent.cards.cluster import cluster_cards  # noqa: PLC0415 (loads Ray)

    return cluster_cards(address, interpret=interpret)


def _specs(file: Path | None) -> Any:
    from kb.gpus import load_specs  # noqa: PLC0415

    return load_specs(file) if file is not None else ()


class _Lines:
    """Prints what happens in one of several runs."""

    _printing = threading.Lock()

    def __init__(self, name: str) -> None:
        self._name = name

    def event(self, event: "Event") -> None:
        """A line, if the event has one."""
        from agent.optimize.progress import lines_of  # noqa: PLC0415

        for line in lines_of(event):
            self.say(line)

    def working(self, candidate: str, line: str) -> None:
        """Nothing: lines of several runs would run into each other."""

    def say(self, line: str) -> None:
        """A line that names the run."""
        with self._printing:
            click.echo(f"{self._name}: {line}", err=True)


def _print(
    root: Path, done: "dict[Path, Summary]", failed: dict[Path, str], *, as_json: bool
) -> None:
    """A line for each run, and how often something was found, by card."""
    if as_json:
        for folder in sorted(done):
            click.echo(done[folder].model_dump_json())
        return
    for folder in sorted([*done, *failed]):
        name = folder.relative_to(root)
        told = _told(done[folder]) if folder in done else f"failed: {failed[folder]}"
        click.echo(f"{name}: {told}")
    click.echo(f"Runs: {root}")


def _told(summary: "Summary") -> str:
    if summary.dry:
        return f"{summary.right} of {summary.judged} candidates right; a dry run has no times"
    ratios: Iterable[str] = (
        f"{row.ratio:.2f}x {row.name}" for row in summary.rows if row.ratio is not None
    )
    best = summary.best.outcome.median_ms
    told = f"{best:.4g} ms" if best is not None else "not timed"
    return f"{summary.gpu}, {told}: {', '.join(ratios) or 'nothing faster than the start'}"
