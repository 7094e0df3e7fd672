"""Carries a kernel of the knowledge base over into another file, with its citation."""

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from kb.context.calls import declared_tunables
from kb.context.shortening import CHECKING, ENTRY

# How launch code compiles the `.cu` beside it, and what only that needs.
_LOADS: Final = re.compile(r"nvcc\.load\(\s*Path\(__file__\)\.with_suffix\(\"\.cu\"\),\s*")
_PATH: Final = "from pathlib import Path\n"
# More than the corpus has kernels.
_KERNELS: Final = 1024


@dataclass(frozen=True)
class Recipe:
    """A kernel of the knowledge base."""

    slug: str
    op: str
    code: str
    """Its file: `kernel_function`, `reference`, `TUNABLES` and what they need. Of a CUDA kernel the
    launch code."""
    dtypes: tuple[str, ...]
    techniques: tuple[str, ...] = ()
    citation: str = ""
    """Title, sources and licences."""
    chunk: str = ""
    """Id of its first chunk in the index; empty without an index."""
    floor_fraction: float | None = None
    """Least possible time over its own, where it was measured on the card at hand."""
    cuda: str = ""
    """Text of the `.cu` that the launch code compiles; empty: a Triton kernel."""
    own: bool = False
    """Whether it was written for the problem at hand, not found in the knowledge base."""


@dataclass(frozen=True)
class Signature:
    """Parameters of a kernel's `kernel_function`."""

    required: tuple[str, ...]
    optional: tuple[str, ...]
    """Parameters with a default that are not tunable."""
    tunables: dict[str, str]
    """Name → default, as source."""
    choices: dict[str, list[Any]]
    """Name → values that make sense."""
    reference: str
    """Source of `reference`; empty where there is none."""


def identifier(slug: str) -> str:
    """A kernel's slug as part of a Python name."""
    return re.sub(r"\W", "_", slug)


@lru_cache(_KERNELS)  # each is looked at for every core
def signature(kernel: Recipe) -> Signature | None:
    """Read a kernel's signature; None where the file is not of the corpus's form."""
    try:
        tree = ast.parse(kernel.code)
    except (SyntaxError, ValueError):
        return None
    functions = {
        statement.name: statement
        for statement in tree.body
        if isinstance(statement, ast.FunctionDef)
    }
    if ENTRY not in functions:
        return None
    args = functions[ENTRY].args
    if args.vararg or args.kwarg or args.kwonlyargs or args.posonlyargs:
        return None
    names = [arg.arg for arg in args.args]
    split = len(names) - len(args.defaults)
    defaults = dict(zip(names[split:], map(ast.unparse, args.defaults), strict=True))
    choices = declared_tunables(tree)
    reference = functions.get("reference")
    return Signature(
        required=tuple(names[:split]),
        optional=tuple(name for name in defaults if name not in choices),
        tunables={name: value for name, value in defaults.items() if name in choices},
        choices=choices,
        reference="" if reference is None else ast.unparse(reference),
    )


@lru_cache(_KERNELS)  # each is carried for every proposal that it is part of
def inlined_source(kernel: Recipe, *, alone: bool) -> str:
    """The kernel's text for another file, whose launcher has the slug's `identifier` as its name.

    Its docstring, `reference`, `make_inputs` and what else only checks need are left out. Where it
    is not `alone` in the file, all names that it defines get its slug as a suffix; comments and
    formatting stay.
    """
    suffix = identifier(kernel.slug)
    tree = ast.parse(kernel.code)
    drop: set[int] = set()
    check_functions = _check_functions(tree)
    for index, statement in enumerate(tree.body):
        if isinstance(statement, ast.FunctionDef) and statement.name in check_functions:
            first = min([statement.lineno, *(d.lineno for d in statement.decorator_list)])
        elif index == 0 and ast.get_docstring(tree) is not None:
            first = statement.lineno
        else:
            continue
        drop |= set(range(first, (statement.end_lineno or first) + 1))
    names = {ENTRY: suffix}
    if not alone:
        names |= {name: f"{name}_{suffix}" for name in _defined_names(tree) if name != ENTRY}
    edits: dict[int, list[tuple[int, str, str]]] = {}
    parameter_uses = _parameter_uses(tree)
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) if name in names and id(node) not in parameter_uses:
                edits.setdefault(node.lineno, []).append((node.col_offset, name, names[name]))
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) if name in names:
                word = "def " if isinstance(node, ast.FunctionDef) else "class "
                edits.setdefault(node.lineno, []).append(
                    (node.col_offset + len(word), name, names[name])
                )
    lines = []
    for number, line in enumerate(kernel.code.splitlines(), start=1):
        if number in drop:
            continue
        data = line.encode()
        for column, old, new in sorted(set(edits.get(number, ())), reverse=True):
            data = data[:column] + new.encode() + data[column + len(old.encode()) :]
        lines.append(data.decode())
    text = re.sub(r"\n{4,}", "\n\n\n", "\n".join(lines)).strip("\n")
    return _with_cuda(text, kernel.cuda, suffix) if kernel.cuda else text


def _with_cuda(text: str, cuda: str, suffix: str) -> str:
    """Launch code that brings its CUDA source along as text."""
    name = f"CUDA_{suffix}"
    text = _LOADS.sub(f'nvcc.load_text({name}, "{suffix}", ', text)
    if len(re.findall(r"\bPath\b", text)) == 1:
        text = text.replace(_PATH, "")
    return f'{text}\n\n\n{name} = r"""\n{cuda.strip()}\n"""'


def _check_functions(tree: ast.Module) -> set[str]:
    """Functions for checks, and those that nothing else calls."""
    functions = {
        statement.name: statement
        for statement in tree.body
        if isinstance(statement, ast.FunctionDef)
    }
    unused = functions.keys() & CHECKING
    while True:
        rest = [e for e in tree.body if not (isinstance(e, ast.FunctionDef) and e.name in unused)]
        callees = _names(functions[name] for name in unused) & functions.keys()
        more = callees - _names(rest) - unused - {ENTRY}
        if not more:
            return unused
        unused |= more


def _parameter_uses(tree: ast.Module) -> set[int]:
    """Identities of the names that are parameters of the function they stand in."""
    uses: set[int] = set()
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef):
            parameters = {argument.arg for argument in statement.args.args}
            names = (node for node in ast.walk(statement) if isinstance(node, ast.Name))
            uses |= {id(node) for node in names if node.id in parameters}
    return uses


def _names(nodes: Iterable[ast.AST]) -> set[str]:
    return {n.id for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name)}


def _defined_names(tree: ast.Module) -> set[str]:
    """Names that a file defines at its top level, imports left out."""
    names: set[str] = set()
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            names.add(statement.name)
        elif isinstance(statement, ast.Assign):
            names |= {target.id for target in statement.targets if isinstance(target, ast.Name)}
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            names.add(statement.target.id)
    return names - CHECKING
