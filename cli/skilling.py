"""The command that tells coding agents of the knowledge base: skill."""

from importlib.resources import files
from pathlib import Path

import click

from kb.errors import KbError

_BEGIN, _END = "<!-- kernel-kb: begin -->", "<!-- kernel-kb: end -->"
_CURSOR = "\nalwaysApply: false\n---\n"
_PLACES = {
    "claude": ".claude/skills/kernel-kb/SKILL.md",
    "cursor": ".cursor/rules/kernel-kb.mdc",
    "agents": "AGENTS.md",
}


def _text(name: str) -> str:
    return (files("kb") / "data" / "skill" / name).read_text(encoding="utf-8")


def _with_section(old: str, section: str) -> str:
    """A file's text with our section in it once, where it was or at the end."""
    marked = f"{_BEGIN}\n{section.strip()}\n{_END}"
    before, begin, rest = old.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if begin and end:
        return f"{before}{marked}{after}"
    return f"{old.rstrip()}\n\n{marked}\n".lstrip()


@click.command()
@click.option(
    "--install", "agent", type=click.Choice(list(_PLACES)), help="Install for this agent."
)
@click.option(
    "--into",
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    default=Path(),
    help="Project folder. Default: the current one.",
)
def skill(agent: str | None, into: Path) -> None:
    """Print instructions on kb for a coding agent, or install them.

    claude writes .claude/skills/kernel-kb/SKILL.md, cursor writes .cursor/rules/kernel-kb.mdc, and
    agents writes a section of AGENTS.md, which other agents read. Installing again replaces what
    was written.
    """
    if agent is None:
        click.echo(_text("SKILL.md"), nl=False)
        return
    place = into / _PLACES[agent]
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        if agent == "agents":
            old = place.read_text(encoding="utf-8") if place.exists() else ""
            text = _with_section(old, _text("AGENTS.md"))
        else:
            text = _text("SKILL.md")
        if agent == "cursor":  # its rules have no name, and say when they apply
            text = text.replace("name: kernel-kb\n", "").replace("\n---\n", _CURSOR, 1)
        place.write_text(text, encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise KbError(f"cannot write {place}: {reason}") from error
    click.echo(f"wrote {place}")
