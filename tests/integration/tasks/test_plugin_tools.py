"""Tools of plugins in real turns: the gateway, the tool host and WebAssembly are real; what the model says is written
down here."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ozzie_server_ext.config.home import Home, key_folder
from ozzie_server_ext.domain.approvals import AuthStrength
from ozzie_server_ext.domain.events import (
    ApprovalRequested,
    EventBody,
    GrantGranted,
    GrantRevoked,
    Origin,
    PluginDisabled,
    PluginHealthChanged,
    PluginLoaded,
    ToolCallCompleted,
    ToolCallDecided,
    ToolCallFailed,
    ToolCallUncertain,
)
from ozzie_server_ext.domain.ids import TaskId, task_stream
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.models.scripted import Say, Use
from ozzie_server_ext.observability.clock import SystemClock
from ozzie_server_ext.plugins.effects import Effect
from ozzie_server_ext.plugins.plugin_list import SaidTool, SettledPlugin, plugins_of, resettle
from ozzie_server_ext.tasks.approvals import Answerer
from ozzie_server_ext.tasks.plugin_tools import BREAKS, OF_PLUGINS
from ozzie_server_ext.tasks.service import NewTurn
from ozzie_server_ext.vault.scope import Scope, Secret
from ozzie_server_ext.vault.vault import Vault
from tests.fakes.web_server import FakeWeb, answer
from tests.replaying import replayed
from tests.scripted_gateway import ScriptedOzzie
from tests.wasm_rig import Wat, plugin_folder

pytestmark = pytest.mark.timeout(120)

WAIT_S = 60
ANA = Answerer(name="Ana", way=AuthStrength.BROWSER)
KEY = "fern-lamp-otter-9153"
TOOLS = ("weather", "note", "recall", "secret", "post", "breaks", "says", "fails", "writes", "writes_and_breaks")


def code(port: int, *, weather: str = '{"degrees": 21}') -> bytes:
    text = Wat()
    return (
        text.returns("weather", weather)
        .asks("note", "kv_set", "k", "kept")
        .asks("recall", "kv_get", "k")
        .asks("secret", "get_secret", "KEY")
        .asks("post", "http_request", f"http://127.0.0.1:{port}/hook", "POST", "hello")
        .asks("writes", "file_write", "results/a.txt", "made")
        .does(
            "writes_and_breaks",
            f"(drop (call $file_write {text.text('results/a.txt')} {text.text('x')})) (unreachable)",
        )
        .does("breaks", "(unreachable)")
        .does("says", "(call $give (call $alloc (call $input_length)))")
        .returns("fails", '{"error": "There is no such city."}')
        .code
    )


class Bench:
    """A gateway with the plugin `weather` of the user's own."""

    def __init__(self, ozzie: ScriptedOzzie, home: Home, project: Path, port: int) -> None:
        self.ozzie = ozzie
        self.home = home
        self.project = project
        self.port = port

    async def turn(self, *uses: Use, said: str = "Go on.") -> TaskId:
        self.ozzie.plays(*uses, [Say("Done.")])
        session = (await self.ozzie.sessions.open("n", title="n", channel="notebook")).session_id
        sent = await self.ozzie.submit(NewTurn(session, said, Origin(channel="notebook", sender_id="ana")))
        self.end = await self.ozzie.rests(sent.task_id, wait_s=WAIT_S)
        return sent.task_id

    async def bodies(self, task_id: TaskId) -> list[EventBody]:
        return [event.body for event in await self.ozzie.log.read_stream(task_stream(task_id))]

    async def outcome(self, tool: str, args: JsonObject | None = None) -> EventBody:
        """What became of one call."""
        bodies = await self.bodies(await self.turn(Use(f"weather__{tool}", args or {})))
        kinds = (ToolCallCompleted, ToolCallFailed, ToolCallUncertain)
        return next((body for body in bodies if isinstance(body, kinds)), bodies[-1])

    async def approved(self, task_id: TaskId) -> str:
        for asked in await self.ozzie.approvals.list(task_id=task_id, statuses=["pending"]):
            await self.ozzie.approvals.approve(asked.approval_id, ANA, binds=asked.asked.binds)
        return await self.ozzie.rests(task_id, 2, wait_s=WAIT_S)

    def settles(self, change: Callable[[SettledPlugin], SettledPlugin | None]) -> None:
        resettle(self.home, "weather", lambda known: change(known) if known else None)

    async def facts(self) -> list[EventBody]:
        return [event.body for event in await self.ozzie.log.read_stream(OF_PLUGINS)]

    async def open_incidents(self) -> list[tuple[str, str, str]]:
        found = [each for each in await self.ozzie.incidents.all() if each.closed is None]
        return [(each.opened.kind, each.opened.about, each.opened.detail) for each in found]


