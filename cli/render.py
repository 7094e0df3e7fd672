"""Human output of the reading commands, on a terminal or in a pipe."""

import os
import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, ConsoleRenderable, Group, RenderHook, RenderResult
from rich.segment import Segment
from rich.text import Text

from cli.code import as_comments, print_code
from cli.terminal import raw_stream
from kb.corpus.entries import Gate, Source, Technique, Verified
from kb.corpus.measured import NOT_MEASURED
from kb.index.state import KernelRecord
from kb.printable import printable

# Outside of a terminal no line is cut or wrapped, unless $COLUMNS asks for it: longer than any.
_WHOLE = 10_000


def console() -> Console:
    """A console on standard output; colours and line breaks are for terminals ($NO_COLOR: none)."""
    out = Console(
        highlight=False, emoji=False, soft_wrap=False, width=_width(), file=raw_stream(sys.stdout)
    )
    if out.is_terminal:
        out.push_render_hook(_Clean())
    return out


class _Clean(RenderHook):
    """Shows the control characters of texts; the colours are the console's own."""

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """What is printed, cleaned."""
        return [_Cleaned(Group(*renderables))] if renderables else []


class _Cleaned:
    def __init__(self, content: ConsoleRenderable) -> None:
        self._content = content

    def __rich_console__(self, on: Console, options: ConsoleOptions) -> RenderResult:
        for segment in on.render(self._content, options):
            if segment.control:
                yield segment
            else:
                yield Segment(printable(segment.text), segment.style)


def _width() -> int | None:
    columns = os.environ.get("COLUMNS", "")
    if columns.isdigit() and int(columns) > 0:
        return int(columns)
    return None if sys.stdout.isatty() else _WHOLE


def source_lines(sources: Iterable[Source]) -> list[str]:
    """What an entry is cited by, one line and its address each."""
    return [f"- {source.title} ({source.licence})\n  {source.url}" for source in sources]


def print_kernel(out: Console, record: KernelRecord, verified: Iterable[Verified]) -> None:
    """A kernel with what is known of it. What is written to a file is a file that runs."""
    entry = record.entry
    head = f"{entry.title}\n{record.path}"
    tail = "\n".join(["Verified", verified_line(verified), "", "Sources"])
    tail += "\n" + "\n".join(source_lines(entry.sources))
    if not out.is_terminal:
        head, tail = as_comments(head, entry.language), as_comments(tail, entry.language)
    out.print(head, markup=False, soft_wrap=True)
    print_code(out, record.code, entry.language)
    out.print("\n" + tail, markup=False, soft_wrap=True)


def verified_line(records: Iterable[Verified]) -> str:
    """One line per measurement, or that there is none."""
    lines = [
        f"{r.speedup:.2f}x over {r.baseline}: {r.measured_ms:.4g} against {r.baseline_ms:.4g} ms "
        f"on {r.gpu}, {r.shape} {r.dtype}, torch {r.torch}, triton {r.triton}, {r.date}"
        + (f", {r.floor_fraction:.0%} of the floor" if r.floor_fraction else "")
        for r in records
    ]
    return "\n".join(lines) if lines else NOT_MEASURED


def production_lines(production: dict[str, Any]) -> list[Text]:
    """One line per production example: what it is, where it stands, under which licence, its id."""
    lines = []
    for example in production["best"]:
        source = example["source"]
        version = f" {source['version']}" if source["version"] else ""
        place = f"{example['path']}:{example['start_line']}-{example['end_line']}"
        origin = f"{source['name']}{version}, {place} ({source['licence'] or 'licence unknown'})"
        line = Text(example["title"], style="cyan")
        lines.append(line.append(f"  {origin}  {example['id']}", style="dim"))
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
