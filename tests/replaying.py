"""Replaying what tests have recorded; as a plugin of pytest (`-p tests.replaying`), all that they record.

With OZZIE_REPLAYED naming a file, each session of each gateway that a test stops is replayed when the test is over;
what came of it is a line of JSON in that file.
"""

import json
import os
import tempfile
import threading
from collections.abc import Generator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ozzie_server_ext.app import Ozzie
from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.ids import SessionId
from ozzie_server_ext.policy.files import load
from ozzie_server_ext.replay.changes import Changes
from ozzie_server_ext.replay.outcome import Verdict
from ozzie_server_ext.replay.record import MissingFact, Reading, opened
from ozzie_server_ext.replay.replay import replay
from ozzie_server_ext.replay.simulation import Simulator
from ozzie_server_ext.replay.verdict import verdict_of
from ozzie_server_ext.skills.as_tool import SkillTool
from ozzie_server_ext.tools.base import Tool
from ozzie_server_ext.tools.registry import ToolRegistry

REPLAYED = "OZZIE_REPLAYED"
WAIT_S = 120
EVER = datetime(2020, 1, 1, tzinfo=UTC)


def replayed(
    home: Home,
    session_id: SessionId,
    changes: Changes | None = None,
    *,
    until: int | None = None,
    tools: list[Tool] | None = None,
) -> Verdict:
    """The verdict on a session of a home. Not for the thread of a running event loop: a replay has its own."""
    with opened(home) as reading:
        return _verdict(reading, home, session_id, changes or Changes(), until, tools)


def _verdict(
    reading: Reading,
    home: Home,
    session_id: SessionId,
    changes: Changes,
    until: int | None = None,
    tools: list[Tool] | None = None,
) -> Verdict:
    with tempfile.TemporaryDirectory() as folder:
        record = reading.record(session_id, until_turn=until)
        return verdict_of(record, replay(record, home, changes, folder=Path(folder), tools=tools))


# --- the plugin ---------------------------------------------------------------------------------------------------

_stopped: dict[Path, tuple[Home, list[Tool]]] = {}
_stop = Ozzie.stop


async def _noted_stop(self: Ozzie) -> None:
    """Note the home, with the tools that a test gave to the gateways on it."""
    await _stop(self)
    if REPLAYED in os.environ and hasattr(self, "projects"):
        tools = [tool for tool in self.projects.own.tools.all() if not isinstance(tool, SkillTool)]
        _, before = _stopped.get(self.home.root, (self.home, []))
        _stopped[self.home.root] = self.home, max(tools, before, key=len)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    _stopped.clear()
    outcome = yield
    for home, tools in list(_stopped.values()):
        work = threading.Thread(target=_replay_all, args=(item.nodeid, home, tools))
        work.start()
        work.join(WAIT_S)
    return outcome


def pytest_configure() -> None:
    if REPLAYED in os.environ:
        Ozzie.stop = _noted_stop


def _replay_all(test: str, home: Home, tools: list[Tool]) -> None:
    if not home.database.is_file():
        return
    with opened(home) as reading, Path(os.environ[REPLAYED]).open("a") as lines:
        for session_id in reading.sessions():
            found: dict[str, Any] = {"test": test, "session": session_id}
            try:
                verdict = _verdict(reading, home, session_id, Changes(), tools=tools)
                found |= {"is_same": verdict.is_same, "events": verdict.events, "sentence": verdict.sentence}
                if verdict.missing:
                    found |= {"missing": verdict.missing}
            except MissingFact as missing:
                found |= {"missing": str(missing)}
            except Exception as error:
                found |= {"broken": repr(error)}
            lines.write(json.dumps(found) + "\n")
        lines.write(json.dumps({"test": test} | _decided_again(reading, home, tools)) + "\n")


def _decided_again(reading: Reading, home: Home, tools: list[Tool]) -> dict[str, Any]:
    """How many calls of a home the present rules decide again, and those that they decide differently."""
    registry = ToolRegistry(tools)
    try:
        found = Simulator(registry, lambda project: load(home, Path(project), registry.find).rules).run(reading, EVER)
    except Exception as error:
        return {"undecided": repr(error)}
    changes = [f"{each.tool}: {each.was} by {each.call.decided.rule}, {each.would.rule}" for each in found.changes]
    return {"decided": found.calls, "changes": changes}
