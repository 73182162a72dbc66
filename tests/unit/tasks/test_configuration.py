"""The settings in force: read again when a file changes, recorded once, kept when a file is broken."""

import json
import os
from pathlib import Path

import pytest

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.config.loader import PROJECT_FILE, trust_file
from ozzie_server_ext.domain.events import ConfigChanged
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.store.blobs import InMemoryBlobs
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.tasks.configuration import CONFIG_STREAM, Configuration


class Desk:
    """A home with its configuration; `write` changes a file so that it is seen whatever the clock's resolution."""

    def __init__(self, folder: Path) -> None:
        self.home = Home(folder / "home")
        self.home.create()
        self.project = folder / "project"
        (self.project / ".ozzie").mkdir(parents=True)
        self.log = InMemoryEventLog(FakeClock(), CountingIds())
        self.blobs = InMemoryBlobs()
        self.configuration = self.restarted()
        self._tick = 1_000_000_000_000_000_000

    def restarted(self) -> Configuration:
        """As a gateway that starts anew on the same log."""
        return Configuration(self.home, self.project, self.log, self.blobs)

    def write(self, path: Path, text: str | bytes) -> None:
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        self._tick += 1_000_000_000
        os.utime(path, ns=(self._tick, self._tick))

    def configure(self, max_rounds: int) -> None:
        self.write(self.home.config_file, json.dumps({"agent": {"max_rounds": max_rounds}}))

    async def changes(self) -> list[ConfigChanged]:
        return [
            event.body for event in await self.log.read_stream(CONFIG_STREAM) if isinstance(event.body, ConfigChanged)
        ]

    async def rounds(self) -> int:
        return (await self.configuration.refresh()).settings.agent.max_rounds


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


async def test_before_it_was_read_the_defaults_hold(desk: Desk) -> None:
    assert desk.configuration.current.settings.agent.max_rounds == 25
    assert desk.configuration.error == ""


async def test_a_change_of_the_file_counts_from_the_next_look(desk: Desk) -> None:
    desk.configure(3)
    assert await desk.rounds() == 3
    desk.configure(4)
    assert await desk.rounds() == 4
    desk.home.config_file.unlink()
    assert await desk.rounds() == 25


async def test_a_change_is_recorded_once_with_what_was_before_it(desk: Desk) -> None:
    desk.configure(3)
    await desk.rounds()
    await desk.rounds()
    desk.configure(4)
    await desk.rounds()

    first, second = await desk.changes()
    assert (first.previous, second.previous) == ("", first.version)
    assert second.files == (str(desk.home.config_file),)
    assert json.loads(await desk.blobs.get(second.blob)) == {"agent": {"max_rounds": 4}, "SOUL.md": ""}
    assert desk.configuration.version == second.version


async def test_writing_the_same_again_is_no_change(desk: Desk) -> None:
    desk.configure(3)
    await desk.rounds()
    desk.write(desk.home.config_file, '// said otherwise\n{"agent": {"max_rounds": 3,},}')
    await desk.rounds()

    assert len(await desk.changes()) == 1


async def test_a_restart_with_the_same_settings_is_no_change_and_with_others_it_is(desk: Desk) -> None:
    desk.configure(3)
    await desk.rounds()

    desk.configuration = desk.restarted()
    assert await desk.rounds() == 3
    assert len(await desk.changes()) == 1
    assert desk.configuration.version == (await desk.changes())[0].version
    desk.configure(4)
    desk.configuration = desk.restarted()
    await desk.rounds()

    first, second = await desk.changes()
    assert second.previous == first.version


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("config.jsonc", '{"agent": {"max_rounds": 0}}', "agent.max_rounds"),
        ("config.jsonc", "{", "line 1, column 2"),
        (".env", b"A=\xff", ".env: not UTF-8"),
        ("SOUL.md", b"\xff", "SOUL.md"),
    ],
)
async def test_a_broken_file_leaves_the_settings_as_they_are_and_says_why(
    desk: Desk, name: str, content: str | bytes, says: str
) -> None:
    desk.configure(3)
    await desk.rounds()
    version = desk.configuration.version
    desk.write(desk.home.root / name, content)

    assert await desk.rounds() == 3

    assert says in desk.configuration.error
    assert (desk.configuration.version, len(await desk.changes())) == (version, 1)
    (desk.home.root / name).unlink()
    desk.configure(5)
    assert await desk.rounds() == 5
    assert desk.configuration.error == ""


async def test_a_variable_of_the_env_file_counts_and_its_value_is_not_recorded(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OZZIE_TEST_WHO", raising=False)
    desk.write(desk.home.config_file, '{"agent": {"system_prompt": "I am ${OZZIE_TEST_WHO}"}}')
    desk.write(desk.home.env_file, "OZZIE_TEST_WHO=a-secret\n")
    assert (await desk.configuration.refresh()).settings.agent.system_prompt == "I am a-secret"
    desk.write(desk.home.env_file, "OZZIE_TEST_WHO=another\n")
    assert (await desk.configuration.refresh()).settings.agent.system_prompt == "I am another"

    (change,) = await desk.changes()
    assert b"a-secret" not in await desk.blobs.get(change.blob)


async def test_the_users_soul_is_read_with_the_settings(desk: Desk) -> None:
    await desk.configuration.refresh()
    assert desk.configuration.soul == ""
    desk.write(desk.home.soul_file, "You are Bert.")
    await desk.configuration.refresh()

    assert desk.configuration.soul == "You are Bert."


async def test_a_projects_file_counts_from_the_moment_it_is_trusted_until_it_changes(desk: Desk) -> None:
    file = desk.project / PROJECT_FILE
    desk.write(file, '{"agent": {"max_rounds": 7}}')
    assert (await desk.rounds(), desk.configuration.current.ignored) == (25, (str(file),))

    trust_file(desk.home, file)
    assert (await desk.rounds(), desk.configuration.current.ignored) == (7, ())
    desk.write(file, '{"agent": {"max_rounds": 8}}')
    assert (await desk.rounds(), desk.configuration.current.ignored) == (25, (str(file),))
