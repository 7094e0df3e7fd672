"""Where statements start inside a function body, for cutting an over-long one."""

import re

_TOKEN = re.compile(
    rb"""
      //[^\n]* | /\*.*?(?:\*/|\Z) | R"(?P<tag>[^()\\\s"]{0,16})\(.*?(?:\)(?P=tag)"|\Z)
              | "(?:\\.|[^"\\\n])*"? | (?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*'?
    | [{}();\[\]]
    """,
    re.VERBOSE | re.DOTALL,
)
_LINE_END = re.compile(rb"[ \t]*(?://[^\n]*)?\n")


def statement_rows(source: bytes, start: int, end: int, row: int) -> dict[int, int]:
    """Return row -> brace depth of the statements in `source[start:end]`, which starts in `row`.

    A row counts when the line above ends a statement or opens a block, outside any parentheses of
    its own block; comments and blank lines go with the statement below.
    """
    rows: dict[int, int] = {}
    outer: list[int] = []  # for each open brace, the parentheses open around it
    parens = 0
    counted = start
    for token in _TOKEN.finditer(source, start, end):
        mark = token[0]
        if mark == b"{":
            outer.append(parens)
            parens = 0
        elif mark == b"}":
            parens = outer.pop() if outer else 0
        elif mark in b"([":
            parens += 1
            continue
        elif mark in b")]":
            parens = max(0, parens - 1)
            continue
        elif mark != b";":
            continue
        if not parens and _LINE_END.match(source, token.end(), end):
            row += source.count(b"\n", counted, token.end())
            counted = token.end()
            rows[row + 1] = len(outer)
    return rows
