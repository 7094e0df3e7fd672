"""Descriptions of fields in JSON schemas, read from the docstrings under them.

Pydantic can read them when it makes a class, but then each process that imports the class pays for
parsing its source. Here only the making of a schema does.
"""

import ast
import inspect
import itertools
from functools import cache
from types import ModuleType
from typing import Any

from pydantic import BaseModel

from kb.parsing import PARSING


def describe_fields(schema: dict[str, Any], model: type[BaseModel]) -> None:
    """Add the docstrings of fields to their JSON schemas: a `json_schema_extra` of pydantic's."""
    fields = schema.get("properties", {})
    for name, text in field_docstrings(model).items():
        if name in fields:
            fields[name].setdefault("description", text)


def field_docstrings(model: type[BaseModel]) -> dict[str, str]:
    """Field → the string that stands under it, in the class itself or in one that it extends."""
    descriptions: dict[str, str] = {}
    for owner in model.__mro__:
        module = inspect.getmodule(owner)
        if owner is BaseModel or module is None:
            break
        for name, text in _docstrings(module).get(owner.__name__, {}).items():
            descriptions.setdefault(name, text)
    return descriptions


@cache
def _docstrings(module: ModuleType) -> dict[str, dict[str, str]]:
    """Class → field → docstring, of the classes of a module."""
    try:
        source = inspect.getsource(module)
    except (OSError, TypeError):  # no source, as for a class that was made while running
        return {}
    with PARSING:
        tree = ast.parse(source)
    return {node.name: _strings(node.body) for node in tree.body if isinstance(node, ast.ClassDef)}


def _strings(body: list[ast.stmt]) -> dict[str, str]:
    docstrings = {}
    for pair in itertools.pairwise(body):
        match pair:
            case [
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=text)),
            ]:
                docstrings[name] = inspect.cleandoc(str(text))
    return docstrings
