"""Answers that a program reads: their JSON Schema, and whether an answer fits it."""

from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from ozzie_server_ext.domain.errors import InputError, OzzieError
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.protocol.jsontext import InvalidJson, canonical_bytes, loads

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator
from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.planes.one_shot import ErrandEnded, ErrandFailed, run_errand
from ozzie_server_ext.protocol.jsontext import loads_object

MAX_SCHEMA_BYTES = 32 << 10
MAX_SCHEMA_DEPTH = 32
"""It travels within frames and lines, which may have 64 levels themselves."""
MAX_REJECTED = 2
"""How often an answer that does not fit is asked for anew. A model that misses three times misses the fourth, too."""
_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_MAX_PATTERN_BYTES = 1 << 17
_MAX_UNFOLDED = 1000
"""Schemas within a schema that a provider is given."""
_WIDTH = 300
_FENCE = "```"
_HIDDEN = "the value"
"""What a reason says instead of the value that does not fit, which may be long, and is the model's own anyway."""

Holding: TypeAlias = Literal["closed", "plain", ""]
"""What a provider can be told to hold an answer to (see `holding`)."""

_SUBSCHEMA = frozenset(
    {"additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then", "unevaluatedItems",
     "unevaluatedProperties"}
)  # fmt: skip
_SUBSCHEMAS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_NAMED_SUBSCHEMAS = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})
_CLOSED_KEYWORDS = frozenset(
    {"$defs", "$ref", "additionalProperties", "anyOf", "const", "description", "enum", "items", "properties",
     "required", "title", "type"}
)  # fmt: skip
_ROOT, _DEFINED = "#", "#/$defs/"
_ABOUT = frozenset({"$schema", "$id", "$comment"})
"""What a schema says of itself. Some providers refuse it."""
_NOT_ON_TOP = frozenset({"$ref", "anyOf", "const", "enum"})
"""What OpenAI's strict mode refuses at the top."""


class UnfitAnswer(OzzieError):
    """The model did not come to an answer of the wanted shape."""

    code = "answer.unfit"


def refused(sentence: str) -> InputError:
    """What is said of a schema that is not taken."""
    return InputError(sentence, hint="See json-schema.org for what a schema may say.", code="schema.invalid")


def expect_bounded(schema: JsonObject) -> None:
    """Raises InputError for a schema that is too large to be worked with."""
    try:
        loads(canonical_bytes(schema), max_bytes=MAX_SCHEMA_BYTES, max_depth=MAX_SCHEMA_DEPTH)
    except InvalidJson as error:
        most = f"{MAX_SCHEMA_BYTES >> 10} kB and {MAX_SCHEMA_DEPTH} levels"
        raise refused(f"The schema can't be taken; it may have {most}. {_cut(str(error))}.") from None


def check_schema(schema: JsonObject) -> None:
    """Raises InputError for what is no JSON Schema (draft 2020-12), or refers to anything outside itself."""
    draft = schema.get("$schema", _DRAFT)
    if not isinstance(draft, str) or draft.rstrip("#") != _DRAFT:
        raise refused(f"The schema says that it is written in {_cut(str(draft))}; it has to be draft 2020-12.")
    for ref in _references(schema):
        if not ref.startswith("#"):
            raise refused(f"The schema refers to {_cut(ref)}, and may refer to nothing but itself.")
    _validator(schema, mask=None)


def value_of(text: str) -> Json:
    """The JSON value that an answer is, alone or in one block of code, as models like to write it.

    Raises InvalidJson.
    """
    stripped = text.strip()
    if stripped.startswith(_FENCE) and stripped.endswith(_FENCE) and "\n" in stripped:
        stripped = stripped.partition("\n")[2].removesuffix(_FENCE)
    return loads(stripped)


