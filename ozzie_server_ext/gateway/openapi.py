"""The OpenAPI document, made from the table of operations and their types."""

import json
import re
from collections.abc import Iterable
from functools import cache
from http.client import responses
from importlib.metadata import version
from inspect import cleandoc
from types import NoneType
from typing import Any, TypeAlias, get_origin

import msgspec

from ozzie_server_ext.gateway.operation import Operation
from ozzie_server_ext.gateway.rest.shapes import Download, Error

Described: TypeAlias = dict[str, Any]
"""A part of the document."""

_REF = "#/components/schemas/{name}"
_RESPONSE = "#/components/responses/{name}"
_PAGE_OF = re.compile(r"\bPage_(\w+?)_(?=\")")

_ABOUT = """\
What Ozzie does and has done, and what it is to do. Lists are `{items, next}`: give `next` as `cursor` to get the rest.
Refusals are `{code, message, hint}`. GET answers HEAD too. Parameters and fields that are not described are refused.

Authentication is Jupyter's own, or the token of Ozzie's handshake file; a token in a URL is never accepted. The
WebSocket at `/ozzie/api/ws` is described in SPEC.md."""

_REFUSED = {
    400: "The request can't be taken as it is; the message says why.",
    403: "Who asks is not known, or may not do this.",
    404: "What was named does not exist.",
    409: "The thing is not in a state that allows this.",
    410: "It was there, and was erased; the message says when and why.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    503: "Ozzie does not run in this server, or something that it needs does not answer.",
}


@cache
def document(operations: tuple[Operation, ...], prefix: str) -> Described:
    """Return the OpenAPI 3.1 document of these operations, below the server's root and `prefix`."""
    schemas = _components(operations)
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        described = _operation(operation, schemas)
        for status, kind in operation.answers.items():
            if operation.method == "POST" and (links := _links(schemas, shape_name(kind), operations)):
                described["responses"][str(status)]["links"] = links
        paths.setdefault(operation.path, {})[operation.method.lower()] = described
    answers = {name: schema for name, schema in schemas.items() if not _is_request(name, operations)}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Ozzie", "version": version("jupyter-ozzie"), "description": _ABOUT},
        "servers": [{"url": prefix}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": answers,
            "responses": {_refusal_name(status): _refusal(status) for status in _REFUSED},
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token of Jupyter's, or that of Ozzie's handshake file.",
                }
            },
        },
    }


def _components(operations: Iterable[Operation]) -> dict[str, Any]:
    """Return the schema of every type, by name."""
    kinds: list[Any] = [Error]
    for operation in operations:
        kinds += [operation.request_type, *(kind for kind in operation.answers.values() if _has_shape(kind))]
    _, schemas = msgspec.json.schema_components(kinds, ref_template=_REF)
    # A page of tasks is called TaskPage, not Page_Task_.
    return json.loads(_PAGE_OF.sub(r"\1Page", json.dumps(schemas)))


def _is_request(name: str, operations: Iterable[Operation]) -> bool:
    return any(operation.request_type.__name__ == name for operation in operations)


def _operation(operation: Operation, schemas: dict[str, Any]) -> Described:
    request = schemas[operation.request_type.__name__]
    summary, _, more = operation.description.partition("\n\n")
    described: Described = {
        "operationId": operation.name,
        "summary": " ".join(summary.split()),
        "tags": [operation.path.split("/")[1]],
        "parameters": [_parameter(operation, request, name) for name in operation.in_path],
        "responses": {
            **{str(status): _answer(status, kind) for status, kind in operation.answers.items()},
            **{
                str(status): {"$ref": f"#/components/responses/{_refusal_name(status)}"}
                for status in operation.refusals
            },
        },
    }
    details = "\n\n".join(filter(None, [more, cleandoc(request.get("description", ""))]))
    if details and details != "No parameters.":
        described["description"] = details
    if operation.method == "GET":
        described["parameters"] += [_parameter(operation, request, name) for name in operation.beside_path]
    elif operation.method == "POST":
        described["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": _body(operation, request)}},
        }
    return described


def _links(schemas: dict[str, Any], answer: str, operations: Iterable[Operation]) -> Described:
    """Link an answer to the operations on the objects that it names."""
    named = {name: name for name in schemas[answer]["properties"] if name.endswith("_id")}
    if answer == "Session":
        named = {"session_id": "id"}
    return {
        operation.name: {
            "operationId": operation.name,
            "parameters": {name: f"$response.body#/{named[name]}" for name in operation.in_path},
        }
        for operation in operations
        if operation.in_path and set(operation.in_path) <= set(named)
    }


def _parameter(operation: Operation, request: dict[str, Any], name: str) -> Described:
    schema = dict(request["properties"][name])
    said = {"description": schema.pop("description")} if "description" in schema else {}
    if "anyOf" in schema and {"type": "null"} in schema["anyOf"]:  # optional, never null
        (schema,) = (kind for kind in schema["anyOf"] if kind != {"type": "null"})
    if schema.get("default") in (None, []):
        schema.pop("default", None)
    if "description" in schema:
        said = {"description": schema.pop("description")}
    in_path = name in operation.in_path
    required = in_path or name in request.get("required", [])
    return {"name": name, "in": "path" if in_path else "query", "required": required, **said, "schema": schema}


def _body(operation: Operation, request: dict[str, Any]) -> Described:
    required = [name for name in request.get("required", []) if name in operation.beside_path]
    return {
        "type": "object",
        "properties": {name: request["properties"][name] for name in operation.beside_path},
        "additionalProperties": False,
        **({"required": required} if required else {}),
    }


def _has_shape(kind: Any) -> bool:
    return kind not in (NoneType, Download) and get_origin(kind) is not dict


def _answer(status: int, kind: type) -> Described:
    if kind is NoneType:
        return {"description": f"{responses[status]}."}
    if kind is Download:  # of any media type
        return {"description": f"{responses[status]}.", "content": {"*/*": {"schema": {}}}}
    schema = {"type": "object"} if get_origin(kind) is dict else {"$ref": _REF.format(name=shape_name(kind))}
    return {"description": f"{responses[status]}.", "content": {"application/json": {"schema": schema}}}


def shape_name(kind: Any) -> str:
    """Return the type's name in the document."""
    of = getattr(kind, "__args__", ())
    return f"{of[0].__name__}{kind.__origin__.__name__}" if of else kind.__name__


def _refusal_name(status: int) -> str:
    return re.sub(r"\W", "", responses[status].title())


def _refusal(status: int) -> Described:
    schema = {"$ref": _REF.format(name="Error")}
    return {"description": _REFUSED[status], "content": {"application/json": {"schema": schema}}}
