"""What a plugin says of itself: its manifest, in each of the documents' forms (docs/documents.md, docs/plugins.md).

`manifest.jsonc` or `manifest.yaml`. Everything in it is a claim of its author's, and shown as one.
"""

import errno
import hashlib
import os
import stat
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import msgspec
from pydantic import BaseModel, ConfigDict, Field, StrictBool, model_validator

from ozzie_server_ext.config.jsonc import (
    ConfigError,
    Document,
    KeyPath,
    SourceLocation,
    content_if_there,
    parse_object,
)
from ozzie_server_ext.config.validation import like, validate
from ozzie_server_ext.config.yaml import parse_yaml
from ozzie_server_ext.domain.json import Json, JsonObject, JsonType, is_of
from ozzie_server_ext.domain.paths import path_parts
from ozzie_server_ext.plugins.capabilities import Capabilities, Wish
from ozzie_server_ext.plugins.program_files import digest_of_files, expect_program, program_files

FILES = ("manifest.jsonc", "manifest.json", "manifest.yaml", "manifest.yml")
MAX_TOOLS = 100
MAX_PARAMETERS = 50
MAX_DESCRIPTION = 1024
"""Characters: what providers accept for a tool."""

_NAMED = "may hold small letters, digits, '.', '_' and '-' only, at most 64, and begins with a letter or digit"
PluginName = Annotated[str, like(r"[a-z0-9][a-z0-9._-]{0,63}", _NAMED)]
ToolName = Annotated[
    str,
    like(
        r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}",
        "may hold letters, digits, '_' and '-' only, at most 64, and begins with a letter or digit",
    ),
]
ParameterName = Annotated[
    str,
    like(
        r"[A-Za-z_][A-Za-z0-9_-]{0,63}",
        "may hold letters, digits, '_' and '-' only, at most 64, and begins with a letter or '_'",
    ),
]
_ADDRESS = r"(?:https?://|\$\{[A-Za-z_]\w*)[!-~]{1,2000}"
Address = Annotated[str, like(_ADDRESS, 'must be an address in plain letters, as "https://mcp.example.org/"')]
Variable = Annotated[str, like(r"[A-Za-z_][A-Za-z0-9_]{0,127}", "must be the name of a variable")]
Header = Annotated[str, like(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}", "must be the name of a header (RFC 9110)")]
OneLine = Annotated[str, like(r"[^\x00-\x08\x0a-\x1f\x7f]{0,8192}", "must be one line of at most 8,192 characters")]
Description = Annotated[str, Field(max_length=MAX_DESCRIPTION)]
Version = Annotated[str, like(r"[0-9A-Za-z][0-9A-Za-z.+-]{0,63}", 'must be a version, as "1.2.0"')]
Provides = Annotated[str, like(r"[a-z0-9][a-z0-9._-]{0,127}", "must be the name of a capability, as channel.send")]
Requires = Annotated[
    str,
    like(
        r"[a-z0-9][a-z0-9._-]{0,127}(\s*(>=|<=|==|>|<)\s*[0-9][0-9A-Za-z.+-]{0,63})?",
        'must be the name of a capability, with a version or without, as "core>=0.1"',
    ),
]


class _Part(BaseModel):
    # An unknown key is more often a typo than a wish: refuse it, with its line.
    model_config = ConfigDict(extra="forbid", frozen=True)


class Parameter(_Part):
    """An argument of a tool, as the documents write it."""

    type: JsonType = "string"
    description: Description = ""
    required: StrictBool = False
    default: Json = None
    enum: Annotated[tuple[Json, ...], Field(max_length=100)] = ()
    items: "Parameter | None" = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.default is not None:
            if not is_of(self.type, self.default):
                raise ValueError(f"the default must be of the type {self.type}")
            if self.required:
                raise ValueError("a parameter with a default is not required: give one of the two")
            if self.enum and self.default not in self.enum:
                raise ValueError('the default must be one of "enum"')
        if self.items is not None and self.type != "array":
            raise ValueError('only a parameter of the type array has "items"')
        return self

    def schema_of(self) -> JsonObject:
        """Return it as JSON Schema."""
        found: JsonObject = {"type": self.type}
        if self.description:
            found["description"] = self.description
        if self.enum:
            found["enum"] = [*self.enum]
        if self.default is not None:
            found["default"] = self.default
        if self.items is not None:
            found["items"] = self.items.schema_of()
        return found


class ToolText(_Part):
    """A tool as written: `tool_spec`, or one of `tools`."""

    name: ToolName
    description: Annotated[str, Field(min_length=1, max_length=MAX_DESCRIPTION)]
    parameters: Annotated[dict[ParameterName, Parameter], Field(max_length=MAX_PARAMETERS)] = {}

    @property
    def schema_of_arguments(self) -> JsonObject:
        """The arguments as JSON Schema."""
        required: list[Json] = [name for name, each in self.parameters.items() if each.required]
        return {
            "type": "object",
            "properties": {name: each.schema_of() for name, each in self.parameters.items()},
            "required": required,
            "additionalProperties": False,
        }


class McpText(_Part):
    """How an MCP server is reached: a command that speaks over its standard streams, or an address."""

    transport: Literal["stdio", "http", "streamable-http", "sse"] = "stdio"
    command: Annotated[str, like(r"[^\x00]{1,4096}", "must be a program")] | None = None
    args: Annotated[tuple[Annotated[str, like(r"[^\x00]{0,8192}", "is no argument")], ...], Field(max_length=200)] = ()
    env: Annotated[dict[Variable, Annotated[str, like(r"[^\x00]{0,8192}", "is no value")]], Field(max_length=100)] = {}
    url: Address | None = None
    headers: Annotated[dict[Header, OneLine], Field(max_length=50)] = {}

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        is_stdio = self.transport == "stdio"
        if is_stdio and self.command is None:
            raise ValueError('a server over "stdio" needs its "command"')
        if not is_stdio and self.url is None:
            raise ValueError(f'a server over "{self.transport}" needs its "url"')
        if is_stdio and (self.url is not None or self.headers):
            raise ValueError('a server over "stdio" has neither "url" nor "headers"')
        if not is_stdio and (self.command is not None or self.args or self.env):
            raise ValueError(f'a server over "{self.transport}" has neither "command", "args" nor "env"')
        return self


class HealthText(_Part):
    """How it is found out whether the plugin works: an address that answers, or a call of the plugin's own."""

    kind: Literal["http", "call"] = "http"
    url: Address | None = None
    every_s: Annotated[float, Field(ge=5, le=86_400, allow_inf_nan=False)] = 60.0

    @model_validator(mode="after")
    def _has_address(self) -> Self:
        if (self.kind == "http") is (self.url is None):
            raise ValueError('a check of the kind "http" has a "url", and no other does')
        return self


class Manifest(_Part):
    """A manifest, whichever form it was written in."""

    name: PluginName
    version: Version = "0"
    description: Description = ""
    level: Literal["tool", "communication"] = "tool"
    provider: Literal["extism", "native", "mcp"] = "extism"
    wasm_path: str = ""
    program: str = ""
    capabilities: Capabilities = Capabilities()
    provides: Annotated[tuple[Provides, ...], Field(max_length=50)] = ()
    tools: Annotated[tuple[ToolText, ...], Field(max_length=MAX_TOOLS)] = ()
    mcp: McpText | None = None
    requires: Annotated[tuple[Requires, ...], Field(max_length=50)] = ()
    healthcheck: HealthText | None = None
    config_schema: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if (self.provider == "mcp") is (self.mcp is None):
            raise ValueError(
                '"mcp" says how a server is reached: a plugin with the provider "mcp" has it, and no other'
            )
        if self.wasm_path and self.provider != "extism":
            raise ValueError('only a plugin with the provider "extism" has a "wasm_path"')
        if self.program and self.provider != "native":
            raise ValueError('only a plugin with the provider "native" has a "program"')
        if self.provider == "mcp" and self.tools:
            raise ValueError("the tools of an MCP server are those that it names itself: leave them out")
        if self.level == "communication" and self.tools:
            raise ValueError('a plugin of the level "communication" has no tools')
        names = [tool.name for tool in self.tools]
        if len(set(names)) < len(names):
            raise ValueError("two tools have the same name")
        for key, name in (("wasm_path", self.wasm_path), ("program", self.program)):
            if name and (path_parts(name) != (name,) or "\\" in name):
                raise ValueError(f'"{key}" is the name of a file beside the manifest')
        if self.provider == "native":
            self._expect_of_program()
        return self

    def _expect_of_program(self) -> None:
        """Raise ValueError for what a program can't have."""
        asked = self.capabilities
        if self.level == "communication":
            raise ValueError("a channel can't be a program yet")
        if asked.kv:
            raise ValueError('a program keeps no notes between calls: leave "kv" out')
        if asked.http is not None and "methods" in asked.http.model_fields_set:
            raise ValueError('what a program sends can\'t be seen, so it asks for hosts without "methods"')
        if any(part.startswith(".") for folder in asked.fs_read if folder != "." for part in folder.split("/")):
            raise ValueError("a program sees no hidden folders")

    @property
    def wasm_file(self) -> str:
        """The name of the plugin's code, relative to the manifest's folder: by default that of the plugin."""
        return self.wasm_path or f"{self.name}.wasm"

    @property
    def program_file(self) -> str:
        """The name of a program, beside the manifest: by default that of the plugin."""
        return self.program or self.name

    @property
    def wishes(self) -> frozenset[Wish]:
        """What it asks for, one by one."""
        return self.capabilities.wishes_of_program if self.provider == "native" else self.capabilities.wishes


class FoundPlugin(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin in a folder: its manifest, where that stands, and the SHA-256, in hexadecimal, of manifest and code
    together, which a grant is for; `code` is that of its code alone, or of all files of a program (`files` counts
    them), and empty without code."""

    manifest: Manifest
    file: Path
    digest: str
    code: str = ""
    files: int = 0


def read_manifest(content: bytes, file: Path) -> Manifest:
    """Read a manifest, as YAML if its name says so. Raises ConfigError or JsoncError with the place of each problem."""
    parse = parse_yaml if file.suffix in (".yaml", ".yml") else parse_object
    document = parse(content, file)
    tree, places = _one_form(document)
    return validate(Manifest, tree, places)


_SAME = {"id": "name", "type": "level", "tool_spec": "tools"}
"""Keys of the documents that mean the same. A list of `capabilities` is what the plugin provides, too."""


def _one_form(document: Document) -> tuple[JsonObject, dict[KeyPath, SourceLocation]]:
    """Return a manifest with one name for each thing, and the places of its parts under these names. Raises ConfigError
    where two names say the same."""
    assert isinstance(document.value, dict)
    tree: JsonObject = {}
    renamed: dict[KeyPath, KeyPath] = {}
    for key, value in document.value.items():
        is_list = key == "capabilities" and isinstance(value, list)
        name = "provides" if is_list else _SAME.get(key, key)
        if name in tree or (name != key and name in document.value):
            place = document.places[(key,)]
            raise ConfigError(
                f'{place}: {key}: says the same as "{name}": give one of them.',
                hint="Correct the file there and try again.",
            )
        tree[name] = (
            [value] if key == "tool_spec" else "communication" if (key, value) == ("type", "channel") else value
        )
        renamed[(key,)] = ("tools", 0) if key == "tool_spec" else (name,)
    places = {(*renamed.get(path[:1], path[:1]), *path[1:]): place for path, place in document.places.items()}
    if "tool_spec" in document.value:
        places[("tools",)] = places[("tools", 0)]
    return tree, places


MAX_WASM = 32 << 20
_MAGIC = b"\0asm"
"""How WebAssembly begins. Extism would take a JSON manifest in its place, with permissions of its own."""


def find_plugin(folder: Path) -> FoundPlugin:
    """Read the plugin in a folder. Raises ConfigError or JsoncError."""
    found = [(folder / name, content) for name in FILES if (content := content_if_there(folder / name)) is not None]
    if not found:
        raise ConfigError(f"{folder}: has no plugin.", hint=f"Its manifest is called {FILES[0]}.")
    if len(found) > 1:
        names = " and ".join(file.name for file, _ in found)
        raise ConfigError(f"{folder}: has {names}.", hint="Keep one of them.")
    ((file, content),) = found
    manifest = read_manifest(content, file)
    if manifest.provider == "native":
        return _found_program(manifest, file, content)
    wasm = _wasm(folder / manifest.wasm_file) if manifest.provider == "extism" else None
    # The name, too: the same bytes may say something else as YAML.
    parts = (file.name.encode(), content, wasm or b"")
    digest = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()
    code = hashlib.sha256(wasm).hexdigest() if wasm is not None else ""
    return FoundPlugin(manifest=manifest, file=file, digest=digest, code=code)


def _found_program(manifest: Manifest, file: Path, content: bytes) -> FoundPlugin:
    """Return a program with all of its files, of which the manifest is one. Raises ConfigError."""
    files = program_files(file.parent)
    if file.name not in files or files[file.name].content != content:
        raise ConfigError(f"{file}: has just changed.", hint="Try again.")
    expect_program(files, manifest.program_file, file.parent)
    code = digest_of_files(files)
    return FoundPlugin(manifest=manifest, file=file, digest=code, code=code, files=len(files))


def _wasm(file: Path) -> bytes:
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as opened:
            content = opened.read(MAX_WASM + 1) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
    except OSError as error:
        why = "is a link" if error.errno == errno.ELOOP else f"can't be read: {error.strerror}"
        raise ConfigError(f"{file}: {why}.", hint='The manifest says its name: "wasm_path".') from None
    if len(content) > MAX_WASM:
        raise ConfigError(f"{file}: is larger than {MAX_WASM >> 20} MiB.")
    if not content.startswith(_MAGIC):
        raise ConfigError(f"{file}: is no WebAssembly.", hint="Build the plugin again.")
    return content
