"""Print changed syntax trees in the file's own style: its layout and its comments.

An unchanged statement is printed from its source lines; a changed one is formatted again, in lines
of at most 100 characters.
"""

import ast
import io
import textwrap
import tokenize

from kb.context.folding import COMMENT, is_docstring
from kb.parsing import PARSING

_WIDTH = 100
_INDENT = "    "
_QUOTES = '"' * 3


class Printer:
    """Prints statements of one file.

    Parameters
    ----------
    code
        The file that the statements are from.
    comments
        Whether to keep comment lines above the statements printed.
    """

    def __init__(self, code: str, *, comments: bool = False) -> None:
        self._lines = code.splitlines()
        with PARSING:
            module = ast.parse(code)
        self._original = {
            (node.lineno, node.col_offset): node
            for node in ast.walk(module)
            if isinstance(node, ast.stmt)
        }
        self._comments = _comment_lines(code)
        self._keep = comments

    def text(self, body: list[ast.stmt]) -> str:
        """Return top-level statements as the text of a file."""
        parts: list[str] = []
        for statement in body:
            lines = self._statement(statement, 0)
            gap = isinstance(statement, ast.FunctionDef | ast.ClassDef)
            before = bool(parts) and (gap or isinstance(body[body.index(statement) - 1],
                                                        ast.FunctionDef))  # fmt: skip
            parts += ["", *lines] if before else lines
        return "\n".join(parts)

    def _statement(self, node: ast.stmt, level: int) -> list[str]:
        above = self._above(node, level)
        if isinstance(node, ast.FunctionDef):
            head = [f"@{ast.unparse(decorator)}" for decorator in node.decorator_list]
            shell = self._head(node, level)
            return [*above, *_indented([*head, *shell], level), *self._block(node.body, level + 1)]
        if isinstance(node, ast.If | ast.For | ast.While | ast.With):
            lines = [*above, *_indented(self._head(node, level), level)]
            lines += self._block(node.body, level + 1)
            orelse = getattr(node, "orelse", [])
            if len(orelse) == 1 and isinstance(orelse[0], ast.If) and isinstance(node, ast.If):
                inner = self._statement(orelse[0], level)
                place = next(n for n, line in enumerate(inner) if not line.lstrip().startswith("#"))
                branch = inner[place].lstrip()
                prefix = "" if branch.startswith("elif") else "el"
                inner[place] = _INDENT * level + prefix + branch
                lines += inner
            elif orelse:
                lines += [_INDENT * level + "else:", *self._block(orelse, level + 1)]
            return lines
        if is_docstring(node):
            return [*above, *_docstring(node, level)]
        source = self._unchanged(node)
        return [*above, *_indented(source or _wrap(ast.unparse(node), level), level)]

    def _block(self, body: list[ast.stmt], level: int) -> list[str]:
        return [line for statement in body for line in self._statement(statement, level)]

    def _head(self, node: ast.stmt, level: int) -> list[str]:
        """The lines of a compound statement before its block."""
        shell = _header(node)
        original = self._original.get((node.lineno, node.col_offset))
        if original is not None and ast.dump(_header(original)) == ast.dump(shell):
            first = original.body[0]  # type: ignore[attr-defined]
            lines = self._lines[original.lineno - 1 : first.lineno - 1]
            while lines and lines[-1].lstrip().startswith("#"):
                lines.pop()
            text = [line.replace("  # fmt: skip", "") for line in lines]
            if text and not self._keep:
                text = [_strip_comment(line) for line in text]
            return textwrap.dedent("\n".join(text)).splitlines()
        return _wrap("\n".join(ast.unparse(shell).splitlines()[:-1]), level)

    def _unchanged(self, node: ast.stmt) -> list[str] | None:
        original = self._original.get((getattr(node, "lineno", 0), getattr(node, "col_offset", 0)))
        if original is None or ast.dump(original) != ast.dump(node):
            return None
        lines = list(self._lines[original.lineno - 1 : original.end_lineno])
        lines[0] = " " * original.col_offset + lines[0].lstrip()
        tail = [line.replace("  # fmt: skip", "").rstrip() for line in lines]
        if not self._keep:
            tail = [_strip_comment(line) for line in tail]
            tail = [line for line in tail if line.strip()]
        return textwrap.dedent("\n".join(tail)).splitlines()

    def _above(self, node: ast.stmt, level: int) -> list[str]:
        """Comment lines directly above a statement."""
        if not self._keep or not hasattr(node, "lineno"):
            return []
        decorators = getattr(node, "decorator_list", None)
        line = (decorators[0].lineno if decorators else node.lineno) - 1
        comments: list[str] = []
        while line in self._comments:
            comments.insert(0, _INDENT * level + self._comments[line])
            line -= 1
        added = getattr(node, COMMENT, None)
        return [*comments, _INDENT * level + added] if added is not None else comments


