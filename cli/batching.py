"""`kb optimize --batch` and `kb batch`: runs whose requests to a model are files.

Every run goes on until it needs a reply or a GPU that is not here; the others go on meanwhile.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.optimize_config import resume_config
from cli.sweeping import CONFIG, DONE, FAILED, NEEDS_GPU, WAITING, runs_in, runs_on, sweep
from kb.errors import KbError

if TYPE_CHECKING:
    from agent.endpoint.batch import BatchFolder

RUNS = "runs"
# Batches take minutes to hours.
_POLL_S = 30.0


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option("--base-url", metavar="URL", help="An endpoint with OpenAI's Batch API.")
@click.option("--wait", is_flag=True, help="Poll every 30 seconds until all replies have arrived.")
def batch(folder: Path, base_url: str | None, wait: bool) -> None:
    """Send the requests in FOLDER to a Batch API; fetch the replies.

    FOLDER is the folder given to `kb optimize --batch`. `kb optimize --resume FOLDER`
    continues with the replies. No request is sent twice, even if this command is
    killed. The key is read from OPENAI_API_KEY.
    """
    from agent.endpoint.batch import BatchFolder
    from agent.endpoint.batch_client import BatchClient
    from agent.endpoint.client import Endpoint

    endpoint = Endpoint("batch", base_url)
    try:
        client = BatchClient(BatchFolder(folder), endpoint.client)
        while (lines := client.step()) and wait:
            time.sleep(_POLL_S)
    finally:
        endpoint.close()
    for line in (*lines, *_waiting_lines(BatchFolder(folder))):
        click.echo(line)
    if not lines:
        click.echo(f"all replies have arrived; continue with: kb optimize --resume {folder}")


def is_batch(root: Path | None) -> bool:
    """Whether a folder holds requests and runs, or is a run whose requests are files."""
    from agent.optimize.run import read_config

    if root is None:
        return False
    if (root / CONFIG).exists():
        config = read_config(root)
        return config.batch is not None and config.replayed is None
    return (root / RUNS).is_dir()


def optimize_batch(ctx: click.Context, problem: Path | None, options: dict[str, Any]) -> None:
    """Begin runs on a problem or a folder of them, or go on with those of a batch folder."""
    from agent.endpoint.batch import BatchFolder
    from agent.optimize.run import read_config
    from judge.profile.profiler import has_gpu

    for name in ("replay_verdicts", "out"):
        if options[name]:
            raise click.UsageError(f"--batch and --{name.replace('_', '-')} cannot be combined")
    alone = options["resume"] is not None and (options["resume"] / CONFIG).exists()
    root: Path = options["batch"] or _folder_of(options["resume"], alone=alone)
    resuming = options["resume"] is not None
    if resuming and problem is not None:
        raise click.UsageError("PROBLEM cannot be changed: --resume continues runs as started")
    if not resuming and options["model"] is None:
        raise click.UsageError("--batch needs --model")
    folder = BatchFolder(root)
    for note in folder.notes:
        click.echo(f"kb: note: {note}", err=True)
    away = not (options["interpret"] or has_gpu())
    update: dict[str, Any] = {"batch": str(root)}
    if resuming:
        roots = [options["resume"]] if alone else runs_in(options["resume"] / RUNS)
        runs = {
            run: resume_config(ctx, read_config(run), None, options).model_copy(update=update)
            for run in roots
        }
    else:
        if problem is None:
            raise click.UsageError("Missing argument 'PROBLEM'.")
        if away and options["gpu"] is None:
            raise KbError(
                "no GPU was found: name the target GPU, such as --gpu H200, to make the first "
                "requests without measurements"
            )
        update["plan_first"] = away  # the first round is then planned from what can be read
        runs = runs_on(problem, root / RUNS, options, **update)
    if not runs:
        raise KbError(f"{options['resume']} contains no runs")
    away = away and not any(config.interpret for config in runs.values())
    _print_states(folder, sweep(ctx, root, runs, options, batch=folder, away=away))


def _folder_of(root: Path, *, alone: bool) -> Path:
    """The folder of requests that is resumed, or that of one run."""
    from agent.endpoint.batch import LOCK
    from agent.optimize.run import read_config

    if not alone:
        return root
    # Carried from another machine, the run lies below its folder, whatever the config says.
    for parent in root.resolve().parents:
        if (parent / LOCK).exists():
            return parent
    return Path(read_config(root).batch or root).expanduser()


def _print_states(folder: "BatchFolder", states: list[str]) -> None:
    counts = {state: states.count(state) for state in (DONE, WAITING, NEEDS_GPU, FAILED)}
    if len(states) > 1:
        parts = [f"{count} {state}" for state, count in counts.items() if count]
        click.echo(f"{len(states)} runs: {', '.join(parts)}")
    if counts[NEEDS_GPU]:
        click.echo(f"continue on a machine with a GPU: kb optimize --resume {folder.root}")
    for line in _waiting_lines(folder):
        click.echo(line)


def _waiting_lines(folder: "BatchFolder") -> Iterator[str]:
    if not folder.waiting:
        return
    root, sent = folder.root, folder.waiting - folder.unsent
    where = f"{folder.unsent} unsent, in {root / 'requests.jsonl'}" if folder.unsent else ""
    before = f"{sent} sent, in {root / 'sent'}" if sent else ""
    yield (
        f"waiting for {folder.waiting} {'reply' if folder.waiting == 1 else 'replies'}: "
        f"{', '.join(part for part in (where, before) if part)}"
    )
    yield f"write the replies to {root / 'results.jsonl'}, then: kb optimize --resume {root}"
