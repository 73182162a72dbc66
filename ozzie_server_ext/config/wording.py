"""What is wrong with a value in a file of settings, in a person's words: the validator's own are for programmers."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

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
