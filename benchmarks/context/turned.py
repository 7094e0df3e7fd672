"""The corpus turned around: given the PyTorch reference of a kernel, is such a kernel shown?"""

import ast
from dataclasses import dataclass

from benchmarks.context.problems import shown_example
from kb.context.build import build_context
from kb.context.models import ContextRequest
from kb.corpus.loader import Corpus
from kb.errors import InvalidInputError
from kb.search.engine import Searcher

_LEFT_OUT = frozenset({"kernel_function", "make_inputs", "agrees"})


@dataclass(frozen=True, slots=True)
class Turned:
    """What the reference of one kernel was answered with."""

    slug: str
    op: str
    shown: str | None
    """Slug of the first example."""
    family: bool
    """Whether that is of the kernel's operator family."""


def reference_of(text: str) -> str | None:
    """Return a kernel file's reference with what it uses, as a problem; None if it has none."""
    module = ast.parse(text)
    functions = [n for n in module.body if isinstance(n, ast.FunctionDef)]
    if not any(n.name == "reference" for n in functions):
        return None
    kept = [
        node
        for node in module.body
        if not (isinstance(node, ast.FunctionDef) and (node.name in _LEFT_OUT or _is_kernel(node)))
        and not (isinstance(node, ast.Import | ast.ImportFrom) and "triton" in ast.unparse(node))
        and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    ]
    return ast.unparse(ast.Module(kept, []))


def _is_kernel(node: ast.FunctionDef) -> bool:
    return any("triton" in ast.unparse(each) for each in node.decorator_list)


def turned(corpus: Corpus, searcher: Searcher, *, tokens: int, gpu: str) -> list[Turned]:
    """Ask for every Triton kernel's reference as a problem."""
    found = []
    for kernel in corpus.kernels:
        entry = kernel.entry
        problem = reference_of(kernel.text) if entry.language == "triton" else None
        if problem is None:
            continue
        request = ContextRequest(problem=problem, gpu=gpu, language="triton", max_tokens=tokens)
        try:
            shown = shown_example(build_context(request, searcher).text)
        except InvalidInputError:
            shown = None
        slug = shown[0] if shown is not None else None
        op = searcher.generation.kernels[slug].entry.op if slug is not None else None
        found.append(Turned(entry.slug, entry.op, slug, op == entry.op))
    return found
