"""Code and Markdown on standard output: code as it is, never wrapped or cut."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from rich.console import Console
from rich.markdown import Markdown
from rich.syntax import Syntax

LEXERS = {
    "triton": "python",
    "python": "python",
    "cuda": "cuda",
    "cpp": "cpp",
    "markdown": "markdown",
}
_OPENING = re.compile(r"(```+|~~~+) *(\w*)")
# How a line that is no code is marked in a file of the language.
_COMMENTS = {"cuda": "//", "cpp": "//"}


def print_code(out: Console, text: str, language: str, indent: int = 0) -> None:
    """Print source text line by line, with colours on a terminal; lines keep their length."""
    lines = text.rstrip("\n").split("\n")
    source = "\n".join(" " * indent + line if line.strip() else "" for line in lines)
    if not out.is_terminal:
        out.file.write(source + "\n")
        return
    lexer = LEXERS.get(language, "text")
    syntax = Syntax(source, lexer, theme="ansi_dark", background_color="default")
    out.print(syntax.highlight(source), soft_wrap=True, end="")


def print_markdown(out: Console, text: str) -> None:
    """Print Markdown: rendered on a terminal, but for its code; as it stands elsewhere."""
    if not out.is_terminal:
        out.file.write(text.rstrip("\n") + "\n")
        return
    end = 0
    for block in _blocks(text):
        if prose := text[end : block.start].strip():
            out.print(Markdown(prose))
        out.print()
        print_code(out, block.code, block.language, indent=1)
        out.print()
        end = block.end
    if prose := text[end:].strip():
        out.print(Markdown(prose))


def as_comments(text: str, language: str) -> str:
    """Text as comment lines of a language, so that what surrounds code leaves it a file."""
    mark = _COMMENTS.get(language, "#")
    return "\n".join(f"{mark} {line}".rstrip() for line in text.split("\n"))


def first_block(markdown: str) -> tuple[str, str] | None:
    """Code and language of the first fenced block, or None."""
    block = next(_blocks(markdown), None)
    return (block.code, block.language) if block is not None else None


class _Block(NamedTuple):
    """A fenced block and its place in the text."""

    start: int
    end: int
    language: str
    code: str


def _blocks(text: str) -> Iterator[_Block]:
    """Fenced blocks in one pass over the lines; one that nothing closes is none."""
    fence, start, at = "", 0, 0
    language = ""
    code: list[str] = []
    for line in text.splitlines(keepends=True):
        at += len(line)
        if not fence:
            if opening := _OPENING.match(line):
                fence, language, code = opening[1], opening[2] or "text", []
                start = at - len(line)
        elif line.rstrip() == fence:
            yield _Block(start, at, language, "".join(code))
            fence = ""
        else:
            code.append(line)
