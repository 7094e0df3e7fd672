"""Checks for how a kernel behaves: streams, caches, hidden code, precision, constant results."""

import ast

from agent.evaluate import scan_tables as tables
from agent.evaluate.dataflow import returns_contents
from agent.evaluate.scan_context import Check, Context
from agent.evaluate.scan_cuda import cuda_findings
from agent.evaluate.scan_names import text_of, within
from agent.evaluate.scan_reach import Function
from agent.problem.kernel import Language, language_of
from agent.problem.syntax import definitions


class BehaviourChecks(Check):
    """Looks at the whole file, and at the entry points' own statements."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.keys = {name for node in context.host if (name := _used_as_key(node))}
        self.defined = definitions(context.module)

    def run(self) -> None:
        """Add findings."""
        for node in self.context.host:
            self._concurrency(node)
            self._dynamic(node)
            self._caches(node)
            self._setting(node)
        for node in ast.walk(self.context.module):  # host code can be dressed up as a GPU kernel
            self._text(node)
        for function in [*self.reach.functions, *self.reach.building, *self.reach.device]:
            for node in ast.walk(function):
                self._narrowing(node)
        for entry in self.reach.entries:
            self._entry(entry)
            self._kept_outputs(entry)
        for function in self.reach.functions:
            self._counters(function)
        for node in self.context.called:
            if isinstance(node, ast.Call) and self.names.resolve(node.func) in tables.CLOCKS:
                self.add("reads-clock", "suspect", node, "asks for the time while it is called")
        self._unused_kernel()

    def _concurrency(self, node: ast.AST) -> None:
        if not isinstance(node, ast.Call):
            return
        name = self.names.resolve(node.func)
        if name in tables.STREAMS:
            self.add("other-stream", "suspect", node,
                     "works on a stream of its own, which events on the current stream may not "
                     "see")  # fmt: skip
        elif name in tables.GRAPHS:
            self.add("cuda-graph", "suspect", node,
                     "replays a captured graph, which reads the addresses it was captured "
                     "with")  # fmt: skip
        elif within(name, *tables.PROCESSES) and name not in tables.HARMLESS:
            self.add("process", "suspect", node, "starts threads or processes, or waits for them")
        elif name in tables.HOOKS:
            self.add("hook", "suspect", node, "acts when the process ends or fails")

    def _dynamic(self, node: ast.AST) -> None:
        if not isinstance(node, ast.Call):
            return
        name = self.names.resolve(node.func)
        if name in tables.DYNAMIC_CODE:
            self.add("dynamic-code", "suspect", node, "runs code that is assembled at run time")
        elif name in ("getattr", "builtins.getattr") and len(node.args) > 1:
            owner = self.names.resolve(node.args[0])
            # Naming a dtype is common; what is called is not.
            parent = self.parents.get(id(node))
            if (
                text_of(node.args[1]) is None
                and within(owner, "torch", "builtins", "sys", "gc", "inspect")
                and isinstance(parent, ast.Call)
                and parent.func is node
            ):
                self.add("dynamic-code", "suspect", node, "calls a function chosen at run time")
        elif name in ("__import__", "importlib.import_module") and text_of(
            node.args[0] if node.args else ast.Constant(None)
        ) is None:  # fmt: skip
            self.add("dynamic-code", "suspect", node, "imports a module chosen at run time")
        elif name in tables.RAW_MEMORY:
            self.add("raw-memory", "suspect", node, "reads or writes memory by address")
        elif name in ("ctypes.CDLL", "ctypes.cdll.LoadLibrary", "ctypes.PyDLL") and node.args:
            self._loaded(node)

    def _loaded(self, call: ast.Call) -> None:
        library = text_of(call.args[0])
        if library is None and not isinstance(call.args[0], ast.Constant):
            return  # a library that was just compiled
        if any(word in (library or "") for word in ("cublas", "cudnn", "cusparse", "cufft")):
            self.add("library-call", "disclose", call, "loads a library of NVIDIA's")
        else:
            self.add("raw-memory", "suspect", call, "calls functions of a shared library")

    def _caches(self, node: ast.AST) -> None:
        if isinstance(node, Function) and node in self.reach.entries:
            for decorator in node.decorator_list:
                called = decorator.func if isinstance(decorator, ast.Call) else decorator
                if within(self.names.resolve(called), "functools.cache", "functools.lru_cache"):
                    self.add("cached-output", "suspect", decorator,
                             "returns earlier outputs for the same arguments")  # fmt: skip
        if isinstance(node, ast.Call) and self._identifies(node) and self._is_key(node):
            self.add("cached-by-address", "suspect", node,
                     "keys a cache by address, which stays when the contents change; honest for "
                     "descriptors")  # fmt: skip

    def _identifies(self, call: ast.Call) -> bool:
        if isinstance(call.func, ast.Name):
            return call.func.id in ("id", "hash") and len(call.args) == 1
        return isinstance(call.func, ast.Attribute) and call.func.attr in (
            "data_ptr", "untyped_storage", "_version",
        )  # fmt: skip

    def _is_key(self, call: ast.Call) -> bool:
        """Whether an address is compared, indexes something, or is assigned to what does."""
        node: ast.AST = call
        parent = self.parents.get(id(node))
        while isinstance(parent, ast.Tuple | ast.Starred | ast.Attribute):
            node, parent = parent, self.parents.get(id(parent))
        if isinstance(parent, ast.Subscript):
            return parent.slice is node
        if isinstance(parent, ast.Compare):
            return True
        if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Attribute):
            return parent.func.attr in ("get", "setdefault", "pop") and node in parent.args
        if isinstance(parent, ast.Assign):
            keys = {t.id for t in parent.targets if isinstance(t, ast.Name)}
            return bool(keys & self.keys)
        return False

    def _text(self, node: ast.AST) -> None:
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            return
        parent = self.parents.get(id(node))
        if isinstance(parent, ast.Expr):
            return  # a docstring
        text = node.value
        if "/proc/" in text or text == "/proc":
            self.add("reads-reference", "cheat", node, "looks into other processes")
        if "__global__" in text or "#include" in text or 'extern "C"' in text:
            self.context.findings += cuda_findings(text, node.lineno)

    def _setting(self, node: ast.AST) -> None:
        if (
            isinstance(node, ast.Call)
            and self.names.resolve(node.func) == "torch.set_float32_matmul_precision"
        ):
            self.add("precision", "disclose", node,
                     "changes the precision of float32 products for the whole process")  # fmt: skip

    def _narrowing(self, node: ast.AST) -> None:
        if (
            not self.context.narrow_casts
            or not isinstance(node, ast.Call)
            or not isinstance(node.func, ast.Attribute)
        ):
            return
        method, narrow = node.func.attr, tables.LOW_PRECISION
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        last = {(self.names.resolve(each) or "").rpartition(".")[2] for each in given}
        if method in ("half", "bfloat16") or (method in ("to", "type", "cast") and last & narrow):
            self.add("precision", "suspect", node, "narrows float32 values")
        elif method == "dot" and any(_single_tf32(keyword) for keyword in node.keywords):
            self.add("precision", "disclose", node, "multiplies float32 values in TF32")

    def _entry(self, entry: Function) -> None:
        fixed = self.names.imported | {
            name
            for name, statement in self.defined.items()
            if isinstance(statement, Function | ast.ClassDef)
        }
        if not returns_contents(entry, self.names, frozenset(fixed)):
            self.add("constant-output", "suspect", entry,
                     "returns what depends on no input's contents")  # fmt: skip
        inputs = {each.arg for each in entry.args.args} - {"self"}
        for node in ast.walk(entry):
            if (written := _written(node)) is not None and written in inputs:
                self.add("writes-input", "suspect", node, "writes to an argument")

    def _counters(self, function: Function) -> None:
        """`n += 1` and `n[x] = n.get(x) + 1` on what outlives the call, where a condition asks."""
        shared = self._outliving(function)
        counted: dict[str, ast.AST] = {}
        for node in ast.walk(function):
            if isinstance(node, ast.AugAssign) and isinstance(node.value, ast.Constant):
                targets: list[ast.expr] = [node.target]
            elif isinstance(node, ast.Assign) and _adds_constant(node.value):
                targets = node.targets
            else:
                continue
            if {_root(target) for target in targets} & shared:
                # What is assigned along, `n = calls[x] = ...`, counts as well.
                counted |= {_counter(target): node for target in targets}
        for node in ast.walk(function):
            if isinstance(node, ast.If | ast.IfExp | ast.While):
                asked = {_counter(e) for e in ast.walk(node.test) if isinstance(e, ast.expr)}
                for each in sorted(asked & counted.keys()):
                    self.add("call-counter", "suspect", counted[each],
                             "counts calls and decides by the count")  # fmt: skip

    def _outliving(self, function: Function) -> set[str]:
        """Names in a function that are still there at the next call: module-level data, self."""
        stored = {
            name
            for name, statement in self.defined.items()
            if isinstance(statement, ast.Assign | ast.AnnAssign)
        }
        own = {
            node.id
            for node in ast.walk(function)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        declared = {
            name
            for node in ast.walk(function)
            if isinstance(node, ast.Global | ast.Nonlocal)
            for name in node.names
        }
        return (stored - own) | declared | {"self"}

    def _kept_outputs(self, entry: Function) -> None:
        """Results that are kept from call to call: in a module-level container, on an input."""
        stored = self._outliving(entry) - {"self"}
        inputs = {each.arg for each in entry.args.args} - {"self"}
        for node in ast.walk(entry):
            if (
                isinstance(node, ast.Return)
                and isinstance(node.value, ast.Subscript | ast.Call | ast.Attribute)
                and _container(node.value) in stored
            ):
                self.add("cached-output", "suspect", node, "returns what outlives a call")
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Attribute) and _root(target) in inputs:
                        self.add("cached-output", "suspect", node, "stores something on an input")

    def _unused_kernel(self) -> None:
        if (
            language_of(self.context.module) is Language.TRITON
            and self.reach.device
            and self.reach.functions
            and not self.reach.launched
        ):
            self.add("kernel-not-launched", "suspect", self.reach.device[0],
                     "is a GPU kernel, but a call reaches none")  # fmt: skip


def _used_as_key(node: ast.AST) -> str | None:
    """The variable by which a subscript, comparison or `get` looks something up."""
    match node:
        case ast.Subscript(slice=ast.Name(id=name)) | ast.Compare(left=ast.Name(id=name)):
            return name
        case ast.Call(func=ast.Attribute(attr="get" | "setdefault"), args=[ast.Name(id=name), *_]):
            return name
    return None


def _root(node: ast.expr) -> str:
    """The variable that an expression starts from: `a` for `a.b[c]`."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _counter(node: ast.expr) -> str:
    """What identifies a counter: `calls` for `calls[x]`, `self.calls` in full."""
    root = _root(node)
    return ast.unparse(node) if root in ("self", "") else root


def _container(node: ast.expr) -> str:
    """The variable that `a[b]`, `a[b].clone()` or `a.get(b)` takes from."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in ("get", "setdefault", "pop"):
            return _root(node.func.value)
        return _container(node.func.value)
    return _root(node) if isinstance(node, ast.Subscript) else ""


def _adds_constant(node: ast.expr) -> bool:
    """`x + 1`, or a choice between that and something else."""
    if isinstance(node, ast.IfExp):
        return _adds_constant(node.body) or _adds_constant(node.orelse)
    return (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Add | ast.Sub)
        and isinstance(node.right, ast.Constant)
    )


def _single_tf32(keyword: ast.keyword) -> bool:
    value = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
    return (keyword.arg, value) in {("input_precision", "tf32"), ("allow_tf32", True)}


def _written(node: ast.AST) -> str | None:
    """The variable that a statement writes into, in place."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)) if method.endswith(
            "_"
        ) and not method.endswith("__"):
            return None if method in ("requires_grad_", "retain_grad_") else name
        case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name))]):
            return name
        case ast.AugAssign(target=ast.Subscript(value=ast.Name(id=name))):
            return name
        case ast.keyword(arg="out", value=ast.Name(id=name)):
            return name
    return None