def _docstring(node: ast.stmt, level: int) -> list[str]:
    """A docstring in lines that fit; its words are kept, its line breaks are not."""
    assert isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    words = str(node.value.value).replace("\\", "\\\\").replace(_QUOTES, "'" * 3)
    indent = _INDENT * level
    text = f"{_QUOTES}{words}{_QUOTES}"
    return textwrap.wrap(text, _WIDTH, initial_indent=indent, subsequent_indent=indent)


def _header(node: ast.stmt) -> ast.stmt:
    """A compound statement with an empty block."""
    fields = dict(ast.iter_fields(node))
    fields["body"] = [ast.Pass()]
    if "orelse" in fields:
        fields["orelse"] = []
    if "decorator_list" in fields:
        fields["decorator_list"] = []
    return ast.fix_missing_locations(type(node)(**fields))


def _indented(lines: list[str], level: int) -> list[str]:
    return [_INDENT * level + line if line.strip() else line for line in lines]


def _strip_comment(line: str) -> str:
    """A line without the comment behind its code; strings with a # keep theirs."""
    place = line.find("  # ")
    quoted = line.count('"', 0, max(place, 0)) % 2 or line.count("'", 0, max(place, 0)) % 2
    if line.lstrip().startswith("#"):
        return ""
    return line if place < 0 or quoted else line[:place]


def _wrap(text: str, level: int) -> list[str]:
    """Lines of at most 100 characters, broken after commas within brackets."""
    width = _WIDTH - len(_INDENT) * level
    if len(text) <= width:
        return text.splitlines()
    lines: list[str] = []
    for line in text.splitlines():
        lines += _break_line(line, width)
    return lines


def _break_line(line: str, width: int) -> list[str]:
    lead = line[: len(line) - len(line.lstrip())]
    breaks = _breaks(line)
    pieces: list[str] = []
    start = 0
    while len(line) - start > width:
        room = width - (len(lead) + len(_INDENT) if start else 0)
        fitting = [place for place in breaks if start < place <= start + room]
        if not fitting:
            break
        piece = line[start : fitting[-1]]
        pieces.append(lead + _INDENT + piece.strip() if start else piece.rstrip())
        start = fitting[-1]
    rest = line[start:]
    return [*pieces, lead + _INDENT + rest.lstrip() if start else rest]


def _breaks(line: str) -> list[int]:
    """Places behind the commas that lie in brackets and in no string."""
    depth, quote = 0, ""
    positions: list[int] = []
    for n, char in enumerate(line):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif char == "," and depth > 0:
            positions.append(n + 1)
    return positions


def _comment_lines(code: str) -> dict[int, str]:
    """Line number → text of lines that are a comment alone."""
    comments: dict[int, str] = {}
    lines = code.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type == tokenize.COMMENT:
            line = lines[token.start[0] - 1].strip()
            if line.startswith("#"):
                comments[token.start[0]] = line
    return comments
