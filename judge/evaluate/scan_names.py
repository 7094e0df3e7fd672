"""What names in a Python file stand for: `t.matmul` is `torch.matmul` after `import torch as t`."""

import ast

_IMPORTERS = frozenset({"__import__", "builtins.__import__", "importlib.import_module"})
_DICTIONARIES = frozenset({"vars", "builtins.vars"})


class Names:
    """Resolves expressions to dotted names through imports, aliases, getattr and module dicts.

    Aliases are taken from the whole file, whatever their scope: a name that ever stands for
    `torch.matmul` is read as that wherever it occurs, unless it is also a function's parameter
    there. That errs towards naming too much, never too little.
    """

    def __init__(self, module: ast.Module) -> None:
        self.aliases: dict[str, str] = {"__builtins__": "builtins"}
        assignments: list[tuple[str, ast.expr]] = []
        for node in ast.walk(module):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    package = alias.name.partition(".")[0]
                    self.aliases[alias.asname or package] = alias.name if alias.asname else package
            elif isinstance(node, ast.ImportFrom):
                base = "." * node.level + (node.module or "")
                for alias in node.names:
                    self.aliases[alias.asname or alias.name] = f"{base}.{alias.name}"
            elif isinstance(node, ast.Assign):
                assignments += [(t.id, node.value) for t in node.targets if isinstance(t, ast.Name)]
            elif isinstance(node, ast.NamedExpr):
                assignments.append((node.target.id, node.value))
        # An alias of an alias needs another pass; three levels are more than any file has.
        for _ in range(3):
            for name, value in assignments:
                target = self.resolve(value)
                if target is not None and target.partition(".")[0] != name:
                    self.aliases.setdefault(name, target)

    def resolve(self, node: ast.expr) -> str | None:
        """The dotted name that an expression stands for; None if it is not a plain name.

        A name without import or alias stands for itself, as builtins do.
        """
        match node:
            case ast.Name(id=name):
                return self.aliases.get(name, name)
            case ast.Attribute(value=base, attr=attribute):
                return self._member(base, attribute)
            case ast.Call(func=function, args=[argument, *rest]):
                return self._call(self.resolve(function), argument, rest)
            case ast.Subscript(value=base, slice=key) if (text := text_of(key)) is not None:
                return self._item(base, text)
        return None

    def _member(self, base: ast.expr, attribute: str) -> str | None:
        resolved = self.resolve(base)
        return None if resolved is None else f"{resolved}.{attribute}"

    def _call(self, function: str | None, argument: ast.expr, rest: list[ast.expr]) -> str | None:
        text = text_of(argument)
        if function in _IMPORTERS and text is not None:
            return text if function == "importlib.import_module" else text.partition(".")[0]
        if function in ("getattr", "builtins.getattr") and rest:
            attribute = text_of(rest[0])
            return None if attribute is None else self._member(argument, attribute)
        return None

    def _item(self, base: ast.expr, key: str) -> str | None:
        """`vars(torch)["x"]`, `torch.__dict__["x"]`, `globals()["x"]`, `sys.modules["x"]`."""
        match base:
            case ast.Call(func=function, args=[argument]):
                if self.resolve(function) in _DICTIONARIES:
                    return self._member(argument, key)
            case ast.Call(func=ast.Name(id="globals" | "locals"), args=[]):
                return self.aliases.get(key, key)
            case ast.Attribute(value=value, attr="__dict__"):
                return self._member(value, key)
        return key if self.resolve(base) == "sys.modules" else None


def text_of(node: ast.expr) -> str | None:
    """A string literal's value, concatenations and f-strings of literals included."""
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            first, second = text_of(left), text_of(right)
            return None if first is None or second is None else first + second
        case ast.Call(
            func=ast.Attribute(value=ast.Constant(value=str() as separator), attr="join"),
            args=[ast.Tuple(elts=elements) | ast.List(elts=elements)],
        ):
            texts = [text_of(part) for part in elements]
            return None if None in texts else separator.join(p for p in texts if p is not None)
        case ast.JoinedStr(values=values):
            parts = [
                text_of(part.value if isinstance(part, ast.FormattedValue) else part)
                for part in values
            ]
            return None if None in parts else "".join(part for part in parts if part is not None)
    return None
