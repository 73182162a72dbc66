"""`ozzie plugins` with a plugin that is a program: what is shown, what the switch refuses, and its examples."""

import json
from pathlib import Path
from typing import Any

import pytest

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.plugins.plugin_list import SettledPlugin, plugins_of
from tests.mcp_rig import expect_sandbox
from tests.native_rig import native_folder, python, shell
from tests.rig import GatewayHome, new_home, ozzie

pytestmark = pytest.mark.timeout(120)

MANIFEST: dict[str, Any] = {
    "name": "count",
    "version": "1.0.0",
    "capabilities": {"http": {"allowed_hosts": ["a.example"]}, "fs_read": ["data"]},
    "tools": [{"name": "go", "description": "Count it", "parameters": {"text": {"default": "a b"}}}],
    "healthcheck": {"url": "http://127.0.0.1:9/health"},
}
ON = '{"native_plugins": true}'


@pytest.fixture
def home(tmp_path: Path) -> GatewayHome:
    return new_home(tmp_path)


@pytest.fixture
def folder(tmp_path: Path) -> str:
    script = python("answer({'words': len(given['text'].split())})")
    return str(native_folder(tmp_path / "p", script, {"lib/words.txt": "a"}, **MANIFEST))


def switch(home: GatewayHome, text: str = ON) -> None:
    (home.home / "config.jsonc").write_text(text)


def told(home: GatewayHome, *words: str, status: int = 0) -> str:
    """What a command prints, and on standard error."""
    done = ozzie(home, "plugins", *words)
    assert done.returncode == status, done.stderr
    return done.stdout + done.stderr


def settled(home: GatewayHome) -> SettledPlugin | None:
    return plugins_of(Home(home.home), home.project).find("count").settled


def test_a_program_is_called_one_with_what_the_sandbox_keeps_from_it_and_what_it_does_not(
    home: GatewayHome, folder: str
) -> None:
    """Looking at it needs no switch, and runs nothing."""
    *lines, digest = told(home, "check", folder).splitlines()

    assert lines == [
        "count 1.0.0, a program, not WebAssembly",
        "It asks for:",
        "  It is a program, `main`, with 2 other files, and not WebAssembly: the system",
        "  runs it.",
        "  Ozzie starts it for each call, in the sandbox of commands. It sees the",
        "  system's programs, Ozzie's Python with its packages, and of your files and the",
        "  network nothing but what is named here.",
        "  A flaw in the system's kernel would let it out, and then it could do all that",
        "  you can.",
        "  Whether it works is asked at `http://127.0.0.1:9/health`.",
        "  It may send all that it is given or may read to `a.example`, and ask for",
        "  anything there: Ozzie can't see what.",
        "  It may read files in `data/`.",
        "It says that it has these tools:",
        "  go(text): Count it",
        '    - text: by default "a b"',
    ]
    assert digest.startswith("A grant would be for: ")
    assert json.loads(told(home, "check", folder, "--json"))["asks_for"] == ["fs_read:data", "http:ANY a.example"]


def test_while_programs_are_off_none_is_added_granted_or_tried(home: GatewayHome, folder: str) -> None:
    place = home.home / "config.jsonc"
    words = f'To turn them on, write "native_plugins": true into {place}, and try again.'
    for command in (("add", folder, "--yes"), ("test", folder)):
        said = told(home, *command, status=1).replace("\n", " ")
        assert "`count` is a program, not WebAssembly, and programs are off." in said
        assert words in said
    assert "count" not in told(home, "list")

    expect_sandbox()
    switch(home)
    said = told(home, "add", folder, "--yes")
    assert "a program, not WebAssembly" in said
    assert "go: not classified, so it is never called" in said
    assert "count: on (yours)" in told(home, "list")
    switch(home, '{"native_plugins": false}')
    listed = told(home, "list").replace("\n  ", " ")
    assert "count: waits (yours) It is a program, and programs are off. To turn them on, write" in listed
    assert "programs are off" in told(home, "grant", "count", "--yes", status=1)
    assert json.loads(told(home, "show", "count", "--json"))["state"] == "waits"
    told(home, "revoke", "count")  # taking away always works
    assert settled(home) is None
    told(home, "remove", "count")


def test_what_was_added_is_all_of_it_and_what_is_hidden_is_not(home: GatewayHome, folder: str) -> None:
    expect_sandbox()
    switch(home)
    (Path(folder) / ".git").mkdir()
    told(home, "add", folder, "--yes")

    copy = home.home / "plugins/count"
    assert sorted(str(file.relative_to(copy)) for file in copy.rglob("*")) == [
        *("lib", "lib/words.txt", "main", "manifest.jsonc")
    ]
    found = settled(home)
    assert found is not None
    assert found.granted == ("fs_read:data", "http:ANY a.example")
    (copy / "lib/words.txt").write_text("b")
    assert "count: changed since it was granted (yours)" in told(home, "list")


def test_a_configuration_that_cannot_be_read_turns_programs_off(home: GatewayHome, folder: str) -> None:
    switch(home, '{"native_plugins": "yes"}')

    assert "must be true or false" in told(home, "add", folder, "--yes", status=1)
    assert "duckduckgo-search" in told(home, "list")


def test_a_project_cannot_turn_programs_on(home: GatewayHome) -> None:
    file = home.project / ".ozzie/config.jsonc"
    file.parent.mkdir(exist_ok=True)
    file.write_text(ON)
    done = ozzie(home, "config", "trust")

    assert done.returncode == 1
    assert "a project can't set this: its programs would run here." in done.stderr.replace("\n", " ")


def test_its_examples_are_run_in_the_sandbox_without_a_network(home: GatewayHome, folder: str) -> None:
    expect_sandbox()
    switch(home)
    examples: list[dict[str, Any]] = [
        {"tool": "go", "result": {"words": 2}},
        {"tool": "go", "arguments": {"text": "a b c"}, "result": {"words": 2}},
        {"tool": "go", "answers": [{"url": "https://a.example/"}], "result": {"words": 2}},
    ]
    (Path(folder) / "examples.jsonc").write_text(json.dumps(examples))

    said = told(home, "test", folder, status=1).replace("\n  ", " ")

    assert "count can be started in its sandbox here. Its examples are run without a network." in said
    assert 'Example 2, go: it should have returned {"words": 2}, and returned {"words": 3}' in said
    assert "Example 3, go: a program's requests can't be answered by an example: leave its answers out." in said
    assert "1 of 3 examples passed." in said


def test_a_script_that_is_none_is_refused_where_it_stands(home: GatewayHome, tmp_path: Path) -> None:
    folder = native_folder(tmp_path / "n", "print(1)", **MANIFEST)
    link = native_folder(tmp_path / "l", shell("echo 1"), **MANIFEST)
    (link / "etc").symlink_to("/etc")

    assert f"{folder}/main: is no program." in told(home, "check", str(folder), status=1)
    assert f"{link}/etc: is a link." in told(home, "check", str(link), status=1)
