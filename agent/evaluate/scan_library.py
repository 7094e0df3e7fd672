"""Checks for work that a kernel leaves to a library: ATen, cuBLAS, torch.compile."""

import ast

from agent.evaluate import scan_tables as tables
from agent.evaluate.scan_context import Check, Context
from agent.evaluate.scan_names import within

_RULE = "library-call"
_COMPILERS = ("torch.compile", "torch.jit.script", "torch.jit.trace", "torch.jit.freeze",
              "torch._dynamo.optimize", "torch.export", "torch._inductor.compile")  # fmt: skip


class LibraryChecks(Check):
    """Looks at what a call of the kernel runs; building layers in `__init__` is no work."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.layers = self._layers()
        imported = context.names.imported
        self.modules = {context.names.aliases[each].partition(".")[0] for each in imported}

    def run(self) -> None:
        """Add findings for library calls and for falling back on them."""
        for node in self.context.called:
            self._library(node)
            self._fallback(node)

    def _layers(self) -> set[str]:
        found = set()
        for node in self.context.host:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                name = self.names.resolve(node.value.func)
                if _is_layer(name):
                    found |= {t.attr for t in node.targets if isinstance(t, ast.Attribute)}
                    found |= {t.id for t in node.targets if isinstance(t, ast.Name)}
        return found

    def _library(self, node: ast.AST) -> None:
        if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.MatMult):
            self.add(_RULE, "disclose", node, "multiplies matrices with PyTorch's operator")
        if not isinstance(node, ast.Call):
            return
        name = self.names.resolve(node.func)
        if why := _library_function(name):
            self.add(_RULE, "disclose", node, why)
        elif isinstance(node.func, ast.Call) and _is_layer(self.names.resolve(node.func.func)):
            self.add(_RULE, "disclose", node, "calls a layer of torch.nn")
        elif isinstance(node.func, ast.Attribute):
            self._method(node, node.func, name)
        elif isinstance(node.func, ast.Name) and node.func.id in self.layers:
            self.add(_RULE, "disclose", node, "calls a layer of torch.nn")

    def _method(self, call: ast.Call, function: ast.Attribute, name: str | None) -> None:
        root = name.partition(".")[0] if name else None
        if isinstance(function.value, ast.Name) and function.value.id == "self":
            if function.attr in self.layers:
                self.add(_RULE, "disclose", call, "calls a layer of torch.nn")
        elif (
            function.attr in tables.TENSOR_WORK_METHODS
            and root not in self.modules
            and not (isinstance(function.value, ast.Call) and _is_super(function.value))
        ):
            self.add(_RULE, "disclose", call, "computes with a method of tensors")

    def _fallback(self, node: ast.AST) -> None:
        if not isinstance(node, ast.Try):
            return
        for handler in node.handlers:
            for each in ast.walk(handler):
                if not isinstance(each, ast.Call):
                    continue
                name = self.names.resolve(each.func)
                method = isinstance(each.func, ast.Attribute) and (
                    each.func.attr in tables.TENSOR_WORK_METHODS | self.layers
                )
                if _library_function(name) or method or name in ("Model", "reference"):
                    self.add("fallback", "suspect", each,
                             "falls back on a library where the kernel raises")  # fmt: skip


def _library_function(name: str | None) -> str | None:  # noqa: PLR0911 (a list of cases)
    """What a call of this name leaves to a library; None if nothing."""
    if name is None or not within(name, "torch"):
        return None
    last = name.rpartition(".")[2]
    if within(name, *_COMPILERS):
        return "has PyTorch compile the work"
    if within(name, *tables.TORCH_WORK_SPACES):
        return None if last in tables.FUNCTIONAL_HELPERS else "calls PyTorch for the work"
    if within(name, "torch.Tensor"):
        return "calls PyTorch for the work" if last in tables.TENSOR_WORK_METHODS else None
    if within(name, *tables.TORCH_HELPER_SPACES) or name.split(".")[1] in tables.TORCH_HELPERS:
        return None
    if within(name, "torch.nn") or last[:1].isupper():
        return None  # a layer or a type is made, not called
    return "calls PyTorch for the work"


def _is_layer(name: str | None) -> bool:
    last = (name or "").rpartition(".")[2]
    return within(name, "torch.nn") and last[:1].isupper() and last not in (
        "Parameter", "Module", "ParameterList", "ParameterDict", "Buffer",
        "UninitializedParameter", "Identity",
    )  # fmt: skip


def _is_super(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id == "super"