def add(home: Home, project: Path, wasm: bytes, *granted: str, **manifest: Any) -> None:
    """Add the plugin as the user's own, and grant it these wishes."""
    folder = home.plugins / "weather"
    if folder.exists():
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
    tools = [
        {"name": name, "description": f"Does {name}", "parameters": {"city": {"default": "Paris"}}} for name in TOOLS
    ]
    capabilities = {"kv": True, "secrets": ["KEY"], "fs_write": ["results"]}
    whole = {"name": "weather", "version": "1.0.0", "capabilities": capabilities, "tools": tools} | manifest
    plugin_folder(folder, wasm, **whole)
    found = plugins_of(home, project).find("weather").found
    assert found is not None
    settled = SettledPlugin(digest=found.digest, granted_at=datetime.now(UTC), granted=tuple(granted))
    resettle(home, "weather", lambda _: settled)


@pytest.fixture
def web() -> Any:
    with FakeWeb() as web:
        web.pages["/hook"] = answer("taken", "text/plain")
        yield web


@pytest.fixture
async def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, web: FakeWeb) -> AsyncIterator[Bench]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user-config"))
    project, home = tmp_path / "project", Home(tmp_path / "home")
    (project / "results").mkdir(parents=True)
    home.create()
    add(home, project, code(web.port), "kv", "secret:KEY")
    Vault(home.secrets, key_folder, SystemClock()).set("KEY", Scope("plugin", "weather"), Secret(KEY), by="ana")
    ozzie = await ScriptedOzzie.start(home, project)
    assert isinstance(ozzie, ScriptedOzzie)
    yield Bench(ozzie, home, project, web.port)
    await ozzie.stop()


def reason_of(body: EventBody) -> str:
    assert isinstance(body, ToolCallFailed), body
    return body.message


async def test_a_plugin_whose_grants_let_it_change_nothing_runs_without_a_question(bench: Bench) -> None:
    done = await bench.outcome("weather")

    assert isinstance(done, ToolCallCompleted)
    assert done.data == {"degrees": 21}
    assert done.brought == ("plugin:weather",)


async def test_it_keeps_notes_and_a_secret_does_not_reach_the_log(bench: Bench) -> None:
    await bench.outcome("note")
    kept = await bench.outcome("recall")
    secret = await bench.outcome("secret")

    assert isinstance(kept, ToolCallCompleted)
    assert kept.data == {"ok": "kept"}
    assert isinstance(secret, ToolCallCompleted)
    assert KEY not in json.dumps(secret.data)


async def test_arguments_are_checked_and_completed_before_it_is_called(bench: Bench) -> None:
    task = await bench.turn(Use("weather__weather", {"city": 7}), Use("weather__weather", {"nowhere": "x"}))
    failed = [body for body in await bench.bodies(task) if isinstance(body, ToolCallFailed)]

    assert len(failed) == 2
    assert all("do not fit" in body.message for body in failed)


async def test_what_it_says_of_a_failure_reaches_the_model(bench: Bench) -> None:
    assert "There is no such city." in reason_of(await bench.outcome("fails"))


