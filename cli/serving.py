"""The commands that let others query: serve, mcp, token."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from cli import Session
from cli.requirements import require_torch
from kb.errors import InvalidInputError
from kb.refusals import refusal
from server.settings import Settings
from server.tokens import SCOPES, Scope, TokenFile

# `--index` stands before the command; the parent of the workers makes its own run folder.
_NOT_OPTIONS = frozenset({"index", "run_dir"})
_MULTIPLE = frozenset({"allowed_hosts", "cors_origins"})


def _option(name: str, field: FieldInfo) -> click.Option:
    """A setting as an option. Its default is left to the settings, which know the environment."""
    help_text = field.description or ""
    if field.default is not None and not field.default_factory and name not in _MULTIPLE:
        help_text += f"  [default: {field.default}]"
    flag = f"--{name.replace('_', '-')}"
    if field.annotation is bool:
        return click.Option([flag], is_flag=True, default=None, help=help_text)
    if name in _MULTIPLE:
        return click.Option([flag], multiple=True, help=f"{help_text} (repeatable)")
    kinds: dict[Any, Any] = {int: int, float: float, Path: click.Path(path_type=Path)}
    return click.Option([flag], type=kinds.get(field.annotation, str), help=help_text)


def _settings(session: Session, options: dict[str, Any]) -> Settings:
    values = {name: value for name, value in options.items() if value is not None and value != ()}
    try:
        return Settings(index=session.index, **values)
    except ValidationError as error:
        name, message = refusal(error).split(": ", 1)
        raise InvalidInputError(f"--{name.replace('_', '-')}: {message}") from error


@click.command()
@click.pass_obj
def serve(session: Session, /, **options: Any) -> None:
    """Serve the HTTP API, MCP and web pages.

    The HTTP API is under /v1 and includes a search that OpenAI's vector-store clients can use; MCP
    is at /mcp. By default only this machine can connect; any other address needs tokens.
    Every option is also an environment variable: --max-k is KB_MAX_K.
    """
    from cli.application import APPLICATION
    from server.run import check_exposure
    from server.run import serve as run_server

    settings = _settings(session, options)
    if settings.allow_evaluate:
        check_exposure(settings)  # before the agent's parts are loaded
        require_torch("--allow-evaluate")
    run_server(settings, APPLICATION)


serve.params.extend(
    _option(name, field)
    for name, field in Settings.model_fields.items()
    if name not in _NOT_OPTIONS
)


@click.command()
@click.option(
    "--allow-evaluate",
    is_flag=True,
    default=None,
    help="Let the client have kernels judged; their code runs in a sandbox.",
)
@click.pass_obj
def mcp(session: Session, /, *, allow_evaluate: bool | None) -> None:
    """Serve an MCP client over standard input and output."""
    from cli.application import mountings
    from cli.profiles import diagnosis
    from server.mcp.stdio import serve_stdio

    settings = _settings(session, {"allow_evaluate": allow_evaluate})
    if settings.allow_evaluate:
        require_torch("--allow-evaluate")
    serve_stdio(settings, mountings(settings), diagnosis)


_TOKENS = click.option(
    "--tokens", type=click.Path(path_type=Path), help="Token file.  [default: in the user's config]"
)


@click.group()
def token() -> None:
    """Create, list and revoke the tokens of the server."""


@token.command("create")
@click.option(
    "--scope", type=click.Choice(SCOPES), required=True, help="admin may also ingest and evaluate."
)
@click.option("--name", default="", help="Who the token is for.")
@_TOKENS
@click.pass_obj
def create_token(session: Session, /, *, scope: Scope, name: str, tokens: Path | None) -> None:
    """Create a token and print it once: only its hash is stored."""
    record, secret = _token_file(session, tokens).create(scope, name)
    click.echo(f"kb: token {record.id} ({record.name}, {scope}); it is not shown again", err=True)
    click.echo(secret)


@token.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@_TOKENS
@click.pass_obj
def list_tokens(session: Session, /, *, as_json: bool, tokens: Path | None) -> None:
    """List tokens: id, name, scope, time of creation."""
    records = [asdict(record) for record in _token_file(session, tokens).records()]
    for record in records:
        del record["sha256"]
    if as_json:
        click.echo(json.dumps(records, indent=2))
        return
    if not records:
        click.echo("kb: there are no tokens: create one with `kb token create`", err=True)
    for record in records:
        click.echo("  ".join(str(record[key]) for key in ("id", "scope", "created", "name")))


@token.command("revoke")
@click.argument("name")
@_TOKENS
@click.pass_obj
def revoke_token(session: Session, /, name: str, *, tokens: Path | None) -> None:
    """Revoke the tokens with this id or name. Running servers refuse them at once."""
    for record in _token_file(session, tokens).revoke(name):
        click.echo(f"revoked {record.id} ({record.name})")


def _token_file(session: Session, path: Path | None) -> TokenFile:
    return TokenFile(_settings(session, {"tokens": path}).tokens)
