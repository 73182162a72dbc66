"""Structured answers: their JSON Schema, whether an answer fits it, and whether providers can enforce it."""

from collections.abc import Iterator
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from ozzie_server_ext.domain.errors import InputError, OzzieError, Unavailable
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.planes.one_shot import ErrandEnded, ErrandFailed, run_errand
from ozzie_server_ext.protocol.answers import value_of
from ozzie_server_ext.protocol.jsontext import InvalidJson, canonical_bytes, loads, loads_object

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator

_log = logger(__name__)

_PROGRAM = "ozzie_server_ext.programs.fits"
MAX_SCHEMA_BYTES = 32 << 10
MAX_SCHEMA_DEPTH = 32
"""Frames and lines around a schema may have 64 levels in all."""
MAX_REJECTED = 2
"""How often an answer may be rejected and requested again. A model that fails three times fails again."""
_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_MAX_PATTERN_BYTES = 1 << 17
_MAX_UNFOLDED = 1000
"""The number of subschemas, without references, of a schema for providers."""
_WIDTH = 300
_HIDDEN = "the value"
"""Replaces the invalid value in a message: it may be long, and the model knows it."""

Enforcement: TypeAlias = Literal["closed", "plain", ""]
"""Which schemas a provider can enforce (see `enforcement`)."""

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
"""Metadata of a schema. Some providers refuse it."""
_NOT_ON_TOP = frozenset({"$ref", "anyOf", "const", "enum"})
"""Keywords that OpenAI's strict mode refuses at the top level."""


class UnfitAnswer(OzzieError):
    """The model gave no answer that fits the schema."""

    code = "answer.unfit"


def refused(sentence: str) -> InputError:
    """Return the error for an invalid schema."""
    return InputError(sentence, hint="See json-schema.org for what a schema may say.", code="schema.invalid")


def expect_bounded(schema: JsonObject) -> None:
    """Raise InputError if the schema is too large."""
    try:
        loads(canonical_bytes(schema), max_bytes=MAX_SCHEMA_BYTES, max_depth=MAX_SCHEMA_DEPTH)
    except InvalidJson as error:
        most = f"{MAX_SCHEMA_BYTES >> 10} kB and {MAX_SCHEMA_DEPTH} levels"
        raise refused(f"The schema is too large; it may have {most}. {_cut(str(error))}.") from None


def check_schema(schema: JsonObject) -> None:
    """Raise InputError if it is no JSON Schema (draft 2020-12), or if it refers to anything outside itself."""
    draft = schema.get("$schema", _DRAFT)
    if not isinstance(draft, str) or draft.rstrip("#") != _DRAFT:
        raise refused(f"The schema says that it is written in {_cut(str(draft))}; it has to be draft 2020-12.")
    for ref in _references(schema):
        if not ref.startswith("#"):
            raise refused(f"The schema refers to {_cut(ref)}; it may refer only to itself.")
    _validator(schema, mask=None)


def misfit(schema: JsonObject, text: str) -> str:
    """Return a sentence why the answer `text` does not fit a checked schema; empty if it fits."""
    try:
        value = value_of(text)
    except InvalidJson as error:
        return f"It is not one JSON value: {_cut(str(error).removeprefix('Not JSON: '))}."
    return Fitting(schema).misfit(value)


class Fitting:
    """Compares values with a checked schema, which is made ready once, for the first of them."""

    def __init__(self, schema: JsonObject) -> None:
        self._schema = schema

    def misfit(self, value: Json) -> str:
        """Return a sentence why a value does not fit; empty if it fits."""
        from jsonschema_rs import ValidationError

        try:
            self._validator.validate(value)
        except ValidationError as error:
            return f"At {_place(error.instance_path)}: {_cut(error.message)}."
        return ""

    @cached_property
    def _validator(self) -> "Draft202012Validator":
        return _validator(self._schema, mask=_HIDDEN)


def unfit_answer(alias: str, problem: str, tries: int) -> UnfitAnswer:
    return UnfitAnswer(
        f'"{alias}" gave no answer that fits the schema, in {tries} {"try" if tries == 1 else "tries"}. {problem}',
        hint="Make the schema simpler, say in the message what is wanted, or choose another model with %model.",
    )