def misfit(schema: JsonObject, text: str) -> str:
    """In what the answer `text` does not fit a schema that was checked, in one sentence; empty where it fits."""
    from jsonschema_rs import ValidationError

    try:
        _validator(schema, mask=_HIDDEN).validate(value_of(text))
    except InvalidJson as error:
        return f"It is not one JSON value: {_cut(str(error).removeprefix('Not JSON: '))}."
    except ValidationError as error:
        return f"At {_place(error.instance_path)}: {_cut(error.message)}."
    return ""


def unfit_answer(alias: str, problem: str, tries: int) -> UnfitAnswer:
    return UnfitAnswer(
        f'"{alias}" gave no answer that fits the schema, in {tries} {"try" if tries == 1 else "tries"}. {problem}',
        hint="Make the schema simpler, say in the message what is wanted, or choose another model with %model.",
    )


def complaint(problem: str) -> str:
    """What the model is told of an answer that does not fit."""
    return (
        f"Your answer does not fit the JSON Schema. {problem} "
        "Answer again, with one JSON value that fits it and nothing else."
    )


def bare(schema: JsonObject) -> JsonObject:
    """The schema as providers take it: without what it says of itself."""
    return {name: value for name, value in schema.items() if name not in _ABOUT}


def holding(schema: JsonObject) -> Holding:
    """How far providers can hold an answer to the bare schema. "closed": each part of it has a type, and each object
    lists all its properties as required and takes no others, which is what OpenAI's strict mode asks for (its guide
    "Structured outputs", supported schemas) and what litellm makes of a schema for Anthropic. "plain": an object
    without recursion, which a grammar can be made of. Empty: only looking at the answer helps."""
    if schema.get("type") != "object" or not _refers_plainly(schema) or not _unfolds(schema):
        return ""
    is_closed = not schema.keys() & _NOT_ON_TOP and all(_is_closed(part) for part in _parts(schema))
    return "closed" if is_closed else "plain"


def _is_closed(part: JsonObject) -> bool:
    if "$ref" in part:
        return part.keys() == {"$ref"}
    kind = part.get("type", [])
    types = {str(each) for each in (kind if isinstance(kind, list) else [kind])}
    if not part.keys() <= _CLOSED_KEYWORDS or not (types or "anyOf" in part):
        return False
    if any(not isinstance(each, dict) for name, each in _within(part) if name != "additionalProperties"):
        return False
    if "array" in types and "items" not in part:
        return False
    if "object" not in types and "properties" not in part:
        return True
    properties, required = part.get("properties"), part.get("required")
    if not isinstance(properties, dict) or not isinstance(required, list):
        return False
    return part.get("additionalProperties") is False and sorted(map(str, required)) == sorted(properties)


def _within(part: JsonObject) -> Iterator[tuple[str, Any]]:
    """The schemas directly within one, each with its keyword. What stands in `const`, `enum`, `default` or `examples`
    is none."""
    for name, value in part.items():
        if name in _SUBSCHEMA:
            yield name, value
        elif name in _SUBSCHEMAS and isinstance(value, list):
            yield from ((name, each) for each in value)
        elif name in _NAMED_SUBSCHEMAS and isinstance(value, dict):
            yield from ((name, each) for each in value.values())


def _parts(schema: JsonObject) -> Iterator[JsonObject]:
    """The schema and all schemas within it, but for those that are no more than true or false."""
    waiting: list[Any] = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            part = cast(JsonObject, part)
            yield part
            waiting.extend(each for _, each in _within(part))


def _refers_plainly(schema: JsonObject) -> bool:
    """Whether `$ref` stands nowhere but before the name of a definition, which is a schema: litellm takes what else has
    that name, a property or a constant, for a reference."""
    waiting: list[Any] = [schema]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if not str(value.get("$ref", _DEFINED)).startswith(_DEFINED):
                return False
            waiting.extend(cast(JsonObject, value).values())
        elif isinstance(value, list):
            waiting.extend(cast(list[Any], value))
    defined = schema.get("$defs", {})
    return isinstance(defined, dict) and all(isinstance(each, dict) for each in defined.values())


