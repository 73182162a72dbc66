"""Loading settings from layers of files, with environment variables in their values."""

import io
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path as FilePath
from typing import Any

import msgspec
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

_NOT_FOR_PROJECTS = {
    "artifacts": "it would erase what others made",
    "native_plugins": "its programs would run here",
    "skills": "its skills lie in .ozzie/skills, and each is trusted by itself",
}
"""Keys that a project's configuration can't set, with the reason."""


class Config(msgspec.Struct, frozen=True):
    """The settings in force and their sources.

    `raw` is the merged tree before variables are expanded: it contains no secret and may be recorded. `ignored` are
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
    """Load all layers: system, then user, then project; later ones win key by key.

    Raises ConfigError or JsoncError.
    """
    own = (system_file, home.config_file)
    layers = _layers(own)
    ignored: tuple[str, ...] = ()
    if project is not None and not is_one_of(file := project / PROJECT_FILE, own):
        content, exists = _trusted_content(home, file)
        if content is not None:
            layers.append(_project_layer(parse_object(content, file)))
        elif exists:
            ignored = (str(file),)
    return _combine(layers, ignored, {**_env_file(home.env_file), **env})


def _layers(files: Iterable[FilePath]) -> list[Document]:
    """Parse those of the files that exist."""
    return [parse_object(content, file) for file in files if (content := content_if_there(file)) is not None]


def _combine(layers: Sequence[Document], ignored: tuple[str, ...], variables: Mapping[str, str]) -> Config:
    merged: JsonObject = {}
    places: dict[KeyPath, SourceLocation] = {}
    for layer in layers:
        merged = _merge(merged, layer.value)
        places |= layer.places
    settings = validate(Settings, _expand(merged, (), places, variables), places)
    return Config(settings, merged, tuple(layer.places[()].file for layer in layers), ignored, variables)


def _trusted_content(home: Home, file: FilePath) -> tuple[bytes | None, bool]:
    """Return the content of a project's file if it is trusted, and whether the file exists. An untrusted file can't do
    harm by being broken either.

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

    Raises ConfigError or JsoncError if it can't be read, or is invalid on top of the other layers.
    """
    content = content_of(file)
    own = _layers((system_file, home.config_file))
    _combine([*own, _project_layer(parse_object(content, file))], (), {**_env_file(home.env_file), **env})
    trust(home, file, content)


def _project_layer(layer: Document) -> Document:
    """Return a project's layer. Raises ConfigError if it sets keys that are not for projects."""
    for key, why in _NOT_FOR_PROJECTS.items():
        if isinstance(layer.value, dict) and key in layer.value:
            raise ConfigError(
                f"{line_of((key,), layer.places)} a project can't set this: {why}.",
                hint="Set it in config.jsonc in Ozzie's own folder.",
            )
    return layer


def _env_file(file: FilePath) -> dict[str, str]:
    """Read `$OZZIE_PATH/.env`; variables of the process override it."""
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
    # An API key's variable stays a name here: its value is looked up for each call, and stays out of the tree.
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
