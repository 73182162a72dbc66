"""A tree of settings against its model: every complaint names file, line, column and key (OB-2)."""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from ozzie_server_ext.config.jsonc import Path, Place
from ozzie_server_ext.config.reading import ConfigError
from ozzie_server_ext.domain.json import Json

Model = TypeVar("Model", bound=BaseModel)


def validate(model: type[Model], tree: Json, places: Mapping[Path, Place]) -> Model:
    """The tree as that model; `places` says where each part of it stands.

    Raises ConfigError with a line for each complaint.
    """
    try:
        return model.model_validate(tree)
    except ValidationError as error:
        lines = [
            f"{line_of(path, places)} {_say(item, model)}"
            for item in error.errors(include_url=False)
            for path in [_known(item["loc"], places)]
        ]
        raise ConfigError("\n".join(lines), hint="Correct the file there and try again.") from None


def _known(loc: Iterable[str | int], places: Mapping[Path, Place]) -> Path:
    """The part of a validator's location that stands in a file: it also names union members, which do not."""
    path: Path = ()
    for part in loc:
        if (*path, part) in places:
            path = (*path, part)
    return path


def line_of(path: Path, places: Mapping[Path, Place]) -> str:
    """How a complaint about that part begins: its place, and its key."""
    key = ".".join(str(part) for part in path)
    return f"{places[path]}: {key}:" if key else f"{places[path]}:"


def _say(item: Any, model: type[BaseModel]) -> str:
    key = str(item["loc"][-1])
    match item["type"]:
        case "extra_forbidden":
            near = difflib.get_close_matches(key, _all_keys(model), n=1)
            return f'unknown key "{key}"' + (f'; did you mean "{near[0]}"?' if near else ".")
        case "missing":
            return f'the key "{key}" is missing.'
        case "literal_error" | "union_tag_invalid":
            allowed = item["ctx"].get("expected") or item["ctx"].get("expected_tags")
            given = item["ctx"].get("tag", item["input"])
            return f"must be one of {allowed}; it is {str(given)[:40]!r}."
        case "value_error":
            return f"{item['ctx']['error']}."
        case _:
            wrong = f"{item['msg'][0].lower()}{item['msg'][1:]}"
            # A key that was put where its variable's name belongs must not be shown again, here or in a log.
            return f"{wrong}." if "auth" in item["loc"] else f"{wrong}; it is {str(item['input'])[:40]!r}."


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