def _unfolds(schema: JsonObject) -> bool:
    """Whether it can be written without references, at a bearable length: it refers to nothing but its own
    definitions, and none of these comes back to itself. litellm writes it so for some providers."""
    defined = cast(JsonObject, schema.get("$defs", {}))
    # Nothing below the top may define anything: a name means one thing.
    below = (part.keys() for part in _parts(schema) if part is not schema)
    if "$dynamicRef" in schema or any(names & {"$defs", "$dynamicRef", "$id"} for names in below):
        return False
    named = {f"{_DEFINED}{name}": part for name, part in defined.items()} | {_ROOT: {**schema, "$defs": {}}}
    parts = {name: list(_parts(cast(JsonObject, part))) for name, part in named.items()}
    refs = {name: [str(each["$ref"]) for each in found if "$ref" in each] for name, found in parts.items()}
    try:
        order = list(TopologicalSorter(refs).static_order())
    except CycleError:
        return False
    if not set(order) <= named.keys():
        return False
    sizes: dict[str, int] = {}
    for name in order:
        sizes[name] = min(len(parts[name]) + sum(sizes[ref] for ref in refs[name]), _MAX_UNFOLDED + 1)
    return sizes[_ROOT] <= _MAX_UNFOLDED


def _validator(schema: JsonObject, *, mask: str | None) -> "Draft202012Validator":
    from jsonschema_rs import Draft202012Validator, ReferencingError, RegexOptions, ValidationError

    try:
        return Draft202012Validator(
            schema,
            mask=mask,
            pattern_options=RegexOptions(size_limit=_MAX_PATTERN_BYTES, dfa_size_limit=_MAX_PATTERN_BYTES),
            offline=True,  # nothing is ever fetched for a schema
        )
    except ValidationError as error:
        place, why = _place(error.instance_path), _cut(error.message)
        raise refused(f"The schema is no JSON Schema, at {place}: {why}.") from None
    except (ReferencingError, ValueError) as error:
        raise refused(f"The schema can't be followed: {_cut(str(error))}.") from None


def _references(schema: JsonObject) -> Iterator[str]:
    """All that it refers to."""
    for part in _parts(schema):
        for name in ("$ref", "$dynamicRef"):
            if isinstance(ref := part.get(name), str):
                yield ref


def _place(path: list[str | int]) -> str:
    return _cut("$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path))


def _cut(text: str) -> str:
    line = " ".join(text.split()).rstrip(".")
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1]}…"


_PROGRAM = "ozzie_server_ext.programs.fits"
_log = logger(__name__)


async def expect_schema(schema: JsonObject) -> None:
    """Raises InputError where `schema` is none that `shape.check_schema` takes, or where that can't be seen within
    seconds; Unavailable where nothing can be looked at."""
    expect_bounded(schema)
    try:
        told = await _looked_at({"schema": schema})
    except ErrandEnded:
        raise refused("The schema takes too much time or memory to be looked at.") from None
    if sentence := told.get("refused"):
        raise refused(str(sentence))


async def find_misfit(schema: JsonObject, text: str) -> str:
    """What `shape.misfit` finds. Raises UnfitAnswer where it comes to no end, Unavailable where nothing can be looked
    at."""
    try:
        told = await _looked_at({"schema": schema, "text": text})
    except ErrandEnded:
        raise UnfitAnswer(
            "Whether the answer fits the schema can't be found out: it takes too much time or memory.",
            hint="The answer is kept. Make the schema simpler.",
        ) from None
    return str(told["problem"])


async def _looked_at(asked: JsonObject) -> JsonObject:
    try:
        return loads_object(await run_errand(_PROGRAM, canonical_bytes(asked)))
    except ErrandEnded:
        raise
    except ErrandFailed as error:
        _log.warning("nothing can be looked at by a schema: %s", error)
        raise Unavailable(
            "The process that looks at JSON Schemas failed.",
            hint="The log of Ozzie has the details. Try again once that is mended.",
            code="schema.unavailable",
        ) from None
