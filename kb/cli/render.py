"""Human output of the reading commands, on a terminal or in a pipe."""

import os
from collections.abc import Iterable
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.markdown import Markdown
from rich.padding import Padding
from rich.syntax import Syntax
from rich.text import Text

from kb.corpus.entries import Gate, Technique, Verified
from kb.corpus.measured import NOT_MEASURED, measured_line
from kb.index.reader import Generation
from kb.search.models import Result
from kb.views import entry_of

_LEXERS = {
    "triton": "python",
    "python": "python",
    "cuda": "cuda",
    "cpp": "cpp",
    "markdown": "markdown",
}
# Lines of a result's text shown in a list.
_SNIPPET_LINES = 8


def console() -> Console:
    """A console on standard output; colours only on a terminal, and not with $NO_COLOR."""
    return Console(highlight=False, emoji=False, soft_wrap=False, width=_width())


def _width() -> int | None:
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isdigit() and int(columns) > 0 else None


def code(text: str, language: str) -> RenderableType:
    """Source text with syntax highlighting."""
    return Syntax(
        text,
        _LEXERS.get(language, "text"),
        theme="ansi_dark",
        background_color="default",
        word_wrap=True,
    )


def verified_line(records: Iterable[Verified]) -> str:
    """One line per measurement, or that there is none."""
    lines = [
        f"{r.speedup:.2f}x over {r.baseline}: {r.measured_ms:.4g} against {r.baseline_ms:.4g} ms "
        f"on {r.gpu}, {r.shape} {r.dtype}, torch {r.torch}, triton {r.triton}, {r.date}"
        + (f", {r.floor_fraction:.0%} of the floor" if r.floor_fraction else "")
        for r in records
    ]
    return "\n".join(lines) if lines else NOT_MEASURED


def result_block(number: int, result: Result, generation: Generation, *, explain: bool) -> Group:
    """One search result: title, where it is from, and the beginning of its text."""
    source = result.source
    version = f" {source.version}" if source.version else ""
    place = f"{source.name}{version}: {result.path}:{result.start_line}-{result.end_line}"
    entry = entry_of(generation, result)
    facts = [
        result.kind,
        f"score {result.score:.3f}",
        source.licence or "licence unknown",
        f"kb show {entry.slug if entry is not None else result.id}",
    ]
    parts: list[RenderableType] = [
        Text(f"{number}. {result.title}", style="bold"),
        Padding(Text(place, style="cyan"), (0, 0, 0, 3)),
        Padding(Text(" · ".join(facts), style="dim"), (0, 0, 0, 3)),
    ]
    if result.techniques and result.kind != "technique":
        shows = Text("shows " + ", ".join(result.techniques), style="dim")
        parts.append(Padding(shows, (0, 0, 0, 3)))
    if entry is not None:
        parts.append(Padding(Text(measured_line(entry.verified), style="green"), (0, 0, 0, 3)))
    lines = [line for line in result.text.splitlines() if line.strip()]
    if lines and lines[0] == result.title:  # a card: the title stands above already
        lines = [line for line in lines[1:] if not line.startswith("Also called:")]
    snippet = "\n".join(lines[:_SNIPPET_LINES]) + ("\n…" if len(lines) > _SNIPPET_LINES else "")
    shown: RenderableType = code(snippet, result.language)
    if result.language == "markdown":
        shown = Markdown(snippet) if snippet.startswith("#") else Text(snippet)
    parts.append(Padding(shown, (0, 0, 0, 3)))
    if explain and result.explanation:
        told = ", ".join(
            f"{name} {value:+.3f}" if isinstance(value, float) else f"{name} {value}"
            for name, value in result.explanation.items()
        )
        parts.append(Padding(Text(told, style="yellow"), (0, 0, 0, 3)))
    parts.append(Text(""))
    return Group(*parts)


def production_lines(found: dict[str, Any]) -> list[Text]:
    """One line per production example: what it is, where it stands, under which licence, its id."""
    lines = []
    for each in found["best"]:
        source = each["source"]
        version = f" {source['version']}" if source["version"] else ""
        place = f"{each['path']}:{each['start_line']}-{each['end_line']}"
        cited = f"{source['name']}{version}, {place} ({source['licence'] or 'licence unknown'})"
        line = Text(each["title"], style="cyan")
        lines.append(line.append(f"  {cited}  {each['id']}", style="dim"))
    return lines


def gate_lines(gates: Iterable[Gate]) -> list[str]:
    """Gates as a list."""
    return [f"- {gate.metric} {gate.op} {gate.value:g}: {gate.because}" for gate in gates]


def technique_head(entry: Technique) -> str:
    """The facts of a technique above its text, as Markdown."""
    lines = [
        f"# {entry.title}",
        "",
        f"`{entry.slug}` relieves {', '.join(entry.bottlenecks)}; "
        f"for {', '.join(entry.languages)}; from {', '.join(entry.architectures)}",
        "",
        f"**Effect.** {entry.effect}",
        "",
        "**Use when**",
        "",
        *gate_lines(entry.when),
    ]
    if entry.avoid_when:
        lines += ["", "**Avoid when**", "", *gate_lines(entry.avoid_when)]
    lines += ["", "**Risks**", "", *(f"- {risk}" for risk in entry.risks), ""]
    return "\n".join(lines)
