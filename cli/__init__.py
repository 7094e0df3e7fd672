"""The `kb` command: the composition root, which loads each part only when its command runs."""

import errno
import importlib
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import click

import kb
from cli.terminal import protect
from judge.memory import advised
from kb.errors import KbError
from kb.index.layout import default_index_dir

# Command → the module of this package that defines it.
_COMMANDS = {
    "ingest": "writing",
    "sources": "reading",
    "remove": "writing",
    "query": "reading",
    "context": "reading",
    "tree": "reading",
    "show": "reading",
    "stats": "reading",
    "doctor": "upkeep",
    "rebuild": "upkeep",
    "serve": "serving",
    "mcp": "serving",
    "token": "serving",
    "export": "upkeep",
    "import": "upkeep",
    "verify": "verifying",
    "evaluate": "evaluating",
    "profile": "profiling",
    "diagnose": "diagnosing",
    "optimize": "optimizing",
    "batch": "batching",
    "report": "optimizing",
    "skill": "skilling",
}


@dataclass(frozen=True, slots=True)
class Session:
    """What the options before the command say."""

    index: Path


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        del ctx
        if name not in _COMMANDS:
            return None
        module = importlib.import_module(f"cli.{_COMMANDS[name]}")
        command = getattr(module, f"{name}_" if name == "import" else name)
        assert isinstance(command, click.Command)
        # Options of `kb` itself, which people give to its commands as well.
        existing = {option for param in command.params for option in param.opts}
        for option in _own_options():
            if existing.isdisjoint(option.opts):
                command.params.append(option)
        return command


def _own_options() -> list[click.Option]:
    """`--index` and `--debug`, as they stand behind a command."""

    def set_index(ctx: click.Context, _param: click.Parameter, value: Path | None) -> None:
        if value is not None:
            ctx.obj = Session(value)

    common: dict[str, Any] = {"expose_value": False, "hidden": True}
    folder = click.Path(path_type=Path)
    return [
        click.Option(["--index"], type=folder, callback=set_index, help="Index folder.", **common),
        click.Option(["--debug"], is_flag=True, help="Show tracebacks.", **common),
    ]


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)
@click.option(
    "--index",
    type=click.Path(path_type=Path),
    help="Index folder. Default: $KB_INDEX, else the user-data folder.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, if the command supports it.")
@click.option("--debug", is_flag=True, help="Show tracebacks of errors.")
@click.version_option(kb.__version__, prog_name="kb")
@click.pass_context
def cli(ctx: click.Context, index: Path | None, as_json: bool, debug: bool) -> None:
    """A knowledge base about fast GPU kernels.

    Start with `kb ingest`, which adds the shipped corpus, then
    `kb query my matmul rereads the same tiles and L2 hit rate is 30%`.
    These options may also follow the command.
    """
    del debug  # read from the arguments by `main`, also when they cannot be parsed
    ctx.obj = Session(index or default_index_dir())
    if as_json:
        ctx.default_map = {name: {"as_json": True} for name in _COMMANDS}


def main() -> NoReturn:
    """Run the command line. Errors are one line on stderr; exit 1, or 2 for wrong usage."""
    protect()
    debug = "--debug" in sys.argv or os.environ.get("KB_DEBUG") == "1"
    try:
        status = cli.main(prog_name="kb", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        sys.exit(2)
    except click.ClickException as error:
        _say(_usage(error) if isinstance(error, click.UsageError) else error.format_message())
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        _say("interrupted; the published index is intact")
        sys.exit(130)
    except BrokenPipeError:
        # The reader of our output has gone: end quietly, also at interpreter shutdown.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        if debug:
            raise
        _say(_failure(error))
        sys.exit(1)
    sys.exit(status if isinstance(status, int) else 0)


def _failure(error: Exception) -> str:
    if isinstance(error, KbError):
        return str(error)
    if isinstance(error, OSError) and error.errno == errno.ENOSPC and error.filename is None:
        return "the disk is full: nothing more can be written"
    unexpected = f"unexpected {type(error).__name__}: {error}"
    return advised(error) or f"{unexpected} (run again with --debug for a traceback)"


def _usage(error: click.UsageError) -> str:
    """What is wrong with the arguments, and where the right usage stands."""
    command = error.ctx.command_path if error.ctx is not None else "kb"
    message = error.format_message()
    return (
        f"{message}{' See' if message.endswith(('.', '?', ')')) else '; see'} `{command} --help`."
    )


def _say(message: str) -> None:
    line = " ".join(message.split())
    click.echo(f"kb: {line}", err=True)
