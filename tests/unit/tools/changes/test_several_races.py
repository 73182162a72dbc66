"""While several files are changed one after the other, somebody swaps one, its folder or a link as fast as they can:
nothing is lost, nothing is written elsewhere, and what is told to be applied is there."""

import asyncio
from collections import Counter
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from ozzie_server_ext.artifacts.store import ArtifactStore
from ozzie_server_ext.domain.ids import SessionId, TaskId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.store.blobs import InMemoryBlobs
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.tools.base import ToolContext, ToolFailed, Unsettled
from ozzie_server_ext.tools.builtin import applying
from ozzie_server_ext.tools.changes.changeset import ChangeSet, FileChange
from tests.hostile.racing import FILE, lay_out
from tests.tiers import SOAK
from tests.unit.tools.changes.test_races import (
    MOVING,
    Race,
    attempts,
    contents,
    in_a_process,
    in_a_thread,
    name,
    seen_file,
)

(APPLY,) = applying.TOOLS
SESSION = SessionId("sess_1")
ATTEMPTS = 1_000 if SOAK else 20
CALLS_A_LOG = 50
"""A log in memory is slow when it is long."""


class Story:
    """How the attempts ended, and what must lie somewhere in the end, or may."""

    def __init__(self, base: Path) -> None:
        self.root = lay_out(base)
        self.expected = contents(base)
        self.perhaps = Counter[str]()
        self.ended = Counter[str]()
        self._store: ArtifactStore | None = None
        self._clock, self._ids = FakeClock(), CountingIds()

    async def attempt(self, number: int) -> None:
        """One file changed, and two new ones in a folder that is not there yet."""
        old = seen_file(self.root).content
        changes = {
            FILE: FileChange(path=FILE, before=sha256(old).hexdigest(), content=f"ours {number}\n".encode()),
            f"data/deep-{number}/a": FileChange(
                path=f"data/deep-{number}/a", before=None, content=f"a {number}\n".encode()
            ),
            f"data/deep-{number}/b": FileChange(
                path=f"data/deep-{number}/b", before=None, content=f"b {number}\n".encode()
            ),
        }
        try:
            done: Any = (await self._apply(number, changes)).data
        except ToolFailed as error:
            self.ended[error.code] += 1
        except Unsettled as error:
            self.ended[error.code] += 1
            applied = str(error).partition("Applied before it: ")[2].partition(". Not applied")[0].split(", ")
            self._count([path for path in applied if path in changes], changes, old)
            self.perhaps += Counter((each.content or b"").decode() for each in changes.values())
        else:
            self.ended["done" if len(done["applied"]) == len(changes) else "partly"] += 1
            self._count(done["applied"], changes, old)

    def _count(self, applied: list[str], changes: dict[str, FileChange], old: bytes) -> None:
        for path in applied:
            self.expected[(changes[path].content or b"").decode()] += 1
            self.expected[old.decode()] -= path == FILE

    async def _apply(self, number: int, changes: dict[str, FileChange]) -> Any:
        if self._store is None or number % CALLS_A_LOG == 0:
            self._log = InMemoryEventLog(self._clock, self._ids)
            self._store = ArtifactStore(self._log, InMemoryBlobs(), self._ids)
        found = ChangeSet(tuple(changes[path] for path in sorted(changes)))
        made_by: JsonObject = {"tool_id": "shell.run"}
        kept = await self._store.keep(
            found.text().encode(), kind="json", name=found.name(), mime="application/json", meta=made_by
        )
        recorder = Recorder(log=self._log, session_id=SESSION, task_id=TaskId(self._ids.new()))
        await self._store.record(recorder, kept)
        context = ToolContext(self.root, self._clock, artifacts=self._store.of(SESSION), key=f"task-{number}")
        args = APPLY.check({"artifact": kept.artifact_id, "paths": [*found.paths]})
        return await APPLY.run(await APPLY.plan(args, context), context)


@pytest.mark.sampled
@pytest.mark.timeout(1800 if SOAK else 120)
@pytest.mark.parametrize("racing", [in_a_thread, in_a_process])
@pytest.mark.parametrize("race", MOVING)
def test_what_is_applied_lies_in_the_project_and_nothing_is_lost(
    tmp_path: Path, race: str, racing: Race, say: Callable[[str], None]
) -> None:
    story = Story(tmp_path)

    async def tell() -> None:
        for number in attempts(story.ended, ATTEMPTS):
            await story.attempt(number)

    with racing(race, tmp_path):
        asyncio.run(tell())

    say(f"several, {race}, {name(racing)}: {dict(story.ended)}")
    found = contents(tmp_path)
    assert +(story.expected - found) == Counter(), "this is lost"
    assert found - +story.expected <= story.perhaps, "this should not be there"
    assert (tmp_path / "victim.txt").read_text() == "first of victim.txt\n"
    assert [path.name for path in (tmp_path / "outside").iterdir()] == ["notes.txt"], "this was written through a link"
    assert len(story.ended) > 1, "nobody raced"
