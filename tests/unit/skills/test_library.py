"""Which skills are used, of those that lie in the folders."""

import asyncio
from pathlib import Path

import pytest

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.config.settings import Settings
from ozzie_server_ext.domain.errors import InputError, NotFound
from ozzie_server_ext.skills.library import PROJECT_FOLDER, Found, Library, Shelf, SkillError


class Folders:
    """A home, a project and one folder more, with the skills that a test puts there."""

    def __init__(self, root: Path) -> None:
        self.home, self.project = Home(root / "home"), root / "project"
        self.home.create()
        self.more, self.shipped = root / "more", root / "shipped"
        for folder in (self.project / PROJECT_FOLDER, self.more, self.shipped):
            folder.mkdir(parents=True)
        self.settings = Settings.model_validate({"skills": {"dirs": [str(self.more)]}})
        self.library = Library(self.home, self.project, self.shipped, lambda: self.settings)

    @property
    def own(self) -> Path:
        return self.home.root / "skills"

    @property
    def projects(self) -> Path:
        return self.project / PROJECT_FOLDER

    def put(self, folder: Path, name: str, description: str = "x", file: str = "") -> Path:
        path = folder / f"{file or name}.jsonc"
        path.write_text(f'{{"name": "{name}", "description": "{description}"}}')
        return path

    def shelf(self) -> Shelf:
        """What `look` returns, which must not miss what a look at every file finds."""
        looked = asyncio.run(self.library.look())
        assert looked == self.library.shelf()
        return looked

    def found(self) -> dict[str, Found]:
        return {each.path.parent.name + "/" + each.path.name: each for each in self.shelf().found}

    def used(self) -> dict[str, str]:
        """The skills that are used, each with its description."""
        return {file.skill.name: file.skill.description for file in self.shelf().skills}


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path)


def test_skills_of_all_folders_are_used(folders: Folders) -> None:
    folders.put(folders.shipped, "a")
    folders.put(folders.own, "b")
    folders.put(folders.more, "c")
    (folders.own / "notes.txt").write_text("no skill")
    (folders.own / ".hidden.jsonc").write_text("no skill")
    assert set(folders.used()) == {"a", "b", "c"}


def test_a_skill_of_the_users_takes_the_place_of_a_shipped_one(folders: Folders) -> None:
    shipped = folders.put(folders.shipped, "a", "shipped")
    folders.put(folders.own, "a", "mine", file="other")
    assert folders.used() == {"a": "mine"}
    assert folders.found()["skills/other.jsonc"].replaces == shipped


def test_a_broken_one_that_was_to_take_its_place_does_not_let_the_shipped_one_run(folders: Folders) -> None:
    folders.put(folders.shipped, "a", "shipped")
    (folders.own / "a.jsonc").write_text('{"name": "a", "modle": "x"}')
    assert folders.used() == {}
    with pytest.raises(SkillError, match='did you mean "model"'):
        folders.library.shelf().get("a")


def test_the_second_of_two_of_one_name_is_not_used_and_told_why(folders: Folders) -> None:
    first = folders.put(folders.own, "a", "first")
    second = folders.put(folders.more, "a", "second")
    assert folders.used() == {"a": "first"}
    assert folders.found()["more/a.jsonc"].problem == f'{second}: the name "a" is taken by {first}.'


def test_a_projects_skill_is_not_looked_at_before_a_person_trusts_it(folders: Folders) -> None:
    path = folders.projects / "a.jsonc"
    path.write_text("{ not even JSON")
    found = folders.found()["skills/a.jsonc"]
    assert (found.is_trusted, found.problem) == (False, f"{path}: nobody has trusted it yet.")
    assert found.hint == f"Read it, then run: ozzie skills trust {path}"


def test_a_projects_skill_is_used_once_trusted_and_no_longer_than_it_stays(folders: Folders) -> None:
    path = folders.put(folders.projects, "a", "as read")
    assert folders.library.trust(path).skill.name == "a"
    assert folders.used() == {"a": "as read"}
    folders.put(folders.projects, "a", "something else")
    assert folders.used() == {}
    assert folders.found()["skills/a.jsonc"].problem == f"{path}: has changed since it was trusted."
    folders.put(folders.projects, "a", "as read")
    assert folders.used() == {"a": "as read"}
    assert folders.library.untrust(path)
    assert folders.used() == {}


def test_a_projects_skill_takes_no_other_ones_name(folders: Folders) -> None:
    folders.put(folders.shipped, "a", "shipped")
    folders.library.trust(folders.put(folders.projects, "a", "project", file="b"))
    assert folders.used() == {"a": "shipped"}
    assert 'the name "a" is taken' in folders.found()["skills/b.jsonc"].problem


def test_an_untrusted_file_of_its_name_does_not_keep_a_skill_from_being_used(folders: Folders) -> None:
    folders.put(folders.shipped, "a", "shipped")
    folders.put(folders.projects, "a", "project")
    assert folders.library.shelf().get("a").skill.description == "shipped"


@pytest.mark.parametrize("place", ["own", "elsewhere"])
def test_only_a_skill_of_the_project_is_trusted(folders: Folders, place: str) -> None:
    folder = folders.own if place == "own" else folders.project
    with pytest.raises(InputError, match="is not a skill of this project"):
        folders.library.trust(folders.put(folder, "a"))


def test_what_is_added_changed_and_removed_counts_at_the_next_look(folders: Folders) -> None:
    path = folders.put(folders.own, "a", "one")
    before = folders.library.shelf()
    assert folders.library.shelf() is before
    folders.put(folders.own, "a", "another")
    assert folders.used() == {"a": "another"}
    folders.put(folders.own, "b")
    assert set(folders.used()) == {"a", "b"}
    path.unlink()
    assert set(folders.used()) == {"b"}


def test_a_change_in_the_target_of_a_link_counts_at_the_next_look(folders: Folders, tmp_path: Path) -> None:
    target = folders.put(tmp_path, "a", "one")
    (folders.own / "a.jsonc").symlink_to(target)
    assert folders.used() == {"a": "one"}
    folders.put(tmp_path, "a", "another")
    assert folders.used() == {"a": "another"}


def test_a_folder_that_is_added_to_the_settings_counts_at_the_next_look(folders: Folders, tmp_path: Path) -> None:
    assert folders.used() == {}
    folders.put(tmp_path, "a")
    folders.settings = Settings.model_validate({"skills": {"dirs": [str(tmp_path)]}})
    assert set(folders.used()) == {"a"}


def test_an_unknown_name_is_told_with_the_nearest_one(folders: Folders) -> None:
    folders.put(folders.own, "researcher")
    with pytest.raises(NotFound) as caught:
        folders.library.shelf().get("reseacher")
    assert (str(caught.value), caught.value.hint) == (
        'There is no skill "reseacher".',
        'Did you mean "researcher"?',
    )


def test_a_folder_that_is_not_there_has_no_skills(folders: Folders) -> None:
    folders.more.rmdir()
    assert folders.used() == {}


def test_a_skill_that_is_no_file_is_told_and_not_waited_for(folders: Folders) -> None:
    (folders.own / "a.jsonc").mkdir()
    assert "is not a file" in folders.found()["skills/a.jsonc"].problem
