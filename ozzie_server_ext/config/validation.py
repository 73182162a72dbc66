"""Validating a settings tree against its model, with errors that name file, line, column and key."""

import difflib
import json
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeVar

import msgspec
from pydantic import AfterValidator, BaseModel, ValidationError
from pydantic_core import PydanticCustomError

from ozzie_server_ext.config.jsonc import ConfigError, KeyPath, SourceLocation
from ozzie_server_ext.domain.json import Json

NOT_LIKE_THAT = "not_like_that"
"""Error type of a text that does not match its field's pattern; the field supplies the message."""

_SHOWN = 40
"""Characters of a value to repeat in an error."""
_MAY_HOLD_A_KEY = frozenset({"auth", "mcp", "command", "args", "env", "headers", "url"})
"""Parts of a file of whose values an error repeats nothing: keys, and what a server of tools is started with."""

_KINDS: Mapping[str, str] = {
    error: kind
    for kind, errors in (
        ("text", ("string_type", "string_unicode")),
        ("a whole number", ("int_type", "int_parsing", "int_parsing_size", "int_from_float")),
        ("a number", ("float_type", "float_parsing", "decimal_type", "decimal_parsing", "finite_number")),
        ("true or false", ("bool_type", "bool_parsing")),
        ("a list", ("tuple_type",)),
        ("an object in braces", ("dict_type", "model_type", "model_attributes_type")),
    )
    for error in errors
}
"""Expected kinds of values, by pydantic's error type."""


def like(pattern: str, words: str) -> AfterValidator:
    """Return a validator for texts that must fully match the pattern; `words` explain that to people."""
    wanted = re.compile(pattern)

    def matching(text: str) -> str:
        if wanted.fullmatch(text) is None:
            raise PydanticCustomError(NOT_LIKE_THAT, "{words}", {"words": words})
        return text

    return AfterValidator(matching)


def is_kind(item: Any) -> bool:
    """Return whether the error is about the kind of the value."""
    return item["type"] in _KINDS


def is_from_elements(item: Any) -> bool:
    """Return whether the error calls a list too short that has enough elements: then one of them is invalid."""
    return item["type"] == "too_short" and len(item["input"]) >= item["ctx"]["min_length"]


def kinds(items: Iterable[Any]) -> str:
    """Merge the errors about the kind of one value into a sentence."""
    items = list(items)
    wanted = list(dict.fromkeys(_KINDS[item["type"]] for item in items))
    if "a number" in wanted and "a whole number" in wanted:
        wanted.remove("a whole number")
    *others, last = wanted
    return f"must be {', '.join(others)}{' or ' if others else ''}{last}{_given(items[0])}."


def words(item: Any) -> str:
    """Return the error as a sentence."""
    context = item.get("ctx", {})
    match item["type"]:
        case "value_error":
            return f"{context['error']}."
        case "too_short" | "string_too_short" if not item["input"]:
            return "is empty." if item["type"] == "string_too_short" else "needs at least one."
        case "too_long":
            return f"may have at most {context['max_length']:,}; it has {context['actual_length']:,}."
        case "string_too_long":
            return f"may have at most {context['max_length']:,} characters; it has {len(item['input']):,}."
        case "union_tag_invalid":
            return f"must be one of {context['expected_tags']}; it is {context['tag'][:_SHOWN]!r}."
        case _:
            message = item["msg"]
            return f"{_bound(item['type'], context) or message[0].lower() + message[1:]}{_given(item)}."


_BOUNDS: Mapping[str, str] = {
    "enum": "must be one of {expected}",
    "literal_error": "must be one of {expected}",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "decimal_max_places": "may have at most {decimal_places} digits after the point",
    "string_too_short": "needs at least {min_length} characters",
}


def _bound(kind: str, context: Mapping[str, Any]) -> str:
    return _BOUNDS[kind].format_map({name: _plain(value) for name, value in context.items()}) if kind in _BOUNDS else ""


def _plain(value: Any) -> str:
    return str(int(value)) if isinstance(value, int | float | Decimal) and value == int(value) else str(value)


def _given(item: Any) -> str:
    """Return the value that was given; for a list or an object only its kind, because its content is unchecked."""
    if not _MAY_HOLD_A_KEY.isdisjoint(item["loc"]):
        # A key must not be shown again, here or in a log.
        return ""
    match item["input"]:
        case str() as text:
            return f"; it is {text[:_SHOWN]!r}"
        case list() | tuple():
            return "; it is a list"
        case dict():
            return "; it is an object"
        case other:
            return f"; it is {json.dumps(other, default=str)[:_SHOWN]}"


