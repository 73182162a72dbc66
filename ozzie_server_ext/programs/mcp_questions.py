"""What an MCP server asks a person during a call (elicitation), read from its flat schema."""

from typing import Any

from mcp_types import ElicitRequestFormParams, ElicitRequestURLParams, ElicitResult

from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.protocol.codec import InvalidShape, decode
from ozzie_server_ext.protocol.jsontext import InvalidJson, loads, repair_text
from ozzie_server_ext.protocol.tool_host import Choice, Elicit, Field, Given

MAX_FIELDS = 10
MAX_CHOICES = 50
_MAX_MESSAGE = 2000
_MAX_WORDS = 500
_MAX_NAME = 128
_MAX_URL = 4096
_KINDS = {"string": "text", "number": "number", "integer": "integer", "boolean": "boolean"}


class NotAskable(Exception):
    """Why nobody is asked; the text is a sentence for people."""


def question_of(call_id: str, params: ElicitRequestFormParams | ElicitRequestURLParams) -> Elicit:
    """Return the question. Raises NotAskable for one that is not flat, or too long to be read."""
    message = _text(params.message, _MAX_MESSAGE)
    if isinstance(params, ElicitRequestURLParams):
        if len(params.url) > _MAX_URL:
            raise NotAskable("It wants you to open an address that is too long to be read.")
        return Elicit(id=call_id, message=message, url=repair_text(params.url))
    schema: Any = params.requested_schema
    properties: Any = schema.get("properties") or {}
    required: Any = schema.get("required") or ()
    if not isinstance(properties, dict) or not isinstance(required, list | tuple):
        raise NotAskable("It asks you for something in a form that can't be read.")
    if len(properties) > MAX_FIELDS:
        raise NotAskable(f"It asks you for more than {MAX_FIELDS} things at once.")
    fields = tuple(_field(str(name), each, is_required=name in required) for name, each in properties.items())
    return Elicit(id=call_id, message=message, fields=fields)


def _field(name: str, schema: Any, *, is_required: bool) -> Field:
    if not isinstance(schema, dict) or len(name) > _MAX_NAME or name != repair_text(name):
        raise NotAskable("It asks you for something in a form that can't be read.")
    choices = _choices(schema)
    kind: Any = "choice" if choices else _KINDS.get(str(schema.get("type")))
    if kind is None:
        raise NotAskable("It asks you for more than a text, a number, a yes or a choice.")
    default = schema.get("default")
    is_text = kind == "text"
    return Field(
        name=name,
        kind=kind,
        title=_text(schema.get("title") or "", _MAX_NAME),
        description=_text(schema.get("description") or "", _MAX_WORDS),
        is_required=is_required,
        choices=choices,
        least=_number(schema.get("minLength" if is_text else "minimum")),
        most=_number(schema.get("maxLength" if is_text else "maximum")),
        format=_text(schema.get("format") or "", 32),
        default=repair_text(default)[:_MAX_WORDS] if isinstance(default, str) else _plain(default),
    )


def _choices(schema: dict[str, Any]) -> tuple[Choice, ...]:
    """Return the choices of a field, in each of the forms that the MCP knows; none for another kind of field."""
    titled: Any = schema.get("oneOf")
    values: Any = schema.get("enum")
    names: Any = schema.get("enumNames") or ()
    if isinstance(titled, list):
        pairs = [(each.get("const"), each.get("title")) for each in titled if isinstance(each, dict)]
    elif isinstance(values, list):
        if not isinstance(names, list | tuple):
            raise NotAskable("It asks you for something in a form that can't be read.")
        pairs = [(value, names[at] if at < len(names) else "") for at, value in enumerate(values)]
    else:
        return ()
    if not 0 < len(pairs) <= MAX_CHOICES or not all(isinstance(value, str) and value for value, _ in pairs):
        raise NotAskable(f"It offers you no choice of texts, or more than {MAX_CHOICES}.")
    return tuple(
        Choice(value=repair_text(str(value))[:_MAX_WORDS], title=_text(title or "", _MAX_NAME))
        for value, title in pairs
    )


def result_of(question: Elicit, text: str) -> ElicitResult:
    """Return the result for what the gateway answered. A broken one cancels."""
    try:
        given = decode(Given, loads(text.encode(), max_bytes=1 << 20))
    except (InvalidJson, InvalidShape):
        return ElicitResult(action="cancel")
    if given.action != "accept" or question.url:
        return ElicitResult(action=given.action)
    content: dict[str, Any] = {
        name: int(value) if isinstance(value, float) and value.is_integer() else value
        for name, value in given.values.items()
    }
    return ElicitResult(action=given.action, content=content)


def _text(value: Json, most: int) -> str:
    text = value if isinstance(value, str) else ""
    return repair_text(text if len(text) <= most else f"{text[: most - 1]}…")


def _number(value: Json) -> float | None:
    return (
        float(value) if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15 else None
    )


def _plain(value: Json) -> float | bool | None:
    return value if isinstance(value, bool) else _number(value)