async def test_what_nobody_granted_is_refused_and_kept_as_an_incident_until_it_is_granted(bench: Bench) -> None:
    bench.settles(lambda known: replace(known, granted=("secret:KEY",)))
    refused = await bench.outcome("note")
    await bench.outcome("recall")
    wish = "kv"

    assert isinstance(refused, ToolCallFailed | ToolCallCompleted)
    assert "Nobody granted this plugin notes of its own" in str(refused)
    assert await bench.open_incidents() == [("refused", "weather", wish)]
    assert isinstance((await bench.facts())[0], PluginLoaded)

    bench.settles(lambda known: replace(known, granted=(*known.granted, wish)))
    await bench.outcome("recall")

    assert await bench.open_incidents() == []
    assert GrantGranted(plugin="weather", wishes=(wish,), project=str(bench.project)) in await bench.facts()


async def test_an_address_of_the_own_network_is_an_incident(bench: Bench) -> None:
    wish = "http:POST hooks.example.org"
    bench.settles(
        lambda known: replace(known, granted=(*known.granted, wish), tools={"post": SaidTool(effect=Effect.SENDS)})
    )
    await bench.approved(await bench.turn(Use("weather__post", {})))

    assert await bench.open_incidents() == [("refused", "weather", f"http:POST http://127.0.0.1:{bench.port}/hook")]


async def test_with_a_grant_that_can_change_something_a_tool_waits_for_a_word_and_then_asks(
    bench: Bench, web: FakeWeb
) -> None:
    wish = f"http:POST 127.0.0.1:{web.port}"
    bench.settles(lambda known: replace(known, granted=(*known.granted, wish)))

    assert "has not been classified" in reason_of(await bench.outcome("post")) or web.asked == []
    bench.settles(lambda known: replace(known, tools={"post": SaidTool(effect=Effect.SENDS)}))
    task = await bench.turn(Use("weather__post", {}))
    asked = [body for body in await bench.bodies(task) if isinstance(body, ApprovalRequested)]

    assert web.asked == []
    assert bench.end == "task.waiting_approval"
    assert asked[0].sentence == "Call `post` of the plugin `weather`?"
    assert await bench.approved(task) == "task.succeeded"
    assert [each.method for each in web.asked] == ["POST"]


async def test_a_file_that_it_writes_is_marked_as_made_from_outside(bench: Bench) -> None:
    bench.settles(
        lambda known: replace(
            known, granted=(*known.granted, "fs_write:results"), tools={"writes": SaidTool(effect=Effect.CHANGES)}
        )
    )
    task = await bench.turn(Use("weather__writes", {}))
    await bench.approved(task)

    assert (bench.project / "results/a.txt").read_text() == "made"
    project = bench.ozzie.projects.own
    assert [each.path for each in await project.labels.files()] == ["results/a.txt"]


async def test_a_file_that_it_writes_before_it_breaks_is_marked_as_well(bench: Bench) -> None:
    said = {"writes_and_breaks": SaidTool(effect=Effect.CHANGES)}
    bench.settles(lambda known: replace(known, granted=(*known.granted, "fs_write:results"), tools=said))
    task = await bench.turn(Use("weather__writes_and_breaks", {}))
    await bench.approved(task)

    (done,) = [body for body in await bench.bodies(task) if isinstance(body, ToolCallCompleted)]
    assert not done.ok
    assert "Before, it has written results/a.txt." in str(done.data)
    assert [each.path for each in await bench.ozzie.projects.own.labels.files()] == ["results/a.txt"]


async def test_a_plugin_that_breaks_again_and_again_is_turned_off_with_an_incident(bench: Bench) -> None:
    for _ in range(BREAKS):
        assert "It broke off" in reason_of(await bench.outcome("breaks"))
    after = await bench.outcome("weather")

    assert isinstance(after, ToolCallFailed)
    assert await bench.open_incidents() == [("turned_off", "weather", "")]
    assert (await bench.facts())[-1] == PluginDisabled(plugin="weather", why="broke", project=str(bench.project))
    plugin = plugins_of(bench.home, bench.project).find("weather")
    assert plugin.state == "off"
    assert plugin.settled is not None
    assert "It failed 5 times in a row" in plugin.settled.off_because

    bench.settles(lambda known: replace(known, is_on=True, off_because=""))
    assert isinstance(await bench.outcome("weather"), ToolCallCompleted)
    assert await bench.open_incidents() == []


