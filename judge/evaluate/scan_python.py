"""Checks of Python text: reading what is not the kernel's, replacing what the judge uses."""

import ast
import itertools

from judge.evaluate import scan_tables as tables
from judge.evaluate.finding import Finding
from judge.evaluate.scan_cuda import cuda_findings
from judge.evaluate.scan_names import Names, text_of
from judge.problem.syntax import definitions, within

_SETTERS = frozenset({"setattr", "delattr", "object.__setattr__", "type.__setattr__",
                      "builtins.setattr", "builtins.delattr"})  # fmt: skip
_PATCHERS = ("unittest.mock.patch", "mock.patch", "pytest.MonkeyPatch")
_JUDGE = ("judge", "agent", "cli", "benchmarks")
_READ, _PATCHED = "reads-reference", "patched-measurement"
_EVIDENCE_CHARACTERS = 160
# Nodes of the syntax tree that are written out as evidence; of what has more, its first line is.
_LARGEST_EVIDENCE = 400


class PythonChecks:
    """Looks at the whole file: what is dressed up as a GPU kernel can be called on the host."""

    def __init__(self, module: ast.Module, text: str) -> None:
        self.lines = text.splitlines()
        self.names = Names(module)
        self.nodes = list(ast.walk(module))
        self.parents = {
            id(child): node for node in self.nodes for child in ast.iter_child_nodes(node)
        }
        self.defined = definitions(module)
        self.findings: list[Finding] = []
        self.types: set[str] = set()
        self.types |= {
            target.id
            for node in self.nodes
            if isinstance(node, ast.Assign) and self._is_type_of(node.value)
            for target in node.targets
            if isinstance(target, ast.Name)
        }

    def run(self) -> list[Finding]:
        """Return what is found."""
        for node in self.nodes:
            self._check_reads(node)
            self._check_patches(node)
            self._check_text(node)
        return self.findings

    def add(self, rule: str, node: ast.AST, explanation: str) -> None:
        """Record a finding at a node."""
        text = self._first_line(node) if _is_large(node) else " ".join(ast.unparse(node).split())
        evidence = text[:_EVIDENCE_CHARACTERS]
        line = getattr(node, "lineno", 1)
        self.findings.append(Finding(rule, "cheat", line, evidence, explanation))

    def _first_line(self, node: ast.AST) -> str:
        line = getattr(node, "lineno", 1)
        source = "".join(self.lines[line - 1 : line]).encode()[getattr(node, "col_offset", 0) :]
        return " ".join(source.decode(errors="replace").split())

    def _check_text(self, node: ast.AST) -> None:
        """Strings that hold CUDA, or name other processes' folders."""
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            return
        if isinstance(self.parents.get(id(node)), ast.Expr):
            return  # a docstring
        text = node.value
        if "/proc/" in text or text == "/proc":
            self.add(_READ, node, "reads the data of other processes")
        if "__global__" in text or "#include" in text or 'extern "C"' in text:
            self.findings += cuda_findings(text, node.lineno)

    def _check_reads(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import | ast.ImportFrom):
            self._check_imports(node)
        if not isinstance(node, ast.expr):
            return
        name = self.names.resolve(node)
        if name in tables.FORBIDDEN_READS:
            self.add(_READ, node, tables.FORBIDDEN_READS[name])
        elif _attribute(node, name) in tables.FRAME_ATTRIBUTES:
            self.add(_READ, node, "walks through the callers' frames")
        elif _attribute(node, name) in tables.CLOSURE_ATTRIBUTES:
            self.add(_READ, node, "reads a function's closure")
        elif isinstance(node, ast.Attribute) and node.attr == "__subclasses__":
            self.add(_READ, node, "lists the subclasses of a class")
        self._check_modules(node, name)

    def _check_modules(self, node: ast.expr, name: str | None) -> None:
        if (
            isinstance(node, ast.Call | ast.Subscript)
            and within(name, *_JUDGE)
            and (name or "").partition(".")[0] not in self.defined
        ):
            self.add(_READ, node, "uses the judge's own modules")
        if name == "sys.modules":
            self._check_sys_modules(node)
        elif name is not None and name.endswith(".sys.modules"):
            self.add(_READ, node,
                     "searches the loaded modules through another module")  # fmt: skip

    def _check_imports(self, node: ast.Import | ast.ImportFrom) -> None:
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        else:
            modules = [node.module or ""]
        if any(module.partition(".")[0] in _JUDGE for module in modules):
            self.add(_READ, node, "imports the judge")

    def _check_sys_modules(self, node: ast.expr) -> None:
        parent = self.parents.get(id(node))
        if isinstance(parent, ast.Subscript):
            return  # one module by name; what is assigned, `_check_patches` looks at
        if isinstance(parent, ast.Compare):
            return
        if isinstance(parent, ast.Attribute) and parent.attr in ("get", "setdefault"):
            return
        self.add(_READ, parent or node, "searches the loaded modules")

    def _check_patches(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign | ast.Delete):
            targets = node.targets
        elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.For):
            targets = [node.target]
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            targets = [node.optional_vars]
        elif isinstance(node, ast.Call):
            self._check_setter(node)
            return
        else:
            return
        for target in targets:
            for element in target.elts if isinstance(target, ast.Tuple | ast.List) else [target]:
                self._check_target(node, element)

    def _check_target(self, statement: ast.AST, target: ast.expr) -> None:
        if isinstance(target, ast.Attribute):
            if self._is_type_of(target.value):
                self.add(_PATCHED, statement, "changes a type it was given")
            elif target.attr in tables.CLOCK_ATTRIBUTES and not _is_self(target.value):
                self.add(_PATCHED, statement, "replaces a clock")
            elif target.attr in ("__class__", "__code__") and not _is_self(target.value):
                self.add(_PATCHED, statement,
                         "changes what an object or function is")  # fmt: skip
            elif self._is_imported(target):
                self._check_assigned_name(statement, self.names.resolve(target))
        elif isinstance(target, ast.Subscript):
            base = self.names.resolve(target.value)
            if base == "sys.modules":
                module = text_of(target.slice)
                # Another one may be generated source that is imported.
                if within(module, "sys", *tables.PROTECTED):
                    self.add(_PATCHED, statement, f"replaces the module {module}")
            elif base != "os.environ" and isinstance(target.value, ast.Attribute | ast.Call):
                name = self.names.resolve(target)
                if name is not None and "." in name:
                    self._check_assigned_name(statement, name)

    def _is_type_of(self, node: ast.expr) -> bool:
        """`type(x)`, or a variable that holds it; `type(self)` is a class of the file's own."""
        if isinstance(node, ast.Name):
            return node.id in self.types
        return (
            isinstance(node, ast.Call)
            and self.names.resolve(node.func) in ("type", "builtins.type")
            and len(node.args) == 1
            and not _is_self(node.args[0])
        )

    def _is_imported(self, node: ast.expr) -> bool:
        """Whether an attribute hangs on an import or an alias of one, not on a plain variable."""
        while isinstance(node, ast.Attribute):
            node = node.value
        if isinstance(node, ast.Name):
            return node.id in self.names.aliases or node.id == "builtins"
        return self.names.resolve(node) is not None

    def _check_assigned_name(self, statement: ast.AST, name: str | None) -> None:
        if within(name, *tables.PROTECTED) and not within(name, *tables.UNPROTECTED):
            self.add(_PATCHED, statement,
                     f"replaces {name}, which the judge or the reference uses")  # fmt: skip

    def _check_setter(self, call: ast.Call) -> None:
        name = self.names.resolve(call.func)
        if name in _SETTERS and call.args:
            owner = self.names.resolve(call.args[0])
            attribute = text_of(call.args[1]) if len(call.args) > 1 else None
            if self._is_type_of(call.args[0]):
                self.add(_PATCHED, call, "changes a type it was given")
            elif attribute in tables.CLOCK_ATTRIBUTES:
                self.add(_PATCHED, call, "replaces a clock")
            elif owner is not None and self._is_imported(call.args[0]):
                self._check_assigned_name(call, f"{owner}.{attribute or '?'}")
        elif within(name, *_PATCHERS):
            self.add(_PATCHED, call, "patches what the judge uses")
        elif isinstance(call.func, ast.Attribute) and call.func.attr in ("update", "__setitem__"):
            base = call.func.value
            if isinstance(base, ast.Attribute) and base.attr == "__dict__":
                self._check_assigned_name(call, f"{self.names.resolve(base.value)}.?")
            elif isinstance(base, ast.Call) and self.names.resolve(base.func) == "vars":
                self._check_assigned_name(call, f"{self.names.resolve(base.args[0])}.?")


def _attribute(node: ast.expr, name: str | None) -> str | None:
    """The attribute that is read: `x.y`, or `getattr(x, "y")`, which `name` has resolved."""
    if isinstance(node, ast.Call):
        return (name or "").rpartition(".")[2]
    return node.attr if isinstance(node, ast.Attribute) else None


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def _is_large(node: ast.AST) -> bool:
    """Whether writing a node out would take long: a table of numbers in a call, say."""
    return next(itertools.islice(ast.walk(node), _LARGEST_EVIDENCE, None), None) is not None
