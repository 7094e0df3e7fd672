"""Search results on one screen: what each is, what to do, how the numbers stand, where it is."""

import re
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from cli.code import first_block, print_code
from kb.corpus.entries import Technique
from kb.corpus.measured import entry_line, kernel_line
from kb.index.reader import Generation
from kb.profiles.values import metrics_line
from kb.search.explanation import explain_score, legend
from kb.search.gates import GateStanding
from kb.search.models import Result, SearchResponse
from kb.views import entry_of

# Lines of the first result's snippet.
_SNIPPET_LINES = 12
_IN_SHORT = re.compile(r"^## In short\s*\n(.*?)(?=^## |\Z)", re.DOTALL | re.MULTILINE)
_SENTENCE = re.compile(r"(.+?[.!?])(?:\s|$)", re.DOTALL)
_INDENT = "   "


def print_results(
    out: Console,
    response: SearchResponse,
    generation: Generation,
    *,
    explain: bool,
    in_full: bool,
) -> None:
    """Print a screen of results: four lines each, and the first one's snippet.

    With `in_full`, each has its measurements and the beginning of its text.
    """
    print_heading(out, response)
    for number, result in enumerate(response.results, start=1):
        _line(out, Text(f"{number}. {result.title}", style="bold").append(f" [{result.kind}]"))
        _line(out, Text(_INDENT + what_to_do(result, generation)), cut=not in_full)
        if result.gates:
            _line(out, Text(_INDENT + standing(result.gates, result), style="green"))
        _line(out, Text(_INDENT + where(result, generation), style="cyan"), cut=False)
        if in_full:
            _line(out, Text(_INDENT + _facts(result, generation), style="dim"), cut=False)
            _show(out, _beginning(result), result.language)
        elif number == 1:
            _snippet(out, result, generation)
        if explain:
            _explanation(out, result)
    if explain:
        _legend(out, response)


def print_heading(out: Console, response: SearchResponse) -> None:
    """What was understood of the question, and what is to be said before the results."""
    for line in (metrics_line(response.metrics), *response.notes):
        if line:
            _line(out, Text(line, style="yellow"), cut=False)


def _line(out: Console, text: Text, *, cut: bool = True) -> None:
    """A line that ends with an ellipsis, or goes on below, where it is longer than the screen."""
    if cut:
        text.truncate(out.width, overflow="ellipsis")
        out.print(text, soft_wrap=True)
        return
    indent = len(text.plain) - len(text.plain.lstrip())
    for line in text[indent:].wrap(out, max(out.width - indent, 1)):
        line.rstrip()
        out.print(Text(" " * indent).append_text(line), soft_wrap=True)


def what_to_do(result: Result, generation: Generation) -> str:
    """One sentence: a technique's first instruction or effect, what a kernel shows, a signature."""
    entry = entry_of(generation, result)
    if isinstance(entry, Technique):
        body = generation.techniques[entry.slug].body
        section = _IN_SHORT.search(body)
        plain = " ".join((section[1] if section is not None else entry.effect).split())
        sentence = _SENTENCE.match(plain)
        return sentence[1] if sentence is not None else plain
    if entry is not None:
        shows = f"shows {', '.join(entry.techniques)}; " if entry.techniques else "plain; "
        return shows + kernel_line(entry, generation.kernel_entries, brief=True)
    lines = [line.strip() for line in result.text.splitlines() if line.strip()]
    return next((line for line in lines if not line.startswith(("@", "#", "//"))), result.title)


def standing(gates: Sequence[GateStanding], result: Result) -> str:
    """How the question's numbers stand to the gates, reasons left to the entry."""
    return " · ".join(
        gate.brief if result.kind == "technique" else f"{gate.technique}: {gate.brief}"
        for gate in gates
    )


def where(result: Result, generation: Generation) -> str:
    """How to see all of it, where it stands and under which licence."""
    source, entry = result.source, entry_of(generation, result)
    version = f" {source.version}" if source.version else ""
    name = entry.slug if entry is not None else result.id
    return (
        f"kb show {name} · {result.path}:{result.start_line}-{result.end_line} · "
        f"{source.name}{version} ({source.licence or 'licence unknown'})"
    )


def _facts(result: Result, generation: Generation) -> str:
    """Score, techniques that it shows, and what was measured."""
    facts = [f"score {result.score:.3f}"]
    if result.techniques and result.kind != "technique":
        facts.append("shows " + ", ".join(result.techniques))
    entry = entry_of(generation, result)
    if entry is not None:
        facts.append(entry_line(entry, generation.kernel_entries))
    return "; ".join(facts)


def _beginning(result: Result) -> str:
    """Of an entry's card, what the lines above it do not say already."""
    lines = [line for line in result.text.splitlines() if line.strip()]
    if lines and lines[0] == result.title:
        lines = [line for line in lines[1:] if not line.startswith("Also called:")]
    return "\n".join(lines)


def _snippet(out: Console, result: Result, generation: Generation) -> None:
    entry = entry_of(generation, result)
    code, language = result.text, result.language
    if isinstance(entry, Technique):
        block = first_block(generation.techniques[entry.slug].body)
        if block is None:
            return
        code, language = block
    _show(out, code, language)


def _show(out: Console, code: str, language: str) -> None:
    lines = code.strip("\n").split("\n")
    snippet = "\n".join(lines[:_SNIPPET_LINES]) + ("\n…" if len(lines) > _SNIPPET_LINES else "")
    print_code(out, snippet, language, indent=5)


def _explanation(out: Console, result: Result) -> None:
    if result.explanation is None:
        return
    parts = explain_score(result.explanation)
    ranks = ", ".join(f"{part.name} {part.value}" for part in parts.ranks)
    sums = " ".join(f"{part.value:+.3f} {part.name}" for part in parts.added)
    total = f"{sums} = {sum(part.value for part in parts.added):.3f}"
    score = f"score {result.score:.3f} = {parts.total:.3f} / {parts.highest:.2f}"
    ranks_text = f" ({ranks})" if ranks else ""
    _line(out, Text(f"{_INDENT}{total}; {score}{ranks_text}", style="yellow"), cut=False)


def _legend(out: Console, response: SearchResponse) -> None:
    names = dict.fromkeys(
        name for result in response.results for name in (result.explanation or {})
    )
    out.print()
    for name, meaning in legend(names):
        _line(out, Text(f"{name}: {meaning}", style="dim"), cut=False)
