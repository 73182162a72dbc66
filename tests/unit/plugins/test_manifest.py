"""Manifests: what is refused, with its place, and what a plugin's folder has."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ozzie_server_ext.config.jsonc import ConfigError
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.plugins.capabilities import sentences
from ozzie_server_ext.plugins.manifest import MAX_TOOLS, MAX_WASM, Manifest, find_plugin, read_manifest

WASM = b"\0asm\1\0\0\0"
GOOD: dict[str, Any] = {"name": "weather", "tools": [{"name": "get_weather", "description": "Get it"}]}


def read(**changed: Any) -> Manifest:
    return read_manifest(json.dumps(GOOD | changed, indent=1).encode(), Path("manifest.jsonc"))


def refused(**changed: Any) -> str:
    with pytest.raises(InputError) as error:
        read(**changed)
    return str(error.value)


def wishes(**capabilities: Any) -> list[str]:
    return sorted(map(str, read(capabilities=capabilities).capabilities.wishes))


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"nmae": "x"}, 'unknown key "nmae"; did you mean "name"?'),
        ({"name": "Weather"}, "may hold small letters"),
        ({"name": "../x"}, "may hold small letters"),
        ({"name": "x" * 65}, "may hold small letters"),
        ({"id": "weather"}, 'id: says the same as "name"'),
        ({"type": "tool", "level": "tool"}, 'type: says the same as "level"'),
        ({"tool_spec": {"name": "a", "description": "b"}}, 'tool_spec: says the same as "tools"'),
        ({"capabilities": ["a"], "provides": ["b"]}, 'capabilities: says the same as "provides"'),
        ({"level": "skill"}, "must be one of"),
        ({"provider": "docker"}, "must be one of"),
        ({"provider": "mcp"}, '"mcp" says how a server is reached'),
        ({"mcp": {"command": "x"}}, '"mcp" says how a server is reached'),
        ({"provider": "mcp", "mcp": {"command": "x"}}, "those that it names itself"),
        ({"provider": "native", "wasm_path": "a.wasm"}, 'has a "wasm_path"'),
        ({"level": "communication"}, "has no tools"),
        ({"wasm_path": "/etc/passwd"}, "a file beside the manifest"),
        ({"wasm_path": "../other/a.wasm"}, "a file beside the manifest"),
        ({"wasm_path": "~/a.wasm"}, "a file beside the manifest"),
        ({"wasm_path": "lib/a.wasm"}, "a file beside the manifest"),
        ({"wasm_path": " a.wasm "}, "a file beside the manifest"),
        ({"tools": GOOD["tools"] * 2}, "two tools have the same name"),
        ({"tools": [{"name": "a b", "description": "x"}]}, "may hold letters, digits"),
        ({"tools": [{"name": "a"}]}, 'the key "description" is missing'),
        ({"tools": [{"name": "a", "description": ""}]}, "is empty"),
        ({"tools": [{"name": f"t{n}", "description": "x"} for n in range(MAX_TOOLS + 1)]}, "may have at most 100"),
        ({"requires": ["core >> 1"]}, "must be the name of a capability"),
        ({"version": "one two"}, "must be a version"),
        ({"healthcheck": {"kind": "http"}}, 'has a "url"'),
        ({"healthcheck": {"kind": "call", "url": "http://a.example/"}}, 'has a "url"'),
        ({"healthcheck": {"kind": "http", "url": "file:///etc/passwd"}}, "must be an address"),
        ({"config_schema": []}, "must be an object"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(changed: dict[str, Any], why: str) -> None:
    said = refused(**changed)

    assert why in said
    assert said.startswith("manifest.jsonc, line ")


@pytest.mark.parametrize(
    ("parameter", "why"),
    [
        ({"type": "date"}, "must be one of"),
        ({"type": "integer", "default": "5"}, "the default must be of the type integer"),
        ({"type": "integer", "default": True}, "the default must be of the type integer"),
        ({"type": "boolean", "default": 1}, "the default must be of the type boolean"),
        ({"default": "a", "required": True}, "is not required"),
        ({"default": "a", "enum": ["b"]}, 'must be one of "enum"'),
        ({"items": {"type": "string"}}, "only a parameter of the type array"),
    ],
)
def test_a_parameter_that_says_two_things_is_refused(parameter: dict[str, Any], why: str) -> None:
    tool = {"name": "t", "description": "x", "parameters": {"p": parameter}}

    assert why in refused(tools=[tool])


def test_a_parameter_becomes_a_json_schema() -> None:
    parameters = {"names": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "required": True}}

    (tool,) = read(tools=[{"name": "t", "description": "x", "parameters": parameters}]).tools

    assert tool.schema_of_arguments == {
        "type": "object",
        "properties": {"names": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}},
        "required": ["names"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("server", "why"),
    [
        ({"transport": "stdio"}, 'needs its "command"'),
        ({"transport": "http"}, 'needs its "url"'),
        ({"command": "x", "url": "https://a.example/"}, 'has neither "url"'),
        ({"command": "x", "headers": {"a": "b"}}, 'has neither "url"'),
        ({"transport": "sse", "url": "https://a.example/", "env": {"A": "b"}}, 'has neither "command"'),
        ({"transport": "http", "url": "ftp://a.example/"}, "must be an address"),
        ({"transport": "pipe", "command": "x"}, "must be one of"),
    ],
)
def test_a_server_is_reached_in_one_way(server: dict[str, Any], why: str) -> None:
    assert why in refused(provider="mcp", tools=[], mcp=server)


def test_what_is_not_asked_for_is_not_wished() -> None:
    assert wishes() == []
    nothing = {"http": False, "kv": False, "log": False, "filesystem": False, "fs_read": False, "env": False}
    assert wishes(**nothing, fs_write=False, config=False, secrets=False) == []


def test_each_wish_stands_by_itself_so_that_more_is_seen_to_be_more() -> None:
    before = read(capabilities={"http": {"allowed_hosts": ["a.example"], "methods": ["GET"]}}).capabilities.wishes
    after = read(
        capabilities={"http": {"allowed_hosts": ["a.example", "b.example"], "methods": ["GET", "POST"]}, "kv": True}
    ).capabilities.wishes

    assert before < after
    assert sorted(map(str, after - before)) == [
        "http:GET b.example",
        "http:POST a.example",
        "http:POST b.example",
        "kv",
    ]


def test_hosts_and_folders_are_brought_to_one_form() -> None:
    asked = wishes(
        http={"allowed_hosts": ["API.Example.ORG", "*.münchen.example"]},
        fs_read=["./data//raw/", "."],
        fs_write=["a/b"],
    )

    assert asked == [
        "fs_read:.",
        "fs_read:data/raw",
        "fs_write:a/b",
        "http:GET *.xn--mnchen-3ya.example",
        "http:GET api.example.org",
    ]


@pytest.mark.parametrize(
    ("capabilities", "why"),
    [
        ({"http": True}, '"http" names its hosts'),
        ({"http": {"allowed_hosts": []}}, "needs at least one"),
        ({"http": {"allowed_hosts": ["*.*"]}}, "is not a host"),
        ({"http": {"allowed_hosts": ["*.com"]}}, "has no dot"),
        ({"http": {"allowed_hosts": ["localhost"]}}, "has no dot"),
        ({"http": {"allowed_hosts": ["127.0.0.1"]}}, "an IP address is no host"),
        ({"http": {"allowed_hosts": ["0x7f.1"]}}, "is not a host"),
        ({"http": {"allowed_hosts": ["10.0.0.0/8"]}}, "an IP address is no host"),
        ({"http": {"allowed_hosts": ["https://a.example/"]}}, "is not a host"),
        ({"http": {"allowed_hosts": ["a.example"], "methods": ["CONNECT"]}}, "must be one of"),
        ({"http": {"allowed_hosts": [f"h{n}.example" for n in range(51)]}}, "may have at most 50"),
        ({"filesystem": True}, "all files are too much"),
        ({"fs_read": True}, '"fs_read" names folders'),
        ({"fs_read": ["/etc"]}, "is no folder of the project"),
        ({"fs_write": ["../other"]}, "is no folder of the project"),
        ({"fs_read": ["~"]}, "is no folder of the project"),
        ({"fs_read": ["data/*"]}, "a folder has no *"),
        ({"fs_read": ["a\nfs_write:."]}, "is no folder of the project"),
        ({"fs_read": "data"}, "must be a list"),
        ({"secrets": "KEY"}, "must be a list"),
        ({"http": {"allowed_hosts": ["a.example", "A.example"]}}, "names something twice"),
        ({"http": {"allowed_hosts": ["a.example\u202e"]}}, "only characters that can be seen"),
        ({"kv": 1}, "must be true or false"),
        ({"fs_read": ["a", "./a"]}, "names something twice"),
        ({"env": True}, '"env" names variables'),
        ({"env": ["LANG=de"]}, "may hold letters, digits and '_' only"),
        ({"secrets": True}, '"secrets" names them'),
        ({"secrets": ["A", "A"]}, "names something twice"),
        ({"network": True}, 'unknown key "network"'),
        ({"kv": "yes please"}, "must be true or false"),
    ],
)
def test_a_wish_for_everything_or_beyond_the_project_is_refused(capabilities: dict[str, Any], why: str) -> None:
    assert why in refused(capabilities=capabilities)


def test_a_person_is_told_each_wish_in_a_sentence_the_gravest_first() -> None:
    asked = read(
        capabilities={
            "http": {"allowed_hosts": ["*.example.org"], "methods": ["GET", "DELETE"]},
            "kv": True,
            "fs_read": ["."],
            "fs_write": ["results"],
            "env": ["LANG"],
            "config": ["region"],
            "secrets": ["KEY"],
        }
    ).capabilities.wishes

    assert sentences(asked) == (
        "It may use the secret `KEY`.",
        "It may change files in `results/`.",
        "It may send what it is given or may read to all hosts below `example.org` (DELETE, GET).",
        "It may read files in the whole project.",
        "It may read the variable `LANG` of the environment.",
        "It may read `region` of its own configuration.",
        "It may keep notes of its own between calls.",
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "manifest.jsonc").write_text(json.dumps(GOOD))
    (tmp_path / "weather.wasm").write_bytes(WASM)
    return tmp_path


def test_a_grant_is_for_the_manifest_and_the_code_together(folder: Path) -> None:
    first = find_plugin(folder).digest
    (folder / "weather.wasm").write_bytes(WASM + b"\0")
    second = find_plugin(folder).digest
    (folder / "manifest.jsonc").write_text(json.dumps(GOOD, indent=1))
    third = find_plugin(folder).digest

    assert len({first, second, third}) == 3
    assert len(first) == 64


def test_a_manifest_in_the_place_of_the_code_is_no_code(folder: Path) -> None:
    (folder / "weather.wasm").write_text('{"wasm": [{"url": "https://evil.example/a.wasm"}], "allowed_hosts": ["*"]}')

    with pytest.raises(ConfigError, match="is no WebAssembly"):
        find_plugin(folder)


def _link(file: Path) -> None:
    file.rename(file.with_suffix(".other"))
    file.symlink_to(file.with_suffix(".other"))


def _pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def _folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (Path.unlink, "can't be read: No such file"),
        (_link, "is a link"),
        (_pipe, "is no WebAssembly"),
        (_folder, "Is a directory"),
        (lambda file: file.write_bytes(b""), "is no WebAssembly"),
        (lambda file: os.truncate(file, MAX_WASM + 1), "is larger than 32 MiB"),
    ],
)
def test_code_that_is_no_plain_file_is_refused(folder: Path, spoil: Any, why: str) -> None:
    spoil(folder / "weather.wasm")

    with pytest.raises(ConfigError, match=why):
        find_plugin(folder)


def test_a_folder_has_one_manifest(folder: Path) -> None:
    (folder / "manifest.yaml").write_text("name: weather\n")
    with pytest.raises(ConfigError, match=r"has manifest\.jsonc and manifest\.yaml"):
        find_plugin(folder)

    (folder / "manifest.jsonc").unlink()
    assert find_plugin(folder).manifest.name == "weather"

    (folder / "manifest.yaml").unlink()
    with pytest.raises(ConfigError, match="has no plugin"):
        find_plugin(folder)


def test_a_problem_in_yaml_is_told_with_its_line() -> None:
    with pytest.raises(ConfigError, match=r'manifest\.yaml, line 2, column 1: typ: unknown key "typ"'):
        read_manifest(b"id: a\ntyp: channel\n", Path("manifest.yaml"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '{"name": "x", "description": "ok",\n"tool_spec": {"name": "a"}}',
            'line 2, column 1: tools.0: the key "descri',
        ),
        (
            '{"name": "x",\n"tool_spec":\n{"name": "a b", "description": "c"}}',
            "line 3, column 2: tools.0.name: may hold",
        ),
        ('{\n"id": "Weather X"}', "line 2, column 1: name: may hold small letters"),
        ('{"name": "x",\n"type": "skill"}', "line 2, column 1: level: must be one of"),
        ('{"name": "x", "capabilities": [\n"A B"]}', "line 2, column 1: provides.0: must be the name of a capability"),
        (
            '{"name": "x", "tools": [],\n"tools_": []}',
            'line 2, column 1: tools_: unknown key "tools_"; did you mean "tools"',
        ),
    ],
)
def test_a_problem_is_told_where_it_stands_whatever_the_key_is_called(text: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        read_manifest(text.encode(), Path("manifest.jsonc"))

    assert f"manifest.jsonc, {said}" in str(error.value)
