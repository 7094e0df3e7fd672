"""Tells whether two kernel files are the same program but for names, comments and layout."""

import ast
import builtins
import hashlib
import re
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from itertools import count

_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
# Functions that look at local names: where they are used, names matter.
_INTROSPECTION = frozenset({"locals", "vars", "eval", "exec", "dir", "globals"})
_BUILTINS = frozenset(dir(builtins))
# Strings and characters are kept, comments are not; the longest first.
_CUDA_TOKENS = re.compile(
    r'R"(?P<mark>[^()\\\s]{0,16})\(.*?(?:\)(?P=mark)"|\Z)'
    r'|"(?:\\.|[^"\\\n])*+"?|\'(?:\\.|[^\'\\\n])*+\'?|//[^\n]*|/\*.*?(?:\*/|\Z)',
    re.DOTALL,
)


def digest(source: str, suffix: str = ".py") -> str:
    """Digest of the normalized program.

    In Python, names of local variables, docstrings, comments, number formats and layout make no
    difference; parameters' names do, since arguments are bound by them. In CUDA, comments after the
    leading one (which declares the entry point) and white space make none. A file that does not
    parse is compared as text.
    """
    text = _python(source) if suffix == ".py" else _cuda(source)
    return hashlib.sha256(f"{suffix}\0{text}".encode("utf-8", errors="replace")).hexdigest()


def _python(source: str) -> str:
    try:
        module = ast.parse(source)
        _normalize(module)
        return ast.dump(module, annotate_fields=False)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return source


def _normalize(module: ast.Module) -> None:
    for node in ast.walk(module):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            _drop_docstring(node)
        elif isinstance(node, ast.Constant):
            node.kind = None
    # A local that is named like something outside keeps its name: it may stand for it.
    outside = _BUILTINS | _names_outside(module)
    for function in _outermost(module):
        _rename(function, outside)


def _drop_docstring(
    node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef,
) -> None:
    if ast.get_docstring(node, clean=False) is not None:
        del node.body[0]
        if not node.body and not isinstance(node, ast.Module):
            node.body.append(ast.Pass())


def _outermost(node: ast.AST) -> Iterable[_Function]:
    """Functions that are in no other function."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _Function):
            yield child
        else:
            yield from _outermost(child)


def _names_outside(node: ast.AST) -> set[str]:
    """Every name that stands outside all functions, and names of functions, classes, imports."""
    names: set[str] = set()
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(child.name)
        if isinstance(child, ast.alias):
            names.add(child.asname or child.name.partition(".")[0])
        if isinstance(child, ast.Name):
            names.add(child.id)
        if not isinstance(child, _Function):
            names |= _names_outside(child)
    return names


def _rename(function: _Function, outside: AbstractSet[str]) -> None:
    """Number the local variables of a function and of those in it, in order of appearance."""
    nodes = list(ast.walk(function))
    names = [node for node in nodes if isinstance(node, ast.Name)]
    if any(node.id in _INTROSPECTION for node in names):
        return
    reserved: set[str] = {*outside} | {node.arg for node in nodes if isinstance(node, ast.arg)}
    for node in nodes:
        if isinstance(node, ast.Global | ast.Nonlocal):
            reserved |= set(node.names)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            reserved.add(node.name)
        elif isinstance(node, ast.alias):
            reserved.add(node.asname or node.name.partition(".")[0])
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            reserved.add(node.name)
    numbers = count()
    new_names: dict[str, str] = {}
    for node in names:
        if isinstance(node.ctx, ast.Store) and node.id not in reserved and node.id not in new_names:
            # No name of a program can hold a space.
            new_names[node.id] = f"local {next(numbers)}"
    for node in names:
        node.id = new_names.get(node.id, node.id)


def _cuda(source: str) -> str:
    head = re.match(r"\s*(?:/\*.*?\*/|(?://[^\n]*\n\s*)+)", source, re.DOTALL)
    start = head.end() if head else 0

    def uncomment(match: re.Match[str]) -> str:
        return " " if match.group().startswith(("//", "/*")) else match.group()

    lines = _CUDA_TOKENS.sub(uncomment, source[start:]).splitlines()
    leading = source[:start].strip().splitlines()
    normalized = [" ".join(line.split()) for line in [*leading, *lines]]
    return "\n".join(line for line in normalized if line)
