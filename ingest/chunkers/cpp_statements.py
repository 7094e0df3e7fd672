"""Where statements start inside a function body, for cutting an over-long one."""

import re

_TOKEN = re.compile(
    rb"""
      (?P<skip> //[^\n]* | /\*.*?(?:\*/|\Z) | R"(?P<tag>[^()\\\s"]{0,16})\(.*?(?:\)(?P=tag)"|\Z)
              | "(?:\\.|[^"\\\n])*"? | (?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*'? )
    | (?P<line> \n )
    | (?P<mark> [{}();\[\]] )
    """,
    re.VERBOSE | re.DOTALL,
)


def statement_rows(source: bytes, start: int, end: int, row: int) -> dict[int, int]:
    """Return row -> brace depth of the statements in `source[start:end]`, which starts in `row`.

    A row counts when the last mark before it ended a statement or opened a block, outside any
    parentheses of its own block. A comment goes with the statement below it.
    """
    rows: dict[int, int] = {}
    outer: list[int] = []  # for each open brace, the parentheses open around it
    parens = 0
    fresh = False  # whether a new statement may start here
    for token in _TOKEN.finditer(source, start, end):
        kind = token.lastgroup
        if kind == "line":
            row += 1
            if fresh and not parens:
                rows[row] = len(outer)
        elif kind == "mark":
            char = token[0]
            if char == b"{":
                outer.append(parens)
                parens = 0
            elif char == b"}":
                parens = outer.pop() if outer else 0
                rows.pop(row, None)  # a closing brace stays with what it closes
            elif char in b"([":
                parens += 1
            elif char in b")]":
                parens = max(0, parens - 1)
            fresh = char in b";{}"
        else:
            row += token[0].count(b"\n")
    return rows
