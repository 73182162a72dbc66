"""Plugins that are programs in real turns: the gateway, the tool host and the sandbox are real; what the model says is
written down here."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ozzie_server_ext.config.home import Home, key_folder
from ozzie_server_ext.domain.approvals import AuthStrength
from ozzie_server_ext.domain.events import (
    EventBody,
    Origin,
    PluginDisabled,
    ToolCallCompleted,
    ToolCallDecided,
    ToolCallFailed,
    ToolCallUncertain,
)
from ozzie_server_ext.domain.ids import TaskId, task_stream
from ozzie_server_ext.models.scripted import Say, Use
from ozzie_server_ext.observability.clock import SystemClock
from ozzie_server_ext.plugins.effects import Effect
from ozzie_server_ext.plugins.plugin_list import SaidTool, SettledPlugin, plugins_of, resettle
from ozzie_server_ext.plugins.tool_host import ServerFailed
from ozzie_server_ext.tasks.approvals import Answerer
from ozzie_server_ext.tasks.plugin_tools import BREAKS, OF_PLUGINS
from ozzie_server_ext.tasks.service import NewTurn
from ozzie_server_ext.vault.scope import Scope, Secret
from ozzie_server_ext.vault.vault import Vault
from tests.mcp_rig import expect_sandbox
from tests.native_rig import native_folder, python
from tests.replaying import replayed
from tests.scripted_gateway import ScriptedOzzie

pytestmark = pytest.mark.timeout(120)

WAIT_S = 60
ANA = Answerer(name="Ana", way=AuthStrength.BROWSER)
KEY = "fern-lamp-otter-9153"
TOOLS = ("count", "secret", "writes", "overreaches", "breaks", "health")
SCRIPT = python(
    """
out = os.environ['OUT']
def leave(path):
    os.makedirs(os.path.dirname(f'{out}/{path}'), exist_ok=True)
    open(f'{out}/{path}', 'w').write('made')
match tool:
    case 'count': answer({'words': len(given['text'].split())})
    case 'secret': answer({'key': os.environ.get('KEY', 'none')})
    case 'writes': leave('results/a.txt'); answer('done')
    case 'overreaches': leave('other/a.txt'); answer('done')
    case 'breaks': sys.exit(1)
    case 'health': answer(json.loads(os.environ['OZZIE_CONFIG']).get('well', {'error': 'I am ill.'}))
"""
)


class Bench:
    """A gateway with the program `count` of the user's own."""

    def __init__(self, ozzie: ScriptedOzzie, home: Home, project: Path) -> None:
        self.ozzie = ozzie
        self.home = home
        self.project = project

    async def turn(self, *uses: Use) -> TaskId:
        self.ozzie.plays(*uses, [Say("Done.")])
        session = (await self.ozzie.sessions.open("n", title="n", channel="notebook")).session_id
        sent = await self.ozzie.submit(NewTurn(session, "Go on.", Origin(channel="notebook", sender_id="ana")))
        self.end = await self.ozzie.rests(sent.task_id, wait_s=WAIT_S)
        return sent.task_id

    async def bodies(self, task_id: TaskId) -> list[EventBody]:
        return [event.body for event in await self.ozzie.log.read_stream(task_stream(task_id))]

    async def outcome(self, tool: str) -> EventBody:
        """What became of one call, after a yes if it asks."""
        task_id = self.task_id = await self.turn(Use(f"count__{tool}", {"text": "one two"}))
        for asked in await self.ozzie.approvals.list(task_id=task_id, statuses=["pending"]):
            await self.ozzie.approvals.approve(asked.approval_id, ANA, binds=asked.asked.binds)
            self.end = await self.ozzie.rests(task_id, 2, wait_s=WAIT_S)
        bodies = await self.bodies(task_id)
        kinds = (ToolCallCompleted, ToolCallFailed, ToolCallUncertain)
        return next((body for body in bodies if isinstance(body, kinds)), bodies[-1])

    async def facts(self) -> list[EventBody]:
        return [event.body for event in await self.ozzie.log.read_stream(OF_PLUGINS)]

    async def open_incidents(self) -> list[tuple[str, str, str]]:
        found = [each for each in await self.ozzie.incidents.all() if each.closed is None]
        return [(each.opened.kind, each.opened.about, each.opened.detail) for each in found]

    def switches(self, *, on: bool, **more: Any) -> None:
        self.home.config_file.write_text(json.dumps({"native_plugins": on} | more))

    def grants(self, *granted: str, **said: Effect) -> None:
        found = plugins_of(self.home, self.project).find("count").found
        assert found is not None
        digest, tools = found.digest, {name: SaidTool(effect=effect) for name, effect in said.items()}
        settled = SettledPlugin(digest=digest, granted_at=datetime.now(UTC), granted=granted, tools=tools)
        resettle(self.home, "count", lambda _: settled)


@pytest.fixture
async def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    expect_sandbox()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user-config"))
    project, home = tmp_path / "project", Home(tmp_path / "home")
    for name in ("results", "other"):
        (project / name).mkdir(parents=True)
    home.create()
    tools = [{"name": name, "description": f"Does {name}", "parameters": {"text": {}}} for name in TOOLS]
    asks = {"secrets": ["KEY"], "fs_write": ["results"], "config": True}
    manifest: dict[str, Any] = {"name": "count", "version": "1.0.0", "tools": tools, "capabilities": asks}
    native_folder(home.plugins / "count", SCRIPT, healthcheck={"kind": "call", "every_s": 3600}, **manifest)
    Vault(home.secrets, key_folder, SystemClock()).set("KEY", Scope("plugin", "count"), Secret(KEY), by="ana")
    ozzie = await ScriptedOzzie.start(home, project)
    assert isinstance(ozzie, ScriptedOzzie)
    bench = Bench(ozzie, home, project)
    bench.switches(on=True, plugins={"count": {"well": True}})
    bench.grants("secret:KEY", "config")
    yield bench
    await ozzie.stop()