async def test_failures_that_are_not_its_own_do_not_turn_it_off(bench: Bench) -> None:
    for _ in range(BREAKS):
        await bench.outcome("fails")
    for _ in range(BREAKS - 1):
        await bench.outcome("breaks")
    await bench.outcome("weather")
    await bench.outcome("breaks")

    assert plugins_of(bench.home, bench.project).find("weather").state == "on"


async def test_a_changed_plugin_is_not_used_before_somebody_has_looked(bench: Bench) -> None:
    await bench.outcome("weather")
    (bench.home.plugins / "weather" / "weather.wasm").write_bytes(code(bench.port, weather='{"degrees": 99}'))

    assert isinstance(await bench.outcome("weather"), ToolCallFailed)
    assert (await bench.facts())[-1] == PluginDisabled(plugin="weather", why="changed", project=str(bench.project))
    add(bench.home, bench.project, code(bench.port, weather='{"degrees": 99}'), "kv", "secret:KEY")
    done = await bench.outcome("weather")
    assert isinstance(done, ToolCallCompleted)
    assert done.data == {"degrees": 99}


async def test_a_revoked_grant_counts_from_the_next_call_on(bench: Bench) -> None:
    await bench.outcome("note")
    bench.settles(lambda known: replace(known, granted=("secret:KEY",)))

    assert "Nobody granted this plugin notes" in str(await bench.outcome("recall"))
    facts = await bench.facts()
    assert GrantRevoked(plugin="weather", wishes=("kv",), project=str(bench.project)) in facts


async def test_a_reload_loses_no_call_in_progress(bench: Bench) -> None:
    """The old one ends with its last call."""
    tools = bench.ozzie.projects.own.plugin_tools
    await bench.outcome("weather")
    slow = Wat().does("weather", "(loop $l (br $l)) (i32.const 0)").code
    add(bench.home, bench.project, slow, "kv", tools=[{"name": "weather", "description": "Slow"}])
    await tools.refresh()
    old = await tools.loaded("weather")
    call = asyncio.create_task(old.call("weather", {}, within_s=2.0))
    await asyncio.sleep(0)  # it is sent
    add(bench.home, bench.project, code(bench.port), "kv")
    done = await bench.outcome("weather")

    assert isinstance(done, ToolCallCompleted)
    assert not call.done()
    with pytest.raises(Exception, match="did not answer within 2 s"):
        await call
    assert not old.is_open


async def test_its_configuration_reaches_it_as_far_as_it_was_granted(bench: Bench) -> None:
    schema = {"type": "object", "properties": {"units": {"type": "string"}}, "additionalProperties": False}
    reads = Wat().asks("weather", "get_config", "units").code
    manifest: dict[str, Any] = {"tools": [{"name": "weather", "description": "x"}], "config_schema": schema}
    add(bench.home, bench.project, reads, "config:units", capabilities={"config": ["units"]}, **manifest)
    (bench.home.config_file).write_text('{"plugins": {"weather": {"units": "metric"}}}')
    fits = await bench.outcome("weather")
    (bench.home.config_file).write_text('{"plugins": {"weather": {"units": 7}}}')
    does_not = await bench.outcome("weather")

    assert isinstance(fits, ToolCallCompleted)
    assert fits.data == {"ok": "metric"}
    assert "Its configuration does not fit" in reason_of(does_not)


async def test_a_plugin_that_lacks_what_it_requires_is_not_used(bench: Bench) -> None:
    add(bench.home, bench.project, code(bench.port), "kv", requires=["core>=0.1", "channel.send"])

    assert isinstance(await bench.outcome("weather"), ToolCallFailed)
    plugin = plugins_of(bench.home, bench.project).find("weather")
    assert (plugin.state, plugin.problem) == ("waits", "It requires channel.send, which is not there.")


