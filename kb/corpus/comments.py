"""Code without what it says about itself: comments and docstrings blanked, line by line."""

import re

_STRING = (
    r'(?P<string>[rRbBuUfF]{0,2}(?:"""[\s\S]*?"""|\'\'\'[\s\S]*?\'\'\')'
    r'|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\')'
)
_HASH = re.compile(_STRING + r"|\#[^\n]*")
_SLASH = re.compile(
    r'(?P<string>"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\')|//[^\n]*|/\*[\s\S]*?\*/'
)
_NOT_LINE_END = re.compile(r"[^\n]")


def without_comments(code: str, language: str) -> str:
    """The code with its comments and docstrings as spaces; offsets and lines stay as they are.

    Other strings stay, since inline assembly is one.
    """
    if language in {"cuda", "cpp"}:
        return _SLASH.sub(lambda match: match["string"] or _blank(match[0]), code)
    return _HASH.sub(_python, code)


def _python(match: re.Match[str]) -> str:
    string = match["string"]
    if string is None:
        return _blank(match[0])
    if string.endswith(('"""', "'''")) and _stands_alone(match.string, match.start()):
        return _blank(string)
    return string


def _stands_alone(code: str, start: int) -> bool:
    """Whether a string begins a statement: after a colon at a line's end, or at the very top."""
    line = code.rfind("\n", 0, start) + 1
    if code[line:start].strip():
        return False
    before = code[:line].rstrip()
    return not before or before.endswith(":")


def _blank(text: str) -> str:
    return _NOT_LINE_END.sub(" ", text)
