"""From files to settings: layers, and environment variables in their values."""

import io
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

from dotenv import dotenv_values

from ozzie_server_ext.config.files import is_one_of
from ozzie_server_ext.config.home import Home
from ozzie_server_ext.config.jsonc import (
    ConfigError,
    Document,
    KeyPath,
    SourceLocation,
    content_if_there,
    content_of,
    parse_object,
    text_of,
)
from ozzie_server_ext.config.settings import TEMPLATE, Settings
from ozzie_server_ext.config.trust import standing, trust
from ozzie_server_ext.config.validation import line_of, validate
from ozzie_server_ext.domain.json import Json, JsonObject

SYSTEM_FILE = FilePath("/etc/ozzie/config.jsonc")
PROJECT_FILE = FilePath(".ozzie/config.jsonc")

_NOT_A_PROJECTS = {
    "artifacts": "it would erase what others made",
    "skills": "its skills lie in .ozzie/skills, and each is trusted by itself",
}
"""What a project's own configuration can't set, and why."""


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
    own = (system_file, home.config_file)
    layers = _layers(own)
    ignored: tuple[str, ...] = ()
    if project is not None and not is_one_of(file := project / PROJECT_FILE, own):
        content, there = _of_project(home, file)
        if content is not None:
            layers.append(_of_a_project_alone(parse_object(content, file)))
        elif there:
            ignored = (str(file),)
    return _put_together(layers, ignored, {**_env_file(home.env_file), **env})


def _layers(files: Iterable[FilePath]) -> list[Document]:
    """What stands in those of the files that are there."""
    return [parse_object(content, file) for file in files if (content := content_if_there(file)) is not None]


def _put_together(layers: Sequence[Document], ignored: tuple[str, ...], variables: Mapping[str, str]) -> Config:
    merged: JsonObject = {}
    places: dict[KeyPath, SourceLocation] = {}
    for layer in layers:
        merged = _merge(merged, layer.value)
        places |= layer.places
    settings = validate(Settings, _expand(merged, (), places, variables), places)
    return Config(settings, merged, tuple(layer.places[()].file for layer in layers), ignored, variables)


def _of_project(home: Home, file: FilePath) -> tuple[bytes | None, bool]:
    """The content of a project's file where it is trusted, and whether anything is there. What nobody has trusted can't
    do harm by being broken either.

    Raises ConfigError.
    """
    try:
        content = content_if_there(file)
    except ConfigError:
        if standing(home, file, None) != "unknown":
            raise
        return None, True
    if content is None or standing(home, file, content) != "trusted":
        return None, content is not None
    return content, True


def trust_file(
    home: Home, file: FilePath, *, env: Mapping[str, str] = os.environ, system_file: FilePath = SYSTEM_FILE
) -> None:
    """Trust a project's configuration as it is now.

    Raises ConfigError or JsoncError where it would not count: it can't be read, or is not valid above the other layers.
    """
    content = content_of(file)
    own = _layers((system_file, home.config_file))
    _put_together([*own, _of_a_project_alone(parse_object(content, file))], (), {**_env_file(home.env_file), **env})
    trust(home, file, content)


def _of_a_project_alone(layer: Document) -> Document:
    """The layer of a project. Raises ConfigError where it is about what is not the project's."""
    for key, why in _NOT_A_PROJECTS.items():
        if isinstance(layer.value, dict) and key in layer.value:
            raise ConfigError(
                f"{line_of((key,), layer.places)} a project can't set this: {why}.",
                hint="Set it in config.jsonc in Ozzie's own folder.",
            )
    return layer


def _env_file(file: FilePath) -> dict[str, str]:
    """`$OZZIE_PATH/.env`; a variable of the process itself goes before it."""
    content = content_if_there(file)
    if content is None:
        return {}
    found = dotenv_values(stream=io.StringIO(text_of(content, file)), interpolate=False)
    return {name: value for name, value in found.items() if value is not None}


def _merge(below: JsonObject, above: Json) -> JsonObject:
    merged = dict(below)
    for key, value in (above if isinstance(above, dict) else {}).items():
        under = merged.get(key)
        merged[key] = _merge(under, value) if isinstance(under, dict) and isinstance(value, dict) else value
    return merged


def _expand(value: Json, path: KeyPath, places: Mapping[KeyPath, SourceLocation], env: Mapping[str, str]) -> Json:
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
                f"{line_of(path, places)} the environment variable {name} is not set.",
                hint=f"Set {name}, for example in the file .env beside config.jsonc.",
            )
        return env[name]

    return TEMPLATE.sub(fill, value)
