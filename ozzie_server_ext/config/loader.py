"""From files to settings: layers, environment variables, and errors that name file, line, column and key (OB-2)."""

import difflib
import hashlib
import io
import json
import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

from dotenv import dotenv_values
from pydantic import BaseModel, ValidationError

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.config.jsonc import Document, Path, Place, parse
from ozzie_server_ext.config.settings import TEMPLATE, Settings
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.json import Json, JsonObject

SYSTEM_FILE = FilePath("/etc/ozzie/config.jsonc")
PROJECT_FILE = FilePath(".ozzie/config.jsonc")


class ConfigError(InputError):
    """A configuration file can't be taken; each line of the message names file, line, column and key."""

    code = "config.invalid"


@dataclass(frozen=True, slots=True)
class Config:
    """The settings in force and where they came from.

    `raw` is the merged tree before any variable is put in: it holds no secret and may be recorded. `ignored` are
    project files that nobody has trusted yet.
    """

    settings: Settings
    raw: JsonObject
    files: tuple[str, ...]
    ignored: tuple[str, ...]
    env: Mapping[str, str]


def load(
    home: Home,
    *,
    project: FilePath | None = None,
    env: Mapping[str, str] = os.environ,
    system_file: FilePath = SYSTEM_FILE,
) -> Config:
    """The settings of all layers: system, then user, then project; the later one wins key by key.

    Raises ConfigError or JsoncError.
    """
    variables = {**_env_file(home.env_file), **env}
    layers = [_parse(_content(file), file) for file in (system_file, home.config_file) if _is_there(file)]
    ignored: tuple[str, ...] = ()
    if project is not None and _is_there(file := project / PROJECT_FILE):
        # A cloned folder can carry any file: it counts once a person has trusted this very content (DESIGN §2.14).
        content = _content(file)
        if _trusted(home).get(str(file.absolute())) == _digest(content):
            layers.append(_parse(content, file))
        else:
            ignored = (str(file),)
    merged: JsonObject = {}
    places: dict[Path, Place] = {}
    for layer in layers:
        merged = _merge(merged, layer.value)
        places |= layer.places
    settings = _validate(_expand(merged, (), places, variables), places)
    return Config(settings, merged, tuple(layer.places[()].file for layer in layers), ignored, variables)


def trust(home: Home, file: FilePath) -> None:
    """Remember that the present content of `file` is trusted; any change of it ends the trust.

    Raises ConfigError where the file can't be read or is not a valid configuration by itself.
    """
    content = _content(file)
    _parse(content, file)
    known = {**_trusted(home), str(file.absolute()): _digest(content)}
    target = home.root / "trusted.json"
    fresh = target.with_suffix(".new")
    fresh.touch(mode=0o600)
    fresh.write_text(json.dumps(known, indent=1, sort_keys=True))
    fresh.replace(target)


def _trusted(home: Home) -> dict[str, str]:
    try:
        found = json.loads((home.root / "trusted.json").read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _env_file(file: FilePath) -> dict[str, str]:
    """`$OZZIE_PATH/.env`; a variable of the process itself goes before it."""
    if not _is_there(file):
        return {}
    found = dotenv_values(stream=io.StringIO(_text(_content(file), file)), interpolate=False)
    return {name: value for name, value in found.items() if value is not None}


def _is_there(file: FilePath) -> bool:
    """Whether there is a file to read. What stands in its place and can't be read is no reason to go on without it.

    Raises ConfigError.
    """
    try:
        mode = file.stat().st_mode
    except FileNotFoundError:
        if file.is_symlink():
            raise ConfigError(f"{file}: leads nowhere.", hint="Mend the link or remove it.") from None
        return False
    except NotADirectoryError:
        return False
    except OSError as error:
        raise ConfigError(f"{file}: can't be read: {error.strerror}.") from None
    if not stat.S_ISREG(mode):
        raise ConfigError(f"{file}: is not a file.", hint="Move it away.")
    return True


def _content(file: FilePath) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{file}: can't be read: {error.strerror}.") from None


def _text(content: bytes, file: FilePath) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: not UTF-8 text, byte {error.start} is wrong.") from None


def _parse(content: bytes, file: FilePath) -> Document:
    document = parse(_text(content, file), str(file))
    if not isinstance(document.value, dict):
        raise ConfigError(f"{document.places[()]}: expected an object in braces.")
    return document


def _merge(below: JsonObject, above: Json) -> JsonObject:
    merged = dict(below)
    for key, value in (above if isinstance(above, dict) else {}).items():
        under = merged.get(key)
        merged[key] = _merge(under, value) if isinstance(under, dict) and isinstance(value, dict) else value
    return merged


def _expand(value: Json, path: Path, places: Mapping[Path, Place], env: Mapping[str, str]) -> Json:
    if isinstance(value, dict):
        return {key: _expand(item, (*path, key), places, env) for key, item in value.items()}
    if isinstance(value, list):
        return [_expand(item, (*path, index), places, env) for index, item in enumerate(value)]
    # A key's variable is only named here: its value is looked up when a call is made, and stays out of the tree.
    if not isinstance(value, str) or path[-2:] == ("auth", "api_key"):
        return value

    def fill(match: Any) -> str:
        name = match["long"] or match["short"]
        if name not in env:
            raise ConfigError(
                f"{_line(path, places)} the environment variable {name} is not set.",
                hint=f"Set {name}, for example in the file .env beside config.jsonc.",
            )
        return env[name]

    return TEMPLATE.sub(fill, value)


def _validate(tree: Json, places: Mapping[Path, Place]) -> Settings:
    try:
        return Settings.model_validate(tree)
    except ValidationError as error:
        lines = [
            f"{_line(path, places)} {_say(item)}"
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


def _line(path: Path, places: Mapping[Path, Place]) -> str:
    key = ".".join(str(part) for part in path)
    return f"{places[path]}: {key}:" if key else f"{places[path]}:"


def _say(item: Any) -> str:
    key = str(item["loc"][-1])
    match item["type"]:
        case "extra_forbidden":
            near = difflib.get_close_matches(key, _all_keys(), n=1)
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


def _all_keys() -> list[str]:
    """Every key of the settings tree: near enough to guess what was meant."""
    found: list[str] = []
    pending: list[type[BaseModel]] = [Settings]
    while pending:
        for name, info in pending.pop().model_fields.items():
            found.append(name)
            pending.extend(_models_in(info.annotation))
    return found


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in getattr(annotation, "__args__", ()) for model in _models_in(part)]
