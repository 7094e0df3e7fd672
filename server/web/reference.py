"""The HTTP API as a page: operations and shapes, read from the published OpenAPI document."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from markupsafe import Markup, escape

from server.web.markup import anchor

_METHODS = ("get", "post", "put", "patch", "delete")
_REF = "#/components/schemas/"
_PROBLEM = "Problem"
# JSON Schema's names of types → words; others stand as they are.
_TYPES = {"string": "text", "integer": "whole number", "boolean": "true or false"}
# Limits of a schema → how they are said.
_LIMITS = {
    "minimum": "at least {}", "exclusiveMinimum": "above {}",
    "maximum": "at most {}", "exclusiveMaximum": "below {}",
    "minLength": "at least {} characters", "maxLength": "at most {} characters",
    "minItems": "at least {} values", "maxItems": "at most {} values",
    "maxProperties": "at most {} keys",
}  # fmt: skip

Schema = Mapping[str, Any]


class Field(NamedTuple):
    """A parameter of an operation, or a field of a shape."""

    name: str
    type: Markup
    note: str
    """Whether it must be given, what it is by default, and its limits."""
    description: str


class Operation(NamedTuple):
    """One method of one address."""

    method: str
    path: str
    summary: str
    description: str
    parameters: list[Field]
    body: Markup | None
    """The shape of what is sent."""
    fields: list[Field]
    """Those of the body."""
    answers: dict[str, Markup | None]
    """Status → shape of the good ones; errors have one shape everywhere."""


class Shape(NamedTuple):
    """A named schema."""

    name: str
    description: str
    fields: list[Field]
    values: Markup | None
    """What it is where it has no fields."""


class Reference(NamedTuple):
    """All of the API."""

    description: str
    operations: list[Operation]
    errors: list[tuple[str, str]]
    """Statuses whose body is a problem document, of any operation, and what they are called."""
    shapes: list[Shape]


def reference(document: Schema) -> Reference:
    """Read an OpenAPI 3.1 document."""
    schemas = document.get("components", {}).get("schemas", {})
    operations = [
        (path, method, item[method])
        for path, item in document.get("paths", {}).items()
        for method in _METHODS
        if method in item
    ]
    answers = [pair for _, _, spec in operations for pair in spec.get("responses", {}).items()]
    errors = {status: answer["description"] for status, answer in answers if _is_problem(answer)}
    return Reference(
        description=document["info"].get("description", ""),
        operations=[_operation(path, method, spec, schemas) for path, method, spec in operations],
        errors=sorted(errors.items()),
        shapes=[_shape(name, schema) for name, schema in sorted(schemas.items())],
    )


def _operation(path: str, method: str, operation: Schema, schemas: Schema) -> Operation:
    body = _content(operation.get("requestBody", {}))
    return Operation(
        method=method.upper(),
        path=path,
        summary=operation.get("summary", ""),
        description=operation.get("description", ""),
        parameters=[
            _field(param["name"], param["schema"] | param, param.get("required", False))
            for param in operation.get("parameters", ())
        ],
        body=_type(body) if body is not None else None,
        fields=_fields(schemas.get(body.get("$ref", "").removeprefix(_REF), body)) if body else [],
        answers={
            status: None if (schema := _content(answer)) is None else _type(schema)
            for status, answer in operation.get("responses", {}).items()
            if not _is_problem(answer)
        },
    )


def _shape(name: str, schema: Schema) -> Shape:
    fields = _fields(schema)
    return Shape(name, schema.get("description", ""), fields, None if fields else _type(schema))


def _fields(schema: Schema) -> list[Field]:
    required = schema.get("required", ())
    return [
        _field(name, field, name in required)
        for name, field in schema.get("properties", {}).items()
    ]


def _field(name: str, schema: Schema, required: bool) -> Field:
    notes = ["required"] if required else []
    if isinstance(schema.get("default"), str | int | float) and schema["default"] != "":
        notes.append(f"default {_literal(schema['default'])}")
    limits = {key: branch[key] for branch in _branches(schema) for key in _LIMITS if key in branch}
    notes += [_LIMITS[key].format(f"{value:,.10g}") for key, value in limits.items()]
    return Field(name, _type(schema), ", ".join(notes), schema.get("description", ""))


def _type(schema: Schema) -> Markup:
    """What a value is, in words; a named shape is a link to it."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_REF)
        return Markup('<a href="#{}">{}</a>').format(anchor(f"shape {name}"), name)
    branches = _branches(schema)
    if branches != [schema]:
        return Markup(" or ").join(dict.fromkeys(_type(branch) for branch in branches))
    if values := schema.get("enum", [schema["const"]] if "const" in schema else []):
        return Markup(", ").join(Markup("<code>{}</code>").format(_literal(one)) for one in values)
    kind, inner = schema.get("type", "any value"), schema.get("additionalProperties")
    if kind == "array":
        return Markup("list of {}").format(_type(schema.get("items", {})))
    if kind == "object" and isinstance(inner, Mapping):
        return Markup("object: name → {}").format(_type(inner))
    return escape(schema.get("format") or _TYPES.get(kind, kind))


def _branches(schema: Schema) -> list[Schema]:
    """The alternatives of a schema, or itself; null is left out: such a field may be left out."""
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return [branch for branch in schema[key] if branch.get("type") != "null"]
    return [schema]


def _literal(value: object) -> str:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)


def _content(part: Schema) -> Schema | None:
    """The schema of what is sent or answered; None where there is none."""
    for media in part.get("content", {}).values():
        schema: Schema = media.get("schema", {})
        return schema or None
    return None


def _is_problem(answer: Schema) -> bool:
    return (_content(answer) or {}).get("$ref") == _REF + _PROBLEM
