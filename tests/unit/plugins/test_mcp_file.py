"""Lists of MCP servers as other programs write them."""

import json
from pathlib import Path
from typing import Any

import pytest

from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.plugins.mcp_file import MAX_SERVERS, Key, ListedServer, read_mcp_file

FILE = Path("mcp.json")


def read(tree: Any) -> tuple[ListedServer, ...]:
    return read_mcp_file(json.dumps(tree, indent=1).encode(), FILE)


def one(**given: Any) -> ListedServer:
    (found,) = read({"mcpServers": {"x": given}})
    return found


def test_claude_desktops_form() -> None:
    found = one(command="npx", args=["-y", "@modelcontextprotocol/server-filesystem", "/home/ana/docs"], env={"A": "b"})

    assert (found.name, found.how.transport, found.how.command) == ("x", "stdio", "npx")
    assert found.how.args == ("-y", "@modelcontextprotocol/server-filesystem", "/home/ana/docs")
    assert found.how.env == {"A": "b"}
    assert (found.place.line, found.keys, found.variables) == (3, (), ())


def test_cursors_form_with_an_address_and_a_variable() -> None:
    found = one(url="https://mcp.example.org/", headers={"Authorization": "Bearer ${env:EXAMPLE_TOKEN}"})

    assert (found.how.transport, found.how.url) == ("http", "https://mcp.example.org/")
    assert found.how.headers == {"Authorization": "Bearer ${EXAMPLE_TOKEN}"}
    assert (found.variables, found.keys) == (("EXAMPLE_TOKEN",), ())


def test_vs_codes_form_with_what_it_asks_its_user() -> None:
    text = """
    {
      // VS Code writes comments, too
      "inputs": [{"id": "key", "type": "promptString", "description": "A key", "password": true}],
      "servers": {
        "remote": {"type": "sse", "url": "https://mcp.example.org/sse"},
        "local": {
          "type": "stdio", "command": "uvx", "args": ["--root", "${workspaceFolder}/src"],
          "env": {"KEY": "${input:key}", "HOME_OF": "${userHome}"}, "envFile": "${workspaceFolder}/.env",
        },
      },
    }
    """

    remote, local = read_mcp_file(text.encode(), FILE)

    assert (remote.how.transport, local.how.transport) == ("sse", "stdio")
    assert local.how.args == ("--root", "${folder:project}/src")
    assert (local.inputs, local.variables, local.keys) == (("key",), (), ())
    assert local.passed_over == ("envFile",)


def test_claude_codes_variables_have_defaults() -> None:
    found = one(type="http", url="${BASE_URL:-https://mcp.example.org}/mcp", headers={"X-Home": "${env:home}"})

    assert found.how.url == "${BASE_URL:-https://mcp.example.org}/mcp"
    assert found.variables == ("home",), "the other one has a default"


def test_what_other_programs_mean_is_passed_over_and_named() -> None:
    found = one(command="x", disabled=True, autoApprove=["*"], alwaysAllow=["delete_all"])

    assert found.passed_over == ("disabled", "autoApprove", "alwaysAllow")


@pytest.mark.parametrize(
    ("given", "keys"),
    [
        ({"command": "x", "env": {"GITHUB_TOKEN": "ghp_" + "a1B2c3D4e5F6" * 3}}, [Key("env", "GITHUB_TOKEN")]),
        ({"command": "x", "env": {"GITHUB_TOKEN": "${GITHUB_TOKEN}"}}, []),
        ({"command": "x", "args": ["--api-key", "s3cr3tV4lu3WithM1xedCh4rs"]}, [Key("args", "1")]),
        ({"command": "x", "args": ["--port", "8080"]}, []),
        ({"command": "x", "args": ["--api-key=s3cr3tV4lu3WithM1xedCh4rs"]}, [Key("args", "0")]),
        ({"command": "x", "args": ["--token", "${T:-ghp_" + "a1B2c3D4e5F6" * 3 + "}"]}, [Key("args", "1")]),
        ({"command": "env TOKEN=ghp_" + "a1B2c3D4e5F6" * 3}, [Key("command", "")]),
        (
            {"url": "https://a.example/", "headers": {"X-Api-Key": "s3cr3tV4lu3WithM1xedCh4rs"}},
            [Key("headers", "X-Api-Key")],
        ),
        ({"url": "https://ana:pAssw0rd9x@a.example/"}, [Key("url", "")]),
    ],
)
def test_a_key_that_stands_in_the_file_is_found(given: dict[str, Any], keys: list[Key]) -> None:
    assert list(one(**given).keys) == keys


@pytest.mark.parametrize(
    ("tree", "why"),
    [
        ({}, "lists no servers"),
        ({"mcpServers": []}, "lists no servers"),
        ({"mcpServers": {"x": "npx"}}, "must be an object"),
        ({"mcpServers": {"x\u202e": {"command": "a"}}}, "may hold letters"),
        ({"mcpServers": {"../x": {"command": "a"}}}, "may hold letters"),
        ({"mcpServers": {"x": {}}}, 'needs its "command"'),
        ({"mcpServers": {"x": {"command": "a", "url": "https://a.example/"}}}, "has neither"),
        ({"mcpServers": {"x": {"command": 5}}}, "must be text"),
        ({"mcpServers": {"x": {"command": "a", "args": "-y"}}}, "must be a list"),
        ({"mcpServers": {"x": {"command": "a", "env": {"A": 1}}}}, "must be text"),
        ({"servers": {"x": {"type": "pipe", "command": "a"}}}, "must be one of"),
        ({"servers": {"x": {"type": ["stdio"], "command": "a"}}}, "must be one of"),
        ({"servers": {"x": {"type": {}, "command": "a"}}}, "must be one of"),
        ({"mcpServers": {"x": {"url": "https://a.example/", "headers": {"A": "b\r\nC: d"}}}}, "must be one line"),
        ({"mcpServers": {"x": {"url": "https://a.example/", "headers": {"A:": "b"}}}}, "the name of a header"),
        ({"mcpServers": {"x": {"command": "a", "env": {"A=B": "c"}}}}, "the name of a variable"),
        ({"mcpServers": {"x": {"command": "a\x00b"}}}, "must be a program"),
        ({"servers": {f"s{n}": {"command": "a"} for n in range(MAX_SERVERS + 1)}}, "at most 100 are read"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(tree: Any, why: str) -> None:
    with pytest.raises(InputError) as refused:
        read(tree)

    assert why in str(refused.value)
    assert str(refused.value).startswith("mcp.json, line ")
