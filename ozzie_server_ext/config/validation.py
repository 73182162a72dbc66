"""A tree of settings against its model: every complaint names file, line, column and key."""

import difflib
import json
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import AfterValidator, BaseModel, ValidationError
from pydantic_core import PydanticCustomError

from ozzie_server_ext.config.jsonc import ConfigError, KeyPath, SourceLocation
from ozzie_server_ext.domain.json import Json

NOT_LIKE_THAT = "not_like_that"
"""The type of the error of a text that is not as its field wants it: its words are the field's own."""

_SHOWN = 40
"""Characters of a text that are repeated."""

_KINDS: Mapping[str, str] = {
    "string_type": "text",
    "string_unicode": "text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "decimal_type": "a number",
    "decimal_parsing": "a number",
    "finite_number": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "tuple_type": "a list",
    "dict_type": "an object in braces",
    "model_type": "an object in braces",
    "model_attributes_type": "an object in braces",
}
"""What a value has to be, by the type of the error that says that it is not."""


def like(pattern: str, words: str) -> AfterValidator:
    """For the annotation of a text: all of it has to match the pattern, and `words` tell a person what that means."""
    wanted = re.compile(pattern)

    def matching(text: str) -> str:
        if wanted.fullmatch(text) is None:
            raise PydanticCustomError(NOT_LIKE_THAT, "{words}", {"words": words})
        return text

    return AfterValidator(matching)


def is_kind(item: Any) -> bool:
    """Whether the error says that the value is none of its kind."""
    return item["type"] in _KINDS


def is_of_its_parts(item: Any) -> bool:
    """Whether the error says of a list that it is too short, which has enough in it: of that, something is wrong."""
    return item["type"] == "too_short" and len(item["input"]) >= item["ctx"]["min_length"]


def kinds(items: Iterable[Any]) -> str:
    """Such errors of one value, which may be of several kinds, in one."""
    items = list(items)
    wanted = list(dict.fromkeys(_KINDS[item["type"]] for item in items))
    if "a number" in wanted and "a whole number" in wanted:
        wanted.remove("a whole number")
    *others, last = wanted
    return f"must be {', '.join(others)}{' or ' if others else ''}{last}{_given(items[0])}."


def words(item: Any) -> str:
    """What is wrong, in a sentence."""
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
            return f"{_bound(item['type'], context) or _lowered(item['msg'])}{_given(item)}."


def _bound(kind: str, context: Mapping[str, Any]) -> str:
    match kind:
        case "enum" | "literal_error":
            return f"must be one of {context['expected']}"
        case "greater_than":
            return f"must be more than {_number(context['gt'])}"
        case "greater_than_equal":
            return f"must be at least {_number(context['ge'])}"
        case "less_than_equal":
            return f"must be at most {_number(context['le'])}"
        case "decimal_max_places":
            return f"may have at most {context['decimal_places']} digits after the point"
        case "string_too_short":
            return f"needs at least {context['min_length']} characters"
        case _:
            return ""


def _number(bound: Any) -> str:
    return str(int(bound)) if bound == int(bound) else str(bound)


def _lowered(message: str) -> str:
    return f"{message[0].lower()}{message[1:]}"


def _given(item: Any) -> str:
    """What is there instead. Of a list or an object only that it is one: what stands in it, nobody has looked at."""
    if "auth" in item["loc"]:
        # A key that was put where its variable's name belongs must not be shown again, here or in a log.
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
    """The tree as that model; `places` says where each part of it stands.

    Raises ConfigError with a line for each complaint.
    """
    try:
        return model.model_validate(tree)
    except ValidationError as error:
        told = sorted(
            explained(error, model, places), key=lambda each: (places[each.path].line, places[each.path].column)
        )
        lines = [f"{line_of(each.path, places)} {each.sentence}" for each in told]
        raise ConfigError("\n".join(lines), hint="Correct the file there and try again.") from None


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong at one place of a tree, in a sentence; `is_of_name`: with a key, not with a value."""

    path: KeyPath
    sentence: str
    is_of_name: bool = False


def explained(
    error: ValidationError, model: type[BaseModel], there: Container[KeyPath], *, key: str = "key"
) -> Iterator[Problem]:
    """The problems in a person's words; `there` are the paths of the tree, `key` is what its keys are called. Where
    several kinds of values may stand, the validator complains for each kind."""
    items = [item for item in error.errors(include_url=False) if not is_of_its_parts(item)]
    found = [(_known(item["loc"], there), item) for item in items]
    for path, item in found:
        if not is_kind(item):
            yield Problem(path, _say(item, model, key), is_of_name=item["type"] in ("extra_forbidden", "missing"))
            continue
        others = [(there, other) for there, other in found if there[: len(path)] == path and other is not item]
        if any(there != path or not is_kind(other) for there, other in others):
            continue  # it is of another kind that may stand there, and something else is wrong with it
        same = [each for there, each in found if there == path]
        if same[0] is item:
            yield Problem(path, kinds(same))


def _known(loc: Iterable[str | int], there: Container[KeyPath]) -> KeyPath:
    """The part of a validator's location that stands in the tree: it also names union members, which do not."""
    path: KeyPath = ()
    for part in loc:
        if (*path, part) in there:
            path = (*path, part)
    return path


def line_of(path: KeyPath, places: Mapping[KeyPath, SourceLocation]) -> str:
    """How a complaint about that part begins: its place, and its key."""
    key = ".".join(str(part) for part in path)
    return f"{places[path]}: {key}:" if key else f"{places[path]}:"


def _say(item: Any, model: type[BaseModel], key: str) -> str:
    name = str(item["loc"][-1]) if item["loc"] else ""  # what does not fit together belongs to no key
    match item["type"]:
        case "extra_forbidden":
            likely = nearest(name, _keys_beside(model, item["loc"][:-1])) or nearest(name, _all_keys(model))
            return f'unknown {key} "{name}"' + (f'; did you mean "{likely}"?' if likely else ".")
        case "missing":
            return f'the {key} "{name}" is missing.'
        case _:
            return words(item)


def nearest(name: str, names: Iterable[str]) -> str:
    """The one of `names` that may have been meant; empty where none is like it."""
    return next(iter(difflib.get_close_matches(name, list(names), n=1)), "")


def near(name: str, names: Iterable[str]) -> str:
    """The end of a complaint about a name, which asks whether another one was meant; empty where none is like it."""
    found = nearest(name, names)
    return f'; did you mean "{found}"?' if found else ""


def _keys_beside(model: type[BaseModel], loc: Sequence[str | int]) -> list[str]:
    """The keys that may stand where an unknown one does; none where several kinds of objects may."""
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
    """Every key of the tree: near enough to guess what was meant."""
    found: list[str] = []
    pending: list[type[BaseModel]] = [model]
    while pending:
        for name, info in pending.pop().model_fields.items():
            found.append(name)
            pending.extend(_models_in(info.annotation))
    return found


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in getattr(annotation, "__args__", ()) for model in _models_in(part)]
