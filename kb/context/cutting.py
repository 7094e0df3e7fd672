"""Cut text and code only where their syntax allows it."""

import ast
import re
from collections.abc import Iterator

from kb.parsing import PARSING

_FENCE = "```"
# A paragraph of so few words in front of code says what the code is.
_LEAD_WORDS = 16
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
# Literals and the comment on one line of C++; a literal that is not closed is the rest of it.
_NO_CODE = re.compile(r"""\"(?:\\.|[^\"\\])*+"?|'(?:\\.|[^'\\])*+'?|//.*""")


def prose_blocks(text: str) -> list[str]:
    """Markdown as blocks that may stand alone: paragraphs, list items, whole code fences."""
    blocks: list[str] = []
    current: list[str] = []
    fenced = False

    def close() -> None:
        if any(line.strip() for line in current):
            block = "\n".join(current).strip("\n")
            if blocks and block.startswith(_FENCE) and _announces(blocks[-1]):
                # "Before: three walks." without its code would promise what does not follow.
                block = f"{blocks.pop()}\n\n{block}"
            blocks.append(block)
        current.clear()

    for line in text.splitlines():
        if line.lstrip().startswith(_FENCE):
            if not fenced:
                close()
            current.append(line)
            fenced = not fenced
            if not fenced:
                close()
        elif not fenced and not line.strip():
            close()
        else:
            if not fenced and line.lstrip().startswith(("- ", "* ")):
                close()
            current.append(line)
    close()
    return blocks


def _announces(block: str) -> bool:
    """Whether a paragraph only leads to the code behind it."""
    return block.endswith(":") or (_FENCE not in block and len(block.split()) <= _LEAD_WORDS)


def prose_prefixes(block: str) -> Iterator[str]:
    """Prefixes of a paragraph, growing, cut between sentences; a code fence stays whole."""
    if _FENCE in block:
        yield block
        return
    end = 0
    for match in _SENTENCE.finditer(block):
        end = match.start()
        yield block[:end]
    if end < len(block):
        yield block


def code_prefixes(code: str, language: str) -> Iterator[str]:
    """Prefixes of a source text, growing, each ending where a statement ends.

    The last one is the whole text.
    """
    lines = code.splitlines()
    ends = _python_ends(code) if language in {"triton", "python"} else _brace_ends(lines)
    for end in ends:
        if end < len(lines):
            yield "\n".join(lines[:end])
    yield code


def _python_ends(code: str) -> list[int]:
    """Lines (1-based, as counts) after which a statement at depth 0 or 1 has ended."""
    try:
        with PARSING:
            tree = ast.parse(code)
    except (SyntaxError, ValueError):
        return []
    ends: set[int] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            docstring = ast.get_docstring(node, clean=False) is not None
            # A function cut after its docstring or signature alone would say nothing.
            inner = node.body[1:] if docstring else node.body
            ends.update(child.end_lineno or 0 for child in inner)
        ends.add(node.end_lineno or 0)
    return sorted(ends - {0})


def _brace_ends(lines: list[str]) -> list[int]:
    """Lines after which a C++ statement at brace depth 0 or 1 has ended."""
    ends: list[int] = []
    depth = parens = 0
    for number, line in enumerate(lines, start=1):
        bare = _NO_CODE.sub("", line)
        depth += bare.count("{") - bare.count("}")
        parens += bare.count("(") - bare.count(")")
        if depth <= 1 and parens == 0 and bare.rstrip().endswith((";", "}")):
            ends.append(number)
    return ends