async def test_a_program_that_was_granted_no_effect_runs_without_a_question(bench: Bench) -> None:
    done = await bench.outcome("count")

    assert isinstance(done, ToolCallCompleted)
    assert done.data == {"words": 2}
    assert done.brought == ("plugin:count",)


async def test_its_secret_does_not_reach_the_log(bench: Bench) -> None:
    done = await bench.outcome("secret")

    assert isinstance(done, ToolCallCompleted)
    assert done.data == {"key": "***"}
    assert not [file for file in bench.home.root.rglob("*") if file.is_file() and KEY.encode() in file.read_bytes()]


async def test_a_file_that_it_leaves_is_marked_as_made_from_outside_after_a_yes(bench: Bench) -> None:
    bench.grants("fs_write:results", writes=Effect.CHANGES)
    done = await bench.outcome("writes")

    assert isinstance(done, ToolCallCompleted)
    assert (bench.project / "results/a.txt").read_text() == "made"
    assert [each.path for each in await bench.ozzie.projects.own.labels.files()] == ["results/a.txt"]


async def test_what_nobody_granted_is_not_written_and_kept_as_an_incident(bench: Bench) -> None:
    failed = await bench.outcome("overreaches")

    assert isinstance(failed, ToolCallFailed)
    assert "Nobody granted this plugin to write other/a.txt." in failed.message
    assert await bench.open_incidents() == [("refused", "count", "fs_write:other/a.txt")]
    assert list((bench.project / "other").iterdir()) == []


async def test_a_program_with_a_network_asks_and_its_end_may_be_uncertain(bench: Bench) -> None:
    bench.grants("http:ANY a.example")
    unsaid = await bench.outcome("count")
    bench.grants("http:ANY a.example", breaks=Effect.SENDS)
    broken = await bench.outcome("breaks")
    decided = [each.decision for each in await bench.bodies(bench.task_id) if isinstance(each, ToolCallDecided)]

    assert isinstance(unsaid, ToolCallFailed)
    assert decided[0] == "ASK"
    assert isinstance(broken, ToolCallUncertain)


async def test_one_that_breaks_again_and_again_is_turned_off(bench: Bench) -> None:
    for _ in range(BREAKS):
        broken = await bench.outcome("breaks")
        assert isinstance(broken, ToolCallFailed)
        assert "It ended with the exit code 1." in broken.message

    assert await bench.open_incidents() == [("turned_off", "count", "")]
    assert plugins_of(bench.home, bench.project, programs=True).find("count").state == "off"


async def test_its_health_is_asked_by_a_call(bench: Bench) -> None:
    tools = bench.ozzie.projects.own.plugin_tools
    await bench.outcome("count")
    bench.switches(on=True, plugins={"count": {}})
    await tools.check_health("count")
    await tools.check_health("count")
    failed = await bench.outcome("count")

    assert isinstance(failed, ToolCallFailed)
    assert "It fails its health check: I am ill." in failed.message
    bench.switches(on=True, plugins={"count": {"well": True}})
    await tools.check_health("count")
    assert isinstance(await bench.outcome("count"), ToolCallCompleted)


async def test_turned_off_programs_are_neither_offered_nor_run(bench: Bench) -> None:
    assert isinstance(await bench.outcome("count"), ToolCallCompleted)
    bench.switches(on=False)
    off = await bench.outcome("count")

    assert isinstance(off, ToolCallFailed)
    assert (await bench.facts())[-1] == PluginDisabled(plugin="count", why="waits", project=str(bench.project))
    (state,) = [each for each in await bench.ozzie.projects.own.plugin_tools.overview() if each.plugin.name == "count"]
    assert state.problem.startswith("It is a program, and programs are off.")
    bench.switches(on=True)
    assert isinstance(await bench.outcome("count"), ToolCallCompleted)


async def test_the_switch_counts_at_each_call(bench: Bench) -> None:
    """A turn that has begun has the tool already."""
    await bench.outcome("count")
    bench.switches(on=False)

    with pytest.raises(ServerFailed, match="programs are off"):
        await bench.ozzie.projects.own.plugin_tools.loaded("count")


@pytest.mark.parametrize("written", ['{"native_plugins": "true"}', '{"native_plugins": 1}', "{}"])
async def test_nothing_but_true_turns_programs_on(bench: Bench, written: str) -> None:
    bench.switches(on=False)
    await bench.outcome("count")
    bench.home.config_file.write_text(written)

    assert isinstance(await bench.outcome("count"), ToolCallFailed)


async def test_a_changed_file_beside_the_program_takes_the_grant_away(bench: Bench) -> None:
    await bench.outcome("count")
    (bench.home.plugins / "count" / "words.py").write_text("x")

    assert isinstance(await bench.outcome("count"), ToolCallFailed)
    assert (await bench.facts())[-1] == PluginDisabled(plugin="count", why="changed", project=str(bench.project))


async def test_a_replay_has_the_tools_of_then_and_starts_nothing(bench: Bench) -> None:
    await bench.turn(Use("count__count", {"text": "one"}), Use("count__breaks", {}))
    session = (await bench.ozzie.sessions.open("n", title="n", channel="notebook")).session_id
    bench.switches(on=False)
    (bench.home.plugins / "count" / "main").unlink()

    verdict = await asyncio.to_thread(replayed, bench.home, session)

    assert verdict.is_same, verdict.sentence
