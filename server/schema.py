"""The published OpenAPI document: errors are problem documents, and every field says what it is."""

import ast
import inspect
import itertools
from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel

from server.problems import Problem


def publish_schema(app: FastAPI) -> None:
    """Make `app.openapi` return the document that `/openapi.json` and the API's page show."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _document(app: FastAPI) -> dict[str, Any]:
    document = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes
    )
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas |= problem.pop("$defs", {}) | {"Problem": problem}
    schemas.pop("HTTPValidationError", None)
    schemas.pop("ValidationError", None)
    for model in _models(BaseModel):
        fields = schemas.get(model.__name__, {}).get("properties", {})
        for name, text in _field_docstrings(model).items():
            if name in fields:
                fields[name].setdefault("description", text)
    return document


def _models(base: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for model in base.__subclasses__():
        yield model
        yield from _models(model)


def _field_docstrings(model: type[BaseModel]) -> dict[str, str]:
    """Field → the string that stands under it, in the class itself or in one that it extends.

    Pydantic can read these when it makes a class; here only a server that is asked for its
    document pays for reading the sources.
    """
    found: dict[str, str] = {}
    for owner in model.__mro__:
        module = inspect.getmodule(owner)
        if owner is BaseModel or module is None:
            break
        for name, text in _docstrings(module).get(owner.__name__, {}).items():
            found.setdefault(name, text)
    return found


@cache
def _docstrings(module: ModuleType) -> dict[str, dict[str, str]]:
    """Class → field → docstring, of the classes of a module."""
    try:
        tree = ast.parse(inspect.getsource(module))
    except (OSError, TypeError):  # no source, as for a class that was made while running
        return {}
    return {node.name: _under(node.body) for node in tree.body if isinstance(node, ast.ClassDef)}


def _under(body: list[ast.stmt]) -> dict[str, str]:
    found = {}
    for pair in itertools.pairwise(body):
        match pair:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=text)):
                found[name] = inspect.cleandoc(str(text)).replace("\n", " ")
    return found
