"""What the syntax-tree checks share: the file's names, what a call runs, and the findings."""

import ast
import itertools

from agent.evaluate.finding import Finding, Severity
from agent.evaluate.scan_names import Names
from agent.evaluate.scan_reach import reach

_EVIDENCE_CHARACTERS = 160
# Nodes of the syntax tree that are written out as evidence; of what has more, its first line is.
_LARGEST_EVIDENCE = 400
# More tell a reader nothing, and a file could be written to hold hundreds of thousands.
_MOST_FINDINGS = 500


class Context:
    """One parsed kernel file and what the checks find in it."""

    def __init__(self, module: ast.Module, text: str, *, narrow_casts: bool) -> None:
        self.module = module
        self.lines = text.splitlines()
        self.names = Names(module)
        self.reach = reach(module, self.names)
        self.narrow_casts = narrow_casts
        """Whether casts to narrower floating-point types are reported."""
        self.findings: list[Finding] = []
        self.parents = {
            id(child): node for node in ast.walk(module) for child in ast.iter_child_nodes(node)
        }
        device = {id(n) for function in self.reach.device for n in ast.walk(function)}
        self.host = [node for node in ast.walk(module) if id(node) not in device]
        """All nodes outside functions that are compiled for the GPU."""
        called = {id(node) for function in self.reach.functions for node in ast.walk(function)}
        self.called = [node for node in self.host if id(node) in called]
        """The nodes of `host` that a call of the kernel runs."""

    def add(self, rule: str, severity: Severity, node: ast.AST, explanation: str) -> None:
        """Record a finding at a node; past the first `_MOST_FINDINGS` only cheats."""
        if len(self.findings) >= _MOST_FINDINGS and severity != "cheat":
            return
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            text = f"def {node.name}"
        elif isinstance(node, ast.ClassDef):
            text = f"class {node.name}({', '.join(ast.unparse(base) for base in node.bases)})"
        elif _is_large(node):
            text = self._first_line(node)
        else:
            text = " ".join(ast.unparse(node).split())
        line = getattr(node, "lineno", 1)
        evidence = text[:_EVIDENCE_CHARACTERS]
        self.findings.append(Finding(rule, severity, line, evidence, explanation))

    def _first_line(self, node: ast.AST) -> str:
        line = getattr(node, "lineno", 1)
        found = self.lines[line - 1 : line]
        return " ".join("".join(found).encode()[getattr(node, "col_offset", 0) :].decode(
            errors="replace").split())  # fmt: skip


def _is_large(node: ast.AST) -> bool:
    """Whether writing a node out would take long: a table of numbers in a call, say."""
    return next(itertools.islice(ast.walk(node), _LARGEST_EVIDENCE, None), None) is not None


class Check:
    """A group of checks over one context."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.names = context.names
        self.reach = context.reach
        self.parents = context.parents
        self.add = context.add

    def run(self) -> None:
        """Add this group's findings to the context."""
        raise NotImplementedError
