"""`ozzie plugins test FOLDER`: run the examples of a plugin's author, in a real tool host without a network."""

import argparse
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from ozzie_server_ext.cli.settling import expect_programs, indented, with_host
from ozzie_server_ext.cli.terminal import print_result
from ozzie_server_ext.config.home import find_home
from ozzie_server_ext.config.jsonc import ConfigError, content_if_there, parse, text_of
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.plugins.loading import exports_of
from ozzie_server_ext.plugins.manifest import FoundPlugin, find_plugin
from ozzie_server_ext.plugins.tool_host import Connection, ServerFailed, ToolHost
from ozzie_server_ext.protocol.codec import InvalidShape, decode
from ozzie_server_ext.protocol.tool_host import CannedAnswer, Module, Output, Program
from ozzie_server_ext.render.text import counted, cut_end, visible_label

EXAMPLES = "examples.jsonc"
_LOAD_S = 60.0
_CALL_S = 20.0
_MAX_SHOWN = 500


class Example(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A call, and its result, or a part of the error that it ends with. `answers` are those to its requests; `config`,
    `env` and `secrets` are what a person would set."""

    tool: Annotated[str, Meta(min_length=1, max_length=64)]
    arguments: JsonObject = msgspec.field(default_factory=dict[str, Json])
    answers: tuple[CannedAnswer, ...] = ()
    config: JsonObject = msgspec.field(default_factory=dict[str, Json])
    env: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    secrets: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    result: Json | msgspec.UnsetType = msgspec.UNSET
    error: str = ""


def run_examples(options: argparse.Namespace) -> int:
    """Load a plugin with all that it asks for, and run its examples. Raises OzzieError."""
    folder = Path(options.folder).absolute()
    found = find_plugin(folder)
    home, is_program = find_home(os.environ), found.manifest.provider == "native"
    if found.manifest.provider == "mcp":
        raise InputError("A server is not tested so: ozzie mcp add tries it.", code="plugin.kind")
    if is_program:
        expect_programs(home, found.manifest.name)
    examples = _examples(folder)

    # It outlives the tool host, which goes on to write what it has compiled.
    with tempfile.TemporaryDirectory() as scratch:

        async def run(host: ToolHost) -> list[str]:
            (await host.open(_reach(found, Path(scratch), Example(tool="-")), within_s=_LOAD_S)).close()
            return [await _tried(host, found, Path(scratch), number, each) for number, each in enumerate(examples, 1)]

        problems = with_host(home, run)
    wrong = [each for each in problems if each]
    name = visible_label(found.manifest.name)
    lines = [
        f"{name} can be started in its sandbox here. Its examples are run without a network."
        if is_program
        else f"{name} can be loaded, and has the functions that it needs."
    ]
    lines += [line for each in wrong for line in indented(each)]
    if not examples:
        lines.append(f"It has no examples: write some into {EXAMPLES}.")
    else:
        lines.append(f"{len(examples) - len(wrong)} of {counted(len(examples), 'example')} passed.")
    report = {"examples": len(examples), "problems": wrong}
    print_result(report, *lines, as_json=options.json)
    return 1 if wrong else 0


def _examples(folder: Path) -> tuple[Example, ...]:
    """Read a plugin's examples. Raises ConfigError, JsoncError."""
    file = folder / EXAMPLES
    content = content_if_there(file)
    if content is None:
        return ()
    value: Any = parse(text_of(content, file), str(file)).value
    try:
        return tuple(decode(Example, each) for each in value) if isinstance(value, list) else _no_list(file)
    except InvalidShape as error:
        raise ConfigError(f"{file}: an example can't be read: {error}", hint="See docs/writing-plugins.md.") from None


def _no_list(file: Path) -> tuple[Example, ...]:
    raise ConfigError(f"{file}: examples are a list in brackets.")


async def _tried(host: ToolHost, found: FoundPlugin, scratch: Path, number: int, example: Example) -> str:
    """Run an example; return what is wrong, or ""."""
    place = f"Example {number}, {example.tool}"
    tool = next((each for each in found.manifest.tools if each.name == example.tool), None)
    if tool is None and found.manifest.level == "tool":
        return f"{place}: the manifest has no such tool."
    defaults: JsonObject = {
        name: each.default for name, each in (tool.parameters if tool else {}).items() if each.default is not None
    }
    if example.answers and found.manifest.provider == "native":
        return f"{place}: a program's requests can't be answered by an example: leave its answers out."
    connection: Connection | None = None
    refused: list[str] = []
    try:
        connection = await host.open(_reach(found, scratch, example), within_s=_LOAD_S)
        output = await connection.call(
            example.tool,
            {**defaults, **example.arguments},
            within_s=_CALL_S,
            on_refused=lambda each: refused.append(each.words),
        )
    except ServerFailed as error:
        output = Output(texts=(str(error),), failed=True)
    finally:
        if connection is not None:
            connection.close()
    return "".join(f"{place}: {each}" for each in _differences(example, output, refused))


def _differences(example: Example, output: Output, refused: list[str]) -> Iterator[str]:
    said = " ".join((*output.texts, *refused))
    if example.error:
        if not output.failed:
            yield f'it should have failed with "{example.error}", and returned {_shown(output.structured)}'
        elif example.error not in said:
            yield f'it should have failed with "{example.error}", and failed so: {cut_end(said, _MAX_SHOWN)}'
    elif output.failed:
        yield f"it failed: {cut_end(said, _MAX_SHOWN)}"
    elif example.result is not msgspec.UNSET and example.result != output.structured:
        yield f"it should have returned {_shown(example.result)}, and returned {_shown(output.structured)}"


def _shown(value: Any) -> str:
    return cut_end(visible_label(json.dumps(value, ensure_ascii=False)), _MAX_SHOWN)


def _reach(found: FoundPlugin, scratch: Path, example: Example) -> Module | Program:
    """Return the plugin with all that it asks for, as the example sets it."""
    if found.manifest.provider == "native":
        return _program(found, scratch, example)
    return Module(
        name=found.manifest.name,
        wasm=str(found.file.parent / found.manifest.wasm_file),
        digest=found.code,
        exports=exports_of(found.manifest),
        granted=tuple(sorted(map(str, found.manifest.wishes))),
        secrets=example.secrets,
        env=example.env,
        config=example.config,
        notes=str(scratch / "notes.db"),
        compiled=str(scratch / "compiled"),
        project=str(scratch),
        answers=example.answers,
    )


def _program(found: FoundPlugin, scratch: Path, example: Example) -> Program:
    granted = tuple(sorted(map(str, found.manifest.wishes)))
    for wish in granted:
        kind, _, folder = wish.partition(":")
        if kind in ("fs_read", "fs_write"):
            (scratch / folder).mkdir(parents=True, exist_ok=True)
    return Program(
        name=found.manifest.name,
        folder=str(found.file.parent),
        program=found.manifest.program_file,
        digest=found.code,
        granted=granted,
        secrets=example.secrets,
        env=example.env,
        config=example.config,
        project=str(scratch),
        offline=True,
    )
