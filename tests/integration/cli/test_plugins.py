"""`ozzie plugins check`: what a plugin asks for, in sentences, and where its manifest is wrong."""

import json
from pathlib import Path

import pytest

from tests.documents.examples_read import text
from tests.rig import GatewayHome, new_home, ozzie

WASM = b"\0asm\1\0\0\0"


@pytest.fixture
def home(tmp_path: Path) -> GatewayHome:
    return new_home(tmp_path)


def plugin(folder: Path, manifest: str, code: bytes = WASM) -> str:
    folder.mkdir()
    (folder / "manifest.jsonc").write_text(manifest)
    (folder / "duckduckgo-search.wasm").write_bytes(code)
    return str(folder)


def test_it_says_what_a_plugin_asks_for(home: GatewayHome, tmp_path: Path) -> None:
    folder = plugin(tmp_path / "p", text("plugin_duckduckgo.jsonc"))

    done = ozzie(home, "plugins", "check", folder)
    *lines, digest = done.stdout.splitlines()

    assert (done.returncode, done.stderr) == (0, "")
    assert lines == [
        "duckduckgo-search 0, WebAssembly",
        "It asks for:",
        "  It may send what it is given or may read to `api.duckduckgo.com` (GET).",
        "  It may send what it is given or may read to `duckduckgo.com` (GET).",
        "  It may write into Ozzie's log.",
        "It says that it has these tools:",
        "  web_search(query, max_results): Search the web using DuckDuckGo",
        "    - max_results: by default 5",
    ]
    assert digest.startswith("A grant would be for: ")
    told = json.loads(ozzie(home, "plugins", "check", folder, "--json").stdout)
    assert told["asks_for"] == ["http:GET api.duckduckgo.com", "http:GET duckduckgo.com", "log"]
    assert told["digest"] == digest.removeprefix("A grant would be for: ")
    assert told["tools"][0]["parameters"]["required"] == ["query"]


def test_what_would_deceive_is_shown_or_refused(home: GatewayHome, tmp_path: Path) -> None:
    hidden = json.dumps({"name": "duckduckgo-search", "description": "nice\u202e\u001b[2Jevil", "nmae": 1})
    wrong = ozzie(home, "plugins", "check", plugin(tmp_path / "a", hidden))
    shown = ozzie(home, "plugins", "check", plugin(tmp_path / "b", hidden.replace(', "nmae": 1', "")))
    other = ozzie(home, "plugins", "check", plugin(tmp_path / "c", text("plugin_duckduckgo.jsonc"), b'{"wasm": []}'))
    none = ozzie(home, "plugins", "check", str(tmp_path / "nowhere"))

    assert wrong.returncode == 1
    assert 'unknown key "nmae"; did you mean "name"?' in wrong.stderr
    assert shown.stdout.splitlines()[1:3] == [
        "  nice\\u202e\\u001b[2Jevil",
        "It asks for nothing: it calculates with what it is given.",
    ]
    assert (other.returncode, "is no WebAssembly" in other.stderr) == (1, True)
    assert none.returncode == 1
    assert none.stderr.splitlines() == [
        f"ozzie: {tmp_path / 'nowhere'}: has no plugin.",
        "Its manifest is called manifest.jsonc.",
    ]


def test_what_runs_outside_of_a_sandbox_is_not_called_harmless(home: GatewayHome, tmp_path: Path) -> None:
    def lines(name: str, text: str) -> list[str]:
        return ozzie(home, "plugins", "check", plugin(tmp_path / name, text)).stdout.splitlines()[1:-1]

    remote = {"transport": "http", "url": "https://mcp.example.org/", "headers": {"X-Key": "${KEY}"}}

    assert lines("mcp", text("plugin_github.jsonc")) == [
        "It asks for:",
        "  It is started as `npx` `-y` `@modelcontextprotocol/server-github`, with",
        "  `GITHUB_TOKEN` in its environment: outside of a sandbox, it could do all that",
        "  you can.",
    ]
    assert lines("remote", json.dumps({"name": "x", "provider": "mcp", "mcp": remote})) == [
        "It asks for:",
        "  It is a server at `https://mcp.example.org/`, with `X-Key`: it gets what it is",
        "  asked with.",
    ]
