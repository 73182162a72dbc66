"""A tree of settings against its model: every complaint names file, line, column and key (OB-2)."""

import difflib
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from ozzie_server_ext.config.jsonc import Path, Place
from ozzie_server_ext.config.reading import ConfigError
from ozzie_server_ext.config.wording import is_kind, is_of_its_parts, kinds, words
from ozzie_server_ext.domain.json import Json

Model = TypeVar("Model", bound=BaseModel)


def validate(model: type[Model], tree: Json, places: Mapping[Path, Place]) -> Model:
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

    path: Path
    sentence: str
    is_of_name: bool = False


def explained(
    error: ValidationError, model: type[BaseModel], there: Container[Path], *, key: str = "key"
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


def _known(loc: Iterable[str | int], there: Container[Path]) -> Path:
    """The part of a validator's location that stands in the tree: it also names union members, which do not."""
    path: Path = ()
    for part in loc:
        if (*path, part) in there:
            path = (*path, part)
    return path


def line_of(path: Path, places: Mapping[Path, Place]) -> str:
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
