"""`ozzie mcp list`: which servers are listed where, and what stands in the open there."""

import json
from pathlib import Path

import pytest

from tests.rig import GatewayHome, new_home, ozzie

KEY = "ghp_" + "a1B2c3D4e5F6" * 3


@pytest.fixture
def home(tmp_path: Path) -> GatewayHome:
    return new_home(tmp_path)


def test_servers_are_listed_by_their_files_and_no_key_is_shown(home: GatewayHome) -> None:
    own = {
        "mcpServers": {
            "github": {"command": "npx", "args": ["-y", "server-github", "--token", KEY], "env": {"GITHUB_TOKEN": KEY}},
            "docs": {"url": "https://mcp.example.org/", "headers": {"Authorization": "Bearer ${env:DOCS_TOKEN}"}},
        }
    }
    (home.home / "mcp.json").write_text(json.dumps(own))
    (home.project / ".vscode").mkdir()
    theirs = {
        "servers": {"fetch": {"type": "stdio", "command": "uvx", "env": {"K": "${input:key}"}, "envFile": ".env"}}
    }
    (home.project / ".vscode/mcp.json").write_text(json.dumps(theirs))

    done = ozzie(home, "mcp", "list", "--project", str(home.project))
    told = ozzie(home, "mcp", "list", "--project", str(home.project), "--json")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"{home.home / 'mcp.json'}, yours",
        "  github: `npx` `-y` `server-github` `--token` …",
        "    Something like a key stands in this file, as GITHUB_TOKEN of 'env', as",
        "    argument 4: ozzie secrets set NAME keeps one.",
        "  docs: `https://mcp.example.org/`",
        "    Needs $DOCS_TOKEN.",
        f"{home.project / '.vscode/mcp.json'}, of the project: anybody may have written it",
        "  fetch: `uvx`",
        "    Needs what VS Code asks as 'key'. Not Ozzie's: envFile.",
        "Ozzie only reads these lists so far: it starts no server.",
    ]
    assert KEY not in done.stdout + told.stdout
    assert [each["own"] for each in json.loads(told.stdout)] == [True, False]
    assert json.loads(told.stdout)[0]["servers"][0]["keys"] == [
        {"part": "env", "name": "GITHUB_TOKEN"},
        {"part": "args", "name": "3"},
    ]


def test_a_list_that_is_wrong_is_named_and_the_others_are_shown(home: GatewayHome) -> None:
    (home.home / "mcp.json").write_text('{"mcpServers": {}}')
    (home.project / ".mcp.json").write_text('{"mcpServers": {"x\\u001b[2J": {"command": "a"}}}')
    (home.project / ".cursor").mkdir()
    (home.project / ".cursor/mcp.json").symlink_to("/nowhere")

    done = ozzie(home, "mcp", "list", "--project", str(home.project))

    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    lines = done.stdout.splitlines()
    assert lines[:2] == [f"{home.home / 'mcp.json'}, yours", "  It lists none."]
    assert "a server's name may hold letters" in done.stdout
    assert "is a broken link" in done.stdout


def test_without_lists_it_says_where_they_would_be(home: GatewayHome) -> None:
    done = ozzie(home, "mcp", "list", "--project", str(home.project))

    assert done.stdout == (
        "No MCP servers are listed: neither in Ozzie's folder (mcp.json) nor here (.ozzie/mcp.json, .mcp.json, "
        ".cursor/mcp.json, .vscode/mcp.json).\n"
    )
