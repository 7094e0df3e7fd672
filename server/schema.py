"""The published OpenAPI document: errors are problem documents, and every field says what it is."""

from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel

from kb.docstrings import field_docstrings
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
        for name, text in field_docstrings(model).items():
            if name in fields:
                fields[name].setdefault("description", text.replace("\n", " "))
    return document


def _models(base: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for model in base.__subclasses__():
        yield model
        yield from _models(model)
