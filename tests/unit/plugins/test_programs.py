"""Plugins that are programs: what a manifest may say of one, which files are part of it, and when it counts."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.config.jsonc import ConfigError
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.plugins.capabilities import sentences
from ozzie_server_ext.plugins.manifest import Manifest, find_plugin, read_manifest
from ozzie_server_ext.plugins.plugin_list import SettledPlugin, effect_of, files_of, plugins_of, resettle
from ozzie_server_ext.plugins.program_files import MAX_FILES, MAX_SIZE
from tests.native_rig import native_folder, shell

GOOD: dict[str, Any] = {"name": "count", "provider": "native", "tools": [{"name": "go", "description": "Go"}]}
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def read(**changed: Any) -> Manifest:
    return read_manifest(json.dumps(GOOD | changed, indent=1).encode(), Path("manifest.jsonc"))


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"provider": "extism", "program": "a"}, 'only a plugin with the provider "native" has a "program"'),
        ({"wasm_path": "a.wasm"}, 'has a "wasm_path"'),
        ({"program": "/bin/sh"}, '"program" is the name of a file beside the manifest'),
        ({"program": "../other/main"}, '"program" is the name of a file beside the manifest'),
        ({"program": "bin/main"}, '"program" is the name of a file beside the manifest'),
        ({"level": "communication", "tools": []}, "a channel can't be a program yet"),
        ({"capabilities": {"kv": True}}, "a program keeps no notes between calls"),
        ({"capabilities": {"fs_read": [".git"]}}, "a program sees no hidden folders"),
        ({"capabilities": {"fs_read": ["data/.cache"]}}, "a program sees no hidden folders"),
        (
            {"capabilities": {"http": {"allowed_hosts": ["a.example"], "methods": ["GET"]}}},
            'so it asks for hosts without "methods"',
        ),
    ],
)
def test_what_a_program_cannot_have_is_refused_in_words(changed: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError) as error:
        read(**changed)

    assert why in str(error.value)


def test_a_host_is_asked_for_with_all_that_can_be_sent_there() -> None:
    wishes = read(capabilities={"http": {"allowed_hosts": ["a.example"]}, "log": True}).wishes
    settled = SettledPlugin(digest="x", granted_at=NOW, granted=tuple(map(str, wishes)))

    assert sorted(map(str, wishes)) == ["http:ANY a.example", "log"]
    assert sentences(wishes)[0] == (
        "It may send all that it is given or may read to `a.example`, and ask for anything there: Ozzie can't see what."
    )
    assert effect_of("go", settled) is None  # never by itself one that only reads
    assert effect_of("go", SettledPlugin(digest="x", granted_at=NOW, granted=("log", "fs_read:."))) == "reads"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return native_folder(tmp_path / "p", shell("echo 1"), {"lib/words.txt": "a"}, **GOOD)


def test_its_program_has_the_plugins_name_if_the_manifest_names_none(folder: Path) -> None:
    assert read().program_file == "count"
    assert find_plugin(folder).manifest.program_file == "main"


def test_a_grant_is_for_all_of_its_files(folder: Path) -> None:
    """A script reads the files beside it."""
    digests = {find_plugin(folder).digest}
    for change in (
        lambda: (folder / "lib/words.txt").write_text("b"),
        lambda: (folder / "lib/words.txt").rename(folder / "lib/other.txt"),
        lambda: (folder / "lib/other.txt").chmod(0o755),
        lambda: (folder / "new").write_text(""),
        lambda: (folder / "manifest.jsonc").write_text((folder / "manifest.jsonc").read_text() + "\n"),
        lambda: (folder / "main").write_text(shell("echo 2")),
    ):
        change()
        digests.add(find_plugin(folder).digest)

    assert len(digests) == 7
    assert find_plugin(folder).files == 4


def test_hidden_files_are_no_part_of_it(folder: Path) -> None:
    before = find_plugin(folder).digest
    (folder / ".git").mkdir()
    (folder / ".git/config").symlink_to("/etc/passwd")
    (folder / "lib/__pycache__").mkdir()
    (folder / "lib/__pycache__/a.pyc").write_text("x")

    assert find_plugin(folder).digest == before


def _link(folder: Path) -> None:
    (folder / "lib/link").symlink_to("/etc/passwd")


def _linked_program(folder: Path) -> None:
    (folder / "main").rename(folder / "other")
    (folder / "main").symlink_to("other")


def _linked_folder(folder: Path) -> None:
    (folder / "etc").symlink_to("/etc")


def _pipe(folder: Path) -> None:
    os.mkfifo(folder / "pipe")


def _many(folder: Path) -> None:
    for number in range(MAX_FILES):
        (folder / f"{number}").touch()


def _large(folder: Path) -> None:
    (folder / "data").touch()
    os.truncate(folder / "data", MAX_SIZE)


def _deep(folder: Path) -> None:
    (folder / "/".join("abcdefghij")).mkdir(parents=True)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (_link, r"lib/link: is a link"),
        (_linked_program, r"main: is a link"),
        (_linked_folder, r"etc: is a link"),
        (_pipe, r"pipe: is no plain file"),
        (_many, r"has more than 100 files"),
        (_large, r"has more than 32 MiB"),
        (_deep, r"lies too deep"),
        (lambda folder: (folder / "main").unlink(), r"main: is not there"),
        (lambda folder: (folder / "main").write_text("echo 1"), r"main: is no program"),
        (lambda folder: (folder / "a\u202eb").touch(), r"a file whose name can't be read"),
    ],
)
def test_a_folder_that_is_no_program_is_refused_in_words(folder: Path, spoil: Any, why: str) -> None:
    spoil(folder)

    with pytest.raises(ConfigError, match=why):
        find_plugin(folder)


def test_it_counts_only_while_programs_are_on(tmp_path: Path) -> None:
    home, project = Home(tmp_path / "home"), tmp_path / "project"
    home.create()
    native_folder(home.plugins / "count", shell("echo 1"), **GOOD)
    new = plugins_of(home, project).find("count")
    assert new.found is not None
    digest = new.found.digest
    resettle(home, "count", lambda _: SettledPlugin(digest=digest, granted_at=NOW))
    off, on = (plugins_of(home, project, programs=programs).find("count") for programs in (False, True))

    assert (new.state, off.state, on.state) == ("new", "waits", "on")
    assert off.problem == (
        'It is a program, and programs are off. To turn them on, write "native_plugins": true into config.jsonc in '
        "Ozzie's folder."
    )
    assert (new.problem, on.problem) == (off.problem, "")
    assert home.plugins / "count" / "main" in files_of(home, project)