async def test_a_plugin_that_fails_its_health_check_is_not_called_until_it_passes(bench: Bench, web: FakeWeb) -> None:
    url = f"http://127.0.0.1:{web.port}/health"
    check = {"kind": "http", "url": url, "every_s": 5}
    add(bench.home, bench.project, code(web.port), "kv", healthcheck=check)
    tools = bench.ozzie.projects.own.plugin_tools
    assert isinstance(await bench.outcome("weather"), ToolCallCompleted)
    await tools.check_health("weather")
    await tools.check_health("weather")

    assert "It fails its health check" in reason_of(await bench.outcome("weather"))
    assert await bench.open_incidents() == [("unhealthy", "weather", "")]
    web.pages["/health"] = answer("fine")
    await tools.check_health("weather")
    assert isinstance(await bench.outcome("weather"), ToolCallCompleted)
    assert await bench.open_incidents() == []
    health = [body for body in await bench.facts() if isinstance(body, PluginHealthChanged)]
    assert [body.healthy for body in health] == [False, True]


@pytest.mark.cold  # a fork is no child of this process
async def test_a_project_has_plugins_of_its_own_in_a_process_of_their_own(bench: Bench) -> None:
    folder = bench.project / ".ozzie/plugins/theirs"
    tools = [{"name": "go", "description": "Goes"}]
    plugin_folder(folder, Wat().returns("go", "1").code, name="theirs", tools=tools)
    listed = plugins_of(bench.home, bench.project).find("theirs")
    assert (listed.origin, listed.state) == ("project", "new")
    inert = await bench.bodies(await bench.turn(Use("theirs__go", {})))
    found = listed.found
    assert found is not None
    settled = SettledPlugin(digest=found.digest, granted_at=datetime.now(UTC))
    resettle(bench.home, listed.key, lambda _: settled)
    used = await bench.bodies(await bench.turn(Use("theirs__go", {}), Use("weather__weather", {})))

    assert not any(isinstance(body, ToolCallCompleted) for body in inert)
    assert len([body for body in used if isinstance(body, ToolCallCompleted)]) == 2
    assert len(_hosts()) == 2


def _hosts() -> list[str]:
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [pid for pid in children if b"programs.tool_host" in Path(f"/proc/{pid}/cmdline").read_bytes()]


async def test_a_plugin_takes_no_other_tools_name(bench: Bench) -> None:
    plugin_folder(
        bench.project / ".ozzie/plugins/weather",
        Wat().returns("weather", "0").code,
        name="weather",
        tools=[{"name": "weather", "description": "x"}],
    )

    states = {(each.origin, each.name): each.state for each in plugins_of(bench.home, bench.project).plugins}
    assert states["project", "weather"] == "shadowed"
    assert isinstance(await bench.outcome("weather"), ToolCallCompleted)


async def test_what_outside_content_may_be_behind_asks_before_it_leaves(bench: Bench, web: FakeWeb) -> None:
    """A plugin that may only GET can carry away what a turn has read, in an address."""
    wish = f"http:GET 127.0.0.1:{web.port}"
    bench.settles(lambda known: replace(known, granted=(*known.granted, wish)))
    task = await bench.turn(Use("weather__weather", {}), Use("weather__weather", {"city": "secret"}))
    decided = [body for body in await bench.bodies(task) if isinstance(body, ToolCallDecided)]

    assert [body.decision for body in decided] == ["ALLOW", "ASK"]


async def test_a_replay_has_the_tools_of_then_and_calls_nobody(bench: Bench) -> None:
    await bench.turn(Use("weather__weather", {}), Use("weather__fails", {}))
    session = (await bench.ozzie.sessions.open("n", title="n", channel="notebook")).session_id
    bench.settles(lambda _: None)

    verdict = await asyncio.to_thread(replayed, bench.home, session)

    assert verdict.is_same, verdict.sentence
