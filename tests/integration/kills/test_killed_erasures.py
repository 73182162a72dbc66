"""A gateway is killed (SIGKILL) while it erases, and a program while it compacts: it was done whole or not at all."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.events import MessageReceived, Origin
from ozzie_server_ext.domain.ids import MessageId, SessionId, TaskId
from ozzie_server_ext.models.scripted import Say, Use
from ozzie_server_ext.store.compacting import compact
from ozzie_server_ext.tasks.service import NewTurn
from tests.integration.store.test_compacting import Old
from tests.scripted_gateway import ScriptedOzzie
from tests.tiers import SOAK, rows

pytestmark = [pytest.mark.timeout(600), pytest.mark.sampled]

POINTS = 50 if SOAK else 3
CHILD_S = 120
PLANTED = "the-planted-words"
KEPT = "the-kept-words"
ENDS = frozenset({"task.succeeded", "task.failed", "task.cancelled"})


@dataclass(frozen=True)
class Prepared:
    """A home with two sessions, `folder` around it, and what is erased in it, by kind. `whole` has a copy of it."""

    folder: Path
    whole: Path
    names: dict[str, str]
    dump: str

    def restore(self) -> None:
        """Put the home back to what it was, where it was."""
        shutil.rmtree(self.folder)
        shutil.copytree(self.whole, self.folder)


async def _turn(ozzie: ScriptedOzzie, name: str, words: str) -> tuple[SessionId, MessageId]:
    session = (await ozzie.sessions.open(name, title="", channel="notebook")).session_id
    note = Use("write_note", {"name": f"about {name}", "text": f"A note of {words}."})
    ozzie.plays(note, Use("read_file", {"path": f"{words}.txt"}), [Say(f"You said {words}.")])
    sent = await ozzie.submit(NewTurn(session, f"Remember {words}.", Origin(channel="notebook", sender_id="ana")))
    async with asyncio.timeout(60), ozzie.feed.subscribe(0, types=ENDS, task_id=sent.task_id) as events:
        assert (await anext(events)).type == "task.succeeded"
    return session, await _message(ozzie, sent.task_id)


async def _message(ozzie: ScriptedOzzie, task_id: TaskId) -> MessageId:
    found = await ozzie.log.read(task_id=task_id)
    return next(event.body.message_id for event in found if isinstance(event.body, MessageReceived))


@contextmanager
def config_below(folder: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(folder / "user-config"))
        yield


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return asyncio.run(_prepare(tmp_path_factory.mktemp("prepared")))


async def _prepare(folder: Path) -> Prepared:
    home, project = Home(folder / "home"), folder / "project"
    home.create()
    project.mkdir()
    for words in (PLANTED, KEPT):
        (project / f"{words}.txt").write_text("\n".join(f"{words} {number}" for number in range(2000)))
    with config_below(folder):
        ozzie = await ScriptedOzzie.start(home, project)
        assert isinstance(ozzie, ScriptedOzzie)
        await _turn(ozzie, "kept", KEPT)
        session, message = await _turn(ozzie, "planted", PLANTED)
        dump = await ozzie.log.dump()
        await ozzie.stop()
    whole = shutil.copytree(folder, folder.with_name("whole"))
    return Prepared(folder, whole, {"session": session, "message": message}, dump)


def on_disk(folder: Path, words: str) -> list[str]:
    files = [path for path in sorted((folder / "home").rglob("*")) if path.is_file() and not path.is_symlink()]
    return [str(path.relative_to(folder)) for path in files if words.encode() in path.read_bytes()]


def child(folder: Path, what: str, step: int, name: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.integration.kills.killed_child",
            what,
            folder / "home",
            folder / "project",
            str(step),
            name,
        ],
        env={**os.environ, "XDG_CONFIG_HOME": str(folder / "user-config")},
        capture_output=True,
        text=True,
        timeout=CHILD_S,
    )


@pytest.mark.parametrize("what", rows(["session", "message"], "message"))
def test_an_erasure_that_is_killed_anywhere_is_whole_or_did_not_begin(prepared: Prepared, what: str) -> None:
    name = prepared.names[what]
    prepared.restore()
    counted = child(prepared.folder, what, 0, name)
    steps = int(counted.stdout or 0)
    assert steps > POINTS, counted.stderr
    begun = 0
    for point in range(POINTS):
        prepared.restore()
        killed = child(prepared.folder, what, 1 + point * (steps * 9 // 10) // (POINTS - 1), name)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        begun += asyncio.run(_is_erased(prepared))
    assert 0 < begun < POINTS, "some were killed before it was recorded, and some after that"


async def _is_erased(prepared: Prepared) -> bool:
    """Whether it was recorded; then, after a start, nothing is left of it, and else all of it."""
    folder = prepared.folder
    with config_below(folder):
        ozzie = await ScriptedOzzie.start(Home(folder / "home"), folder / "project")
        await ozzie.erasures.cleaned()
        erased = await ozzie.log.read(types=frozenset({"session.erased", "message.erased"}))
        verified, dump = await ozzie.log.verify(), await ozzie.log.dump()
        rebuilt = await ozzie.log.rebuild()
        await ozzie.stop()
    assert verified.ok
    assert dump == rebuilt
    assert on_disk(folder, KEPT) == on_disk(prepared.whole, KEPT)
    if erased:
        assert on_disk(folder, PLANTED) == []
    else:
        assert (verified.erased, dump) == (0, prepared.dump)
        assert on_disk(folder, PLANTED) == on_disk(prepared.whole, PLANTED)
    return bool(erased)


@pytest.mark.soak
async def test_a_compaction_that_is_killed_anywhere_loses_nothing_and_goes_on(tmp_path: Path) -> None:
    whole = Old(tmp_path / "whole" / "home" / "data")
    await whole.fill()
    folder = tmp_path / "killed"
    shutil.copytree(tmp_path / "whole", folder)
    counted = child(folder, "compact", 0, "")
    steps = int(counted.stdout or 0)
    assert steps > POINTS, counted.stderr
    for point in range(POINTS):
        shutil.rmtree(folder)
        shutil.copytree(tmp_path / "whole", folder)
        killed = child(folder, "compact", 1 + point * (steps * 9 // 10) // (POINTS - 1), "")
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        home = Old(folder / "home" / "data")
        home.blobs = whole.blobs
        await home.expect_whole()

        compact(home.database, home.files)

        await home.expect_whole()
        assert len(home.left()) == 2
