"""Ozzie's folder: made for its user alone, and closed where it was open."""

import os
from pathlib import Path

import pytest

from ozzie_server_ext.config.home import Home, anchor_key_file, find_home, shipped
from ozzie_server_ext.domain.errors import Unavailable


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_all_folders_are_made_for_the_user_alone(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        Home(tmp_path / "a" / "home").create()
    finally:
        os.umask(old)

    home = Home(tmp_path / "a" / "home")
    for folder in (home.root, home.blobs, home.app_logs, home.database.parent, home.root / "run", home.root / "skills"):
        assert mode(folder) == 0o700, folder


def test_a_folder_that_was_open_to_others_is_closed(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.create()
    home.root.chmod(0o755)
    home.blobs.chmod(0o777)

    home.create()

    assert (mode(home.root), mode(home.blobs)) == (0o700, 0o700)


def test_what_lies_there_already_stays(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.create()
    home.config_file.write_text("{}")

    home.create()

    assert home.config_file.read_text() == "{}"


def test_a_home_that_can_not_be_made_is_named_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")

    with pytest.raises(Unavailable, match="can't be used") as refused:
        Home(tmp_path / "home").create()
    assert (refused.value.code, "OZZIE_PATH" in refused.value.hint) == ("home.unusable", True)


def test_the_environment_names_the_home(tmp_path: Path) -> None:
    assert find_home({"OZZIE_PATH": str(tmp_path)}).root == tmp_path
    assert find_home({}).root == Path.home() / ".ozzie"


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        ("/etc/xdg", Path("/etc/xdg/ozzie/anchor.key")),
        ("", Path.home() / ".config/ozzie/anchor.key"),
        ("not/absolute", None),
    ],
)
def test_the_anchors_key_lies_outside_of_the_home(base: str, expected: Path | None) -> None:
    found = anchor_key_file({"XDG_CONFIG_HOME": base})

    assert found == (expected or Path.home() / ".config/ozzie/anchor.key")
    assert not found.is_relative_to(find_home({}).root)


@pytest.mark.parametrize("name", ["skills", "plugins", "notebooks"])
def test_what_is_shipped_is_found(name: str) -> None:
    assert shipped(name).is_dir()


def test_what_is_not_shipped_is_said_to_be_missing() -> None:
    with pytest.raises(Unavailable, match="missing"):
        shipped("nonesuch")


def test_without_any_home_folder_the_key_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)

    assert anchor_key_file({"XDG_CONFIG_HOME": "/c"}) == Path("/c/ozzie/anchor.key")
    with pytest.raises(Unavailable, match="no home folder"):
        anchor_key_file({})


@pytest.mark.parametrize(
    ("home", "is_apart"),
    [
        ("project/ozzie", False),
        ("project/sub/.ozzie", False),
        ("project", False),
        (".", False),
        ("link/ozzie", False),
        ("project/.ozzie", True),
        ("project/.config/ozzie", True),
        ("projects", True),
    ],
)
def test_a_home_that_tools_could_reach_through_the_project_is_refused(
    tmp_path: Path, home: str, *, is_apart: bool
) -> None:
    (tmp_path / "project" / "sub").mkdir(parents=True)
    (tmp_path / "link").symlink_to("project")
    if is_apart:
        Home(tmp_path / home).expect_apart(tmp_path / "project")
        return
    with pytest.raises(Unavailable, match="tools could change Ozzie's own rules") as raised:
        Home(tmp_path / home).expect_apart(tmp_path / "project")
    assert raised.value.code == "home.in_project"
    assert "Set OZZIE_PATH" in raised.value.hint


def test_a_project_through_which_tools_could_read_ozzies_keys_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    home = Home(tmp_path / ".ozzie")

    home.expect_apart(tmp_path / "project")
    for project in (".", "config", "config/ozzie", "config/ozzie/deep"):
        with pytest.raises(Unavailable, match=r"Ozzie's keys.*tools could read them") as raised:
            home.expect_apart(tmp_path / project)
        assert "Set XDG_CONFIG_HOME" in raised.value.hint
