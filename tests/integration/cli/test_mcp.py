"""`ozzie mcp list`: which servers are listed where, and that nothing is shown that might be a key."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.rig import GatewayHome, new_home, ozzie

KEY = "abcdEFGHijklMNOPqr"
"""Looks like a word."""
LIKE_A_KEY = "ghp_" + "a1B2c3D4e5F6" * 3


@pytest.fixture
def home(tmp_path: Path) -> GatewayHome:
    return new_home(tmp_path)


def listed(home: GatewayHome, own: Any) -> tuple[str, str]:
    """What is printed of a list of the user's, for people and as JSON."""
    (home.home / "mcp.json").write_text(own if isinstance(own, str) else json.dumps(own))
    shown, told = (ozzie(home, "mcp", "list", "--project", str(home.project), *more) for more in ((), ("--json",)))
    assert (shown.returncode, told.returncode) == (0, 0)
    assert shown.stderr + told.stderr == ""
    return shown.stdout, told.stdout


def test_servers_are_listed_by_their_files(home: GatewayHome) -> None:
    (home.project / ".vscode").mkdir()
    theirs = {
        "servers": {"fetch": {"type": "stdio", "command": "uvx", "env": {"K": "${input:key}"}, "envFile": ".env"}}
    }
    (home.project / ".vscode/mcp.json").write_text(json.dumps(theirs))
    github = {"command": "/usr/bin/npx", "args": ["-y", "server-github", "--token", LIKE_A_KEY]}
    github |= {"env": {"GITHUB_TOKEN": LIKE_A_KEY}}
    docs = {"url": "https://mcp.example.org/mcp", "headers": {"Authorization": "Bearer ${env:DOCS_TOKEN}"}}

    shown, told = listed(home, {"mcpServers": {"github": github, "docs": docs}})

    assert shown.splitlines() == [
        f"{home.home / 'mcp.json'}, yours",
        "  github: `npx`, 4 arguments",
        "    Not trusted, so it is not used: ozzie mcp trust github",
        "    Something like a key stands in this file: the variable GITHUB_TOKEN,",
        "    argument 4.",
        "  docs: at `https://mcp.example.org`",
        "    Not trusted, so it is not used: ozzie mcp trust docs",
        "    Needs $DOCS_TOKEN.",
        f"{home.project / '.vscode/mcp.json'}, of the project: anybody may have written it",
        "  fetch: `uvx`, 0 arguments",
        "    Not trusted, so it is not used: ozzie mcp trust fetch",
        "    Needs what VS Code asks as 'key'. Not Ozzie's: envFile.",
    ]
    own, project = json.loads(told)
    assert (own["own"], project["own"]) == (True, False)
    assert own["servers"][0]["keys"] == [{"part": "env", "name": "GITHUB_TOKEN"}, {"part": "args", "name": "3"}]
    assert own["servers"][1]["host"] == "https://mcp.example.org"


@pytest.mark.parametrize(
    "server",
    [
        {"command": "npx", "args": ["--token", KEY]},
        {"command": "npx", "args": [f"--api-key={KEY}", "--header", f"X-API-Key: {KEY}", KEY]},
        {"command": "npx", "args": ["--token", f"${{GITHUB_TOKEN:-{LIKE_A_KEY}}}"]},
        {"command": f"env GITHUB_TOKEN={KEY} npx -y server-github"},
        {"command": f"/bin/{LIKE_A_KEY}"},
        {"command": "npx", "env": {LIKE_A_KEY: "x"}},
        {"command": "npx", "env": {"PIN": KEY}},
        {"url": f"https://mcp.example.org/{KEY}/mcp?key={KEY}"},
        {"url": f"https://ana:{KEY}@mcp.example.org/"},
        {"url": "https://mcp.example.org/", "headers": {"Cookie": f"session={KEY}"}},
        {"url": f"${{BASE_URL:-https://ana:{KEY}@mcp.example.org}}/mcp"},
        {"command": "npx", LIKE_A_KEY: True},
        # wrong, so that an error tells of it
        {"command": "npx", "args": f"--token {KEY}"},
        {"command": "npx", "env": f"GITHUB_TOKEN={KEY}"},
        {"command": "npx", "env": {"GITHUB_TOKEN": [KEY]}},
        {"url": "https://mcp.example.org/", "headers": f"Authorization: Bearer {KEY}"},
        {"url": "https://mcp.example.org/", "headers": {"Authorization": f"Bearer {KEY}\n"}},
        {"url": f"wss://{KEY}@mcp.example.org/"},
        {"command": [KEY]},
        {"command": f"npx\0{KEY}"},
        f'{{"mcpServers": {{"x": {{"command": {KEY}}}}}}}',
        f'{{"mcpServers": {{"x": {{"env": {{"{KEY}" 1}}}}}}}}',
        f'{{"mcpServers": {{"x": {{"{KEY}": 1, "{KEY}": 2}}}}}}',
    ],
)
def test_nothing_that_a_server_is_started_or_asked_with_is_shown(server: Any, home: GatewayHome) -> None:
    shown, told = listed(home, server if isinstance(server, str) else {"mcpServers": {"x": server}})

    for key in (KEY, LIKE_A_KEY):
        assert key not in shown + told


def test_a_list_that_is_wrong_is_named_and_the_others_are_shown(home: GatewayHome) -> None:
    forged = {"mcpServers": {"x": {"command": "a", "env": {"A\n  fine: `npx`\u001b[2J": "b"}}}}
    (home.project / ".mcp.json").write_text(json.dumps(forged))
    (home.project / ".cursor").mkdir()
    (home.project / ".cursor/mcp.json").symlink_to("/nowhere")

    shown, _ = listed(home, {"mcpServers": {}})

    assert "\x1b" not in shown
    lines = shown.splitlines()
    assert lines[:2] == [f"{home.home / 'mcp.json'}, yours", "  It lists none."]
    assert "the name of a variable" in shown
    assert not any(line.startswith("  fine") for line in lines)
    assert "is a broken link" in shown


def test_the_users_own_list_is_not_a_projects_too(home: GatewayHome, tmp_path: Path) -> None:
    (home.home / "mcp.json").write_text('{"mcpServers": {}}')
    (home.project / ".ozzie").symlink_to(home.home)

    done = ozzie(home, "mcp", "list", "--project", str(home.project))

    assert done.stdout.count("It lists none.") == 1


def test_without_lists_or_a_folder_it_says_so(home: GatewayHome, tmp_path: Path) -> None:
    none = ozzie(home, "mcp", "list", "--project", str(home.project))
    nowhere = ozzie(home, "mcp", "list", "--project", str(tmp_path / "nowhere"))

    assert none.stdout == (
        "No MCP servers are listed: neither in Ozzie's folder (mcp.json) nor here (.ozzie/mcp.json, .mcp.json, "
        ".cursor/mcp.json, .vscode/mcp.json).\n"
    )
    assert (nowhere.returncode, nowhere.stderr) == (1, f"ozzie: There is no folder {tmp_path / 'nowhere'}.\n")