Model = TypeVar("Model", bound=BaseModel)


def validate(model: type[Model], tree: Json, places: Mapping[KeyPath, SourceLocation]) -> Model:
    """Validate the tree; `places` are the locations of its parts.

    Raises ConfigError with a line for each problem.
    """
    try:
        return model.model_validate(tree)
    except ValidationError as error:
        problems = sorted(
            explained(error, model, places), key=lambda each: (places[each.path].line, places[each.path].column)
        )
        lines = [f"{line_of(each.path, places)} {each.sentence}" for each in problems]
        raise ConfigError("\n".join(lines), hint="Correct the file there and try again.") from None


class Problem(msgspec.Struct, frozen=True):
    """A problem at one place of a tree, as a sentence; `is_of_name`: about a key, not a value."""

    path: KeyPath
    sentence: str
    is_of_name: bool = False


def explained(
    error: ValidationError, model: type[BaseModel], there: Container[KeyPath], *, key: str = "key"
) -> Iterator[Problem]:
    """Yield the problems in plain words; `there` are the paths of the tree, `key` is the word for its keys. If several
    kinds of values are allowed, the validator reports an error for each kind."""
    items = [item for item in error.errors(include_url=False) if not is_from_elements(item)]
    found = [(_known(item["loc"], there), item) for item in items]
    for path, item in found:
        if not is_kind(item):
            yield Problem(path, _sentence(item, model, key), is_of_name=item["type"] in ("extra_forbidden", "missing"))
            continue
        others = [(there, other) for there, other in found if there[: len(path)] == path and other is not item]
        if any(there != path or not is_kind(other) for there, other in others):
            continue  # the value is of another allowed kind, which has its own error
        same = [each for there, each in found if there == path]
        if same[0] is item:
            yield Problem(path, kinds(same))


def _known(loc: Iterable[str | int], there: Container[KeyPath]) -> KeyPath:
    """Return the part of a validator's location that exists in the tree: it also names union members, which do not."""
    path: KeyPath = ()
    for part in loc:
        if (*path, part) in there:
            path = (*path, part)
    return path


def visible(name: str) -> str:
    """Return a name from a file so that it can't pass for another line of a message, and not longer than one."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in name[:_MOST_OF_NAME])


_MOST_OF_NAME = 200


def line_of(path: KeyPath, places: Mapping[KeyPath, SourceLocation]) -> str:
    """Return the beginning of an error about that part: its location and key."""
    key = ".".join(visible(str(part)) for part in path)
    return f"{places[path]}: {key}:" if key else f"{places[path]}:"


def _sentence(item: Any, model: type[BaseModel], key: str) -> str:
    name = visible(str(item["loc"][-1])) if item["loc"] else ""  # an error about a combination belongs to no key
    match item["type"]:
        case "extra_forbidden":
            likely = nearest(name, _keys_beside(model, item["loc"][:-1])) or nearest(name, _all_keys(model))
            return f'unknown {key} "{name}"' + (f'; did you mean "{likely}"?' if likely else ".")
        case "missing":
            return f'the {key} "{name}" is missing.'
        case _:
            return words(item)


def nearest(name: str, names: Iterable[str]) -> str:
    """Return the most similar of `names`, or "" if none is similar."""
    return next(iter(difflib.get_close_matches(name, list(names), n=1)), "")


def near(name: str, names: Iterable[str]) -> str:
    """Return the end of an error about a name, which suggests a similar one; empty if there is none."""
    found = nearest(name, names)
    return f'; did you mean "{found}"?' if found else ""


def _keys_beside(model: type[BaseModel], loc: Sequence[str | int]) -> list[str]:
    """Return the keys that are allowed in place of an unknown one; none if several kinds of objects are."""
    for part in loc:
        info = model.model_fields.get(str(part))
        if info is None:  # an element of a list, or a key that the file chose
            continue
        inner = list(dict.fromkeys(_models_in(info.annotation)))
        if len(inner) != 1:
            return []
        model = inner[0]
    return list(model.model_fields)


def _all_keys(model: type[BaseModel]) -> list[str]:
    """Return every key of the tree: good enough for a suggestion. An object may hold another of its own kind."""
    known = [model]
    for each in known:
        inner = [other for info in each.model_fields.values() for other in _models_in(info.annotation)]
        known += [other for other in dict.fromkeys(inner) if other not in known]
    return [name for each in known for name in each.model_fields]


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in getattr(annotation, "__args__", ()) for model in _models_in(part)]
