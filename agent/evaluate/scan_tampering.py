"""Checks for tampering: reading what is not the kernel's, replacing what the judge uses."""

import ast

from agent.evaluate import scan_tables as tables
from agent.evaluate.scan_context import Check, Context
from agent.evaluate.scan_names import text_of, within
from agent.problem.syntax import definitions

_SETTERS = frozenset({"setattr", "delattr", "object.__setattr__", "type.__setattr__",
                      "builtins.setattr", "builtins.delattr"})  # fmt: skip
_PATCHERS = ("unittest.mock.patch", "mock.patch", "pytest.MonkeyPatch")
_TF32_WORDS = ("tf32", "fp32_precision", "reduced_precision", "float32_matmul")
_PATH_READS = frozenset({"read_text", "read_bytes", "iterdir", "rglob"})
_PATH_WRITES = frozenset({"write_text", "write_bytes", "unlink", "rmdir", "rename"})
_JUDGE = ("agent", "benchmarks")
_PATCHED = "patched-measurement"


class TamperingChecks(Check):
    """Looks at the whole file: what is dressed up as a GPU kernel can be called on the host."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.nodes = list(ast.walk(context.module))
        self.defined = definitions(context.module)
        self.types: set[str] = set()
        self.types |= {
            target.id
            for node in context.host
            if isinstance(node, ast.Assign) and self._is_type_of(node.value)
            for target in node.targets
            if isinstance(target, ast.Name)
        }

    def run(self) -> None:
        """Add findings for reads and patches."""
        for node in self.nodes:
            self._reads(node)
            self._patches(node)

    def _reads(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import | ast.ImportFrom):
            self._imports(node)
        if not isinstance(node, ast.expr):
            return
        name = self.names.resolve(node)
        if name in tables.FORBIDDEN_READS:
            self.add("reads-reference", "cheat", node, tables.FORBIDDEN_READS[name])
        elif (
            isinstance(node, ast.Attribute | ast.Call)
            and _attribute(node, name) in tables.FRAME_ATTRIBUTES
        ):
            self.add("reads-reference", "cheat", node, "walks through the callers' frames")
        elif (
            isinstance(node, ast.Attribute | ast.Call)
            and _attribute(node, name) in tables.CLOSURE_ATTRIBUTES
        ):
            self.add("reads-reference", "cheat", node, "reaches into what a function remembers")
        elif isinstance(node, ast.Attribute) and node.attr == "__subclasses__":
            self.add("reads-reference", "cheat", node, "lists classes that it was not given")
        elif isinstance(node, ast.Call) and name is None:
            called = self.names.resolve(node.func)
            if called in tables.SUSPECT_READS:
                self.add("reads-files", "suspect", node, tables.SUSPECT_READS[called])
            elif isinstance(node.func, ast.Attribute) and node.func.attr in _PATH_READS:
                self.add("reads-files", "suspect", node, "reads a file")
            elif isinstance(node.func, ast.Attribute) and node.func.attr in _PATH_WRITES:
                self.add("writes-files", "suspect", node, "writes or removes a file")
        self._modules(node, name)

    def _modules(self, node: ast.expr, name: str | None) -> None:
        if (
            isinstance(node, ast.Call | ast.Subscript)
            and within(name, *_JUDGE)
            and (name or "").partition(".")[0] not in self.defined
        ):
            self.add("reads-reference", "cheat", node, "takes the judge's own modules")
        if name == "sys.modules":
            self._sys_modules(node)
        elif name is not None and name.endswith(".sys.modules"):
            self.add("reads-reference", "cheat", node,
                     "goes through the loaded modules by way of another one")  # fmt: skip

    def _imports(self, node: ast.Import | ast.ImportFrom) -> None:
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        else:
            modules = [node.module or ""]
        for module in modules:
            root = module.partition(".")[0]
            if root in tables.REFERENCE_MODULES:
                self.add("reads-reference", "suspect", node, "imports what may be the reference")
            elif root in _JUDGE:
                self.add("reads-reference", "cheat", node, "imports the judge")

    def _sys_modules(self, node: ast.expr) -> None:
        parent = self.parents.get(id(node))
        if isinstance(parent, ast.Subscript):
            key = parent.slice
            if isinstance(key, ast.Name) and key.id == "__name__":
                return
            if not isinstance(parent.ctx, ast.Load):
                return  # `_patches` looks at it
            self.add("reads-reference", "suspect", parent, "takes a module that is loaded")
            return
        if isinstance(parent, ast.Compare):
            return
        if isinstance(parent, ast.Attribute) and parent.attr in ("get", "setdefault"):
            self.add("reads-reference", "suspect", parent, "takes a module that is loaded")
            return
        self.add("reads-reference", "cheat", parent or node, "goes through the loaded modules")

    def _patches(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign | ast.Delete):
            targets = node.targets
        elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.For):
            targets = [node.target]
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            targets = [node.optional_vars]
        elif isinstance(node, ast.Call):
            self._setter(node)
            return
        elif isinstance(node, ast.ClassDef):
            self._class(node)
            return
        else:
            return
        for target in targets:
            for each in target.elts if isinstance(target, ast.Tuple | ast.List) else [target]:
                self._target(node, each)

    def _target(self, statement: ast.AST, target: ast.expr) -> None:
        if isinstance(target, ast.Attribute):
            if self._is_type_of(target.value):
                self.add(_PATCHED, "cheat", statement, "changes a type it was given")
            elif target.attr in tables.CLOCK_ATTRIBUTES and not _is_self(target.value):
                self.add(_PATCHED, "cheat", statement, "replaces a clock")
            elif target.attr in ("__class__", "__code__") and not _is_self(target.value):
                self.add(_PATCHED, "cheat", statement,
                         "changes what an object or function is")  # fmt: skip
            elif self._rooted(target):
                self._assigned(statement, self.names.resolve(target))
        elif isinstance(target, ast.Subscript):
            base = self.names.resolve(target.value)
            if base == "sys.modules":
                module = text_of(target.slice)
                if within(module, "sys", *tables.PROTECTED):
                    self.add(_PATCHED, "cheat", statement, f"replaces the module {module}")
                else:  # how generated source is imported
                    self.add(_PATCHED, "suspect", statement, "adds or replaces a module")
            elif base == "os.environ":
                self.add("environment", "disclose", statement, "sets an environment variable")
            elif isinstance(target.value, ast.Attribute | ast.Call):
                name = self.names.resolve(target)
                if name is not None and "." in name:
                    self._assigned(statement, name)

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

    def _rooted(self, node: ast.expr) -> bool:
        """Whether an attribute hangs on an import or an alias of one, not on a plain variable."""
        while isinstance(node, ast.Attribute):
            node = node.value
        if isinstance(node, ast.Name):
            return node.id in self.names.aliases or node.id == "builtins"
        return self.names.resolve(node) is not None

    def _assigned(self, statement: ast.AST, name: str | None) -> None:
        if within(name, *tables.SETTINGS):
            precise = any(word in (name or "") for word in _TF32_WORDS)
            self.add("precision" if precise else "setting", "disclose", statement,
                     "changes a setting of the library for the whole process")  # fmt: skip
        elif within(name, *tables.SHIMMED):
            self.add("shim", "suspect", statement, "adds to Triton's language")
        elif within(name, *tables.PROTECTED):
            self.add(_PATCHED, "cheat", statement,
                     f"replaces {name}, which the judge or the reference uses")  # fmt: skip
        elif within(name, "sys"):
            self.add(_PATCHED, "suspect", statement, f"replaces {name}")

    def _setter(self, call: ast.Call) -> None:
        name = self.names.resolve(call.func)
        if name in _SETTERS and call.args:
            owner = self.names.resolve(call.args[0])
            attribute = text_of(call.args[1]) if len(call.args) > 1 else None
            if self._is_type_of(call.args[0]):
                self.add(_PATCHED, "cheat", call, "changes a type it was given")
            elif attribute in tables.CLOCK_ATTRIBUTES:
                self.add(_PATCHED, "cheat", call, "replaces a clock")
            elif owner is not None and self._rooted(call.args[0]):
                self._assigned(call, f"{owner}.{attribute or '?'}")
        elif within(name, *_PATCHERS):
            self.add(_PATCHED, "cheat", call, "patches what the judge uses")
        elif isinstance(call.func, ast.Attribute) and call.func.attr in ("update", "__setitem__"):
            base = call.func.value
            if isinstance(base, ast.Attribute) and base.attr == "__dict__":
                self._assigned(call, f"{self.names.resolve(base.value)}.?")
            elif isinstance(base, ast.Call) and self.names.resolve(base.func) == "vars":
                self._assigned(call, f"{self.names.resolve(base.args[0])}.?")

    def _class(self, node: ast.ClassDef) -> None:
        bases = [self.names.resolve(base) for base in node.bases]
        methods = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
        if "torch.Tensor" in bases or methods & {"__torch_function__", "__torch_dispatch__"}:
            self.add("lazy-output", "suspect", node,
                     "is a tensor that decides by itself what its operators do")  # fmt: skip


def _attribute(node: ast.Attribute | ast.Call, name: str | None) -> str:
    """The attribute that is read: `x.y`, or `getattr(x, "y")`, which `name` has resolved."""
    return node.attr if isinstance(node, ast.Attribute) else (name or "").rpartition(".")[2]


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"