def complaint(problem: str) -> str:
    """Return the message to the model about an answer that does not fit."""
    return (
        f"Your answer does not fit the JSON Schema. {problem} "
        "Answer again, with one JSON value that fits it and nothing else."
    )


def without_metadata(schema: JsonObject) -> JsonObject:
    """Return the schema as providers accept it."""
    return {name: value for name, value in schema.items() if name not in _ABOUT}


def enforcement(schema: JsonObject) -> Enforcement:
    """Return how providers can enforce a schema without metadata.

    - "closed": each part has a type, and each object requires all of its properties and allows no others. OpenAI's
      strict mode demands that (its guide "Structured outputs", supported schemas), and litellm makes it of any schema
      for Anthropic.
    - "plain": an object without recursion, which a grammar can be made of.
    - "": not at all; the answer must be validated.
    """
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
    """Yield the direct subschemas with their keywords. Values in `const`, `enum`, `default` or `examples` are none."""
    for name, value in part.items():
        if name in _SUBSCHEMA:
            yield name, value
        elif name in _SUBSCHEMAS and isinstance(value, list):
            yield from ((name, each) for each in value)
        elif name in _NAMED_SUBSCHEMAS and isinstance(value, dict):
            yield from ((name, each) for each in value.values())


def _parts(schema: JsonObject) -> Iterator[JsonObject]:
    """Yield the schema and all of its subschemas, without those that are just true or false."""
    waiting: list[Any] = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            part = cast(JsonObject, part)
            yield part
            waiting.extend(each for _, each in _within(part))


def _refers_plainly(schema: JsonObject) -> bool:
    """Whether every `$ref` names a definition that is a schema. litellm also takes a property or a constant of that
    name for a reference."""
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
    """Whether it can be written without references and stays short enough, as litellm does for some providers: it
    refers to its own definitions only, and none is recursive."""
    defined = cast(JsonObject, schema.get("$defs", {}))
    # Subschemas may have no definitions, so that names are unique.
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
            offline=True,  # never fetch anything for a schema
        )
    except ValidationError as error:
        place, why = _place(error.instance_path), _cut(error.message)
        raise refused(f"The schema is no JSON Schema, at {place}: {why}.") from None
    except (ReferencingError, ValueError) as error:
        raise refused(f"The schema can't be followed: {_cut(str(error))}.") from None


def _references(schema: JsonObject) -> Iterator[str]:
    for part in _parts(schema):
        for name in ("$ref", "$dynamicRef"):
            if isinstance(ref := part.get(name), str):
                yield ref


def _place(path: list[str | int]) -> str:
    return _cut("$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path))


def _cut(text: str) -> str:
    line = " ".join(text.split()).rstrip(".")
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1]}…"


async def expect_schema(schema: JsonObject) -> None:
    """Run `check_schema` in another process. Raises InputError if it fails or takes too long, Unavailable if the
    process fails."""
    expect_bounded(schema)
    try:
        result = await _in_process({"schema": schema})
    except ErrandEnded:
        raise refused("The schema takes too much time or memory to check.") from None
    if sentence := result.get("refused"):
        raise refused(str(sentence))


async def find_misfit(schema: JsonObject, text: str) -> str:
    """Run `misfit` in another process. Raises UnfitAnswer if it takes too long, Unavailable if the process fails."""
    try:
        result = await _in_process({"schema": schema, "text": text})
    except ErrandEnded:
        raise not_checked() from None
    return str(result["problem"])


NOT_CHECKED = "The answer can't be checked by the schema: that takes too much time or memory."


def not_checked() -> UnfitAnswer:
    """Return the error for an answer whose check takes too long."""
    return UnfitAnswer(NOT_CHECKED, hint="The answer is kept. Make the schema simpler.")


async def _in_process(request: JsonObject) -> JsonObject:
    try:
        return loads_object(await run_errand(_PROGRAM, canonical_bytes(request)))
    except ErrandEnded:
        raise
    except ErrandFailed as error:
        _log.warning("nothing can be looked at by a schema: %s", error)
        raise Unavailable(
            "The process that checks JSON Schemas failed.",
            hint="The log of Ozzie has the details. Fix that, then try again.",
            code="schema.unavailable",
        ) from None
