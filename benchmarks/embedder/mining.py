"""Mines texts from installed packages: functions with their summaries, and Markdown sections.

A function whose docstring begins with a real sentence gives a query (the sentence) and the one
chunk that answers it (the function without its docstring), so a retrieval measure needs no
hand-made judgements. The same versions of the packages give the same texts.
"""

import ast
import random
import re
import sysconfig
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import metadata
from pathlib import Path

from kb.embedders.tokens import count_tokens

PACKAGES_FILE = Path(__file__).with_name("packages.toml")
SEED = 20
SKIPPED_FOLDERS = {"tests", "test", "testing", "_vendor", "externals", "array_api_extra"}
MIN_LINES, MAX_LINES = 4, 120  # of a function without its docstring: not a stub, not a module
MIN_WORDS, MAX_WORDS = 5, 30  # of a query: says something, and is one sentence
MAX_PER_FILE = 12  # keeps one long module from filling the pool
SENTENCE_END = re.compile(r"(?<=[.!?])\s|\n\s*\n")
HEADING = re.compile(r"(?m)^(?=#{1,4} )")


@dataclass(frozen=True)
class Function:
    """A function without its docstring, and the docstring's first sentence."""

    code: str
    summary: str


def functions() -> list[Function]:
    """Return functions of the listed packages in a fixed random order.

    Those whose code or summary is not unique are left out: they would make a query ambiguous.
    """
    root = Path(sysconfig.get_paths()["purelib"])
    found: list[Function] = []
    for package in tomllib.loads(PACKAGES_FILE.read_text())["package"]:
        for path in sorted((root / package["folder"]).rglob("*.py")):
            if not SKIPPED_FOLDERS & set(path.relative_to(root).parts):
                found += list(_of_file(path))[:MAX_PER_FILE]
    codes = Counter(function.code for function in found)
    summaries = Counter(function.summary for function in found)
    unique = [f for f in found if codes[f.code] == 1 and (summaries[f.summary] == 1)]
    random.Random(SEED).shuffle(unique)
    return unique


def _of_file(path: Path) -> Iterator[Function]:
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines(keepends=True)
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        docstring = ast.get_docstring(node)
        summary = " ".join(SENTENCE_END.split(docstring or "", maxsplit=1)[0].split())
        if not MIN_WORDS <= len(summary.split()) <= MAX_WORDS:
            continue
        start = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        text = node.body[0]
        assert text.end_lineno is not None and node.end_lineno is not None
        code = lines[start - 1 : text.lineno - 1] + lines[text.end_lineno : node.end_lineno]
        if MIN_LINES <= len(code) <= MAX_LINES:
            yield Function("".join(code), summary)


def markdown_sections() -> Iterator[str]:
    """Yield the sections of the packages' long descriptions, which are their read-me files."""
    names = {package["name"] for package in tomllib.loads(PACKAGES_FILE.read_text())["package"]}
    for name in sorted(names):
        yield from HEADING.split(str(metadata(name).json.get("description", "")))


def chunks(count: int, min_tokens: int = 64, max_tokens: int = 256) -> list[str]:
    """Return `count` texts of `min_tokens` to `max_tokens` tokens, mostly code, some Markdown."""
    texts = [*markdown_sections(), *(function.code for function in functions())]
    fitting = (text for text in texts if min_tokens <= count_tokens(text) + 2 <= max_tokens)
    found = [text for _, text in zip(range(count), fitting, strict=False)]
    assert len(found) == count, f"only {len(found)} texts of the wanted length are installed"
    return found
