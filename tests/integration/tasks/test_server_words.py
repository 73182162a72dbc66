"""Messages that name resources of MCP servers, and prompts that are run, in real turns: the gateway, the tool host and
the server are real; what the model says is written down here."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from msgspec.structs import replace

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.approvals import AuthStrength
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.events import (
    ApprovalRequested,
    EventBody,
    Origin,
    TaskFailed,
    ToolCallCompleted,
    ToolCallDecided,
    ToolCallFailed,
    ToolCallStarted,
)
from ozzie_server_ext.domain.ids import SessionId, TaskId, task_stream
from ozzie_server_ext.models.scripted import Say, ScriptedDriver, Use
from ozzie_server_ext.plugins.servers import SettledServer, servers_of, settle
from ozzie_server_ext.policy.words import Confirmation
from ozzie_server_ext.tasks.approvals import Answerer
from ozzie_server_ext.tasks.service import NewTurn, SkillRequest
from tests.mcp_rig import add, expect_sandbox
from tests.replaying import replayed
from tests.scripted_gateway import ScriptedOzzie

pytestmark = [pytest.mark.timeout(120), pytest.mark.asyncio(loop_scope="module")]

WAIT_S = 60
KEY = "ghp_" + "a1B2c3D4e5F6" * 3
ANA = Origin(channel="notebook", sender_id="ana")


class Bench:
    """A gateway, and a server with notes that its user trusts."""

    def __init__(self, ozzie: ScriptedOzzie, home: Home, project: Path, state: Path) -> None:
        self.ozzie = ozzie
        self.home = home
        self.project = project
        self.state = state
        self.session = ""
        self.sessions = 0
        self.driver: ScriptedDriver

    def settled(self) -> SettledServer:
        found = servers_of(self.home, self.project).find("notes").settled
        assert found is not None
        return found

    def may_send(self) -> None:
        """From now on the server has a network, to one host."""
        settled = self.settled()
        settle(self.home, "notes", replace(settled, access=replace(settled.access, hosts=("example.org",))))

    async def send(self, text: str, *rounds: Any, new: bool = False, **more: Any) -> tuple[TaskId, str]:
        """Send a message; return its task, and what it came to rest with."""
        self.driver = self.ozzie.plays(*(rounds or ([Say("Done.")],)))
        if new or not self.session:
            self.sessions += 1
            opened = await self.ozzie.sessions.open(f"s{self.sessions}", title="n", channel="notebook")
            self.session = opened.session_id
        sent = await self.ozzie.submit(NewTurn(self.session, text, ANA, **more))  # pyright: ignore[reportArgumentType]
        return sent.task_id, await self.ozzie.rests(sent.task_id, wait_s=WAIT_S)

    async def run(self, prompt: str, *words: str, **more: Any) -> tuple[TaskId, str]:
        return await self.send("", skill=SkillRequest(name=prompt, words=words), **more)

    async def bodies(self, task_id: TaskId) -> list[EventBody]:
        return [event.body for event in await self.ozzie.log.read_stream(task_stream(task_id))]

    async def refused(self, text: str, **more: Any) -> str:
        """Return why a message is not taken, with what to do."""
        with pytest.raises(OzzieError) as refused:
            await self.send(text, **more)
        return f"{refused.value} {refused.value.hint}"

    def calls(self) -> list[str]:
        """What the server was asked."""
        file = self.state / "calls"
        return file.read_text().splitlines() if file.exists() else []

    def read(self) -> list[Any]:
        """The last request to the model, without the system prompt: roles and contents."""
        return [(each.role, each.content) for each in self.driver.requests[-1].messages[1:]]


def of(bodies: Iterable[EventBody], *kinds: type) -> list[Any]:
    return [body for body in bodies if isinstance(body, kinds)]


def typed(text: str) -> Confirmation:
    """That a person typed all of it at a terminal."""
    return Confirmation.of("ana", "terminal", text)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Bench]:
    """One gateway and one server for all tests."""
    expect_sandbox()
    folder = tmp_path_factory.mktemp("words")
    project, home, state = folder / "project", Home(folder / "home"), folder / "state"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(folder / "user-config"))
        patch.setenv("TOKEN", KEY)
        project.mkdir()
        home.create()
        state.mkdir()
        (state / "words.json").write_text("{}")
        await add(home, state, name="notes", TOKEN="${TOKEN}")
        ozzie = await ScriptedOzzie.start(home, project)
        assert isinstance(ozzie, ScriptedOzzie)
        made = Bench(ozzie, home, project, state)
        yield made
        await made.ozzie.stop()


@pytest_asyncio.fixture(loop_scope="module")
async def bench(shared: Bench) -> AsyncIterator[Bench]:
    """In a session of its own, with the server as it was trusted."""
    shared.session, before = "", shared.settled()
    (shared.state / "calls").unlink(missing_ok=True)
    yield shared
    settle(shared.home, "notes", before)
    (shared.state / "words.json").write_text("{}")


# --- resources --------------------------------------------------------------------------------------------------------


async def test_what_a_message_names_reaches_the_model_as_outside_content_and_not_as_the_users_words(
    bench: Bench,
) -> None:
    task, rests = await bench.send("What do I need from @notes:note://milk?")

    assert rests == "task.succeeded"
    (user, text), (assistant, said), (tool, result) = bench.read()
    assert (user, text) == ("user", "What do I need from @notes:note://milk?")
    assert (assistant, said) == ("assistant", "")
    assert (tool, json.loads(result)["data"]) == ("tool", "milk, eggs\n")
    events = {event.type: event for event in await bench.ozzie.log.read_stream(task_stream(task))}
    assert events["message.received"].labels == ()
    assert events["tool.call.completed"].sources == ("mcp:notes",)
    assert events["model.call.started"].sources == ("mcp:notes",)
    assert events["tool.call.completed"].position < events["model.call.started"].position


async def test_later_turns_read_it_too_and_each_call_has_an_id_of_its_own(bench: Bench) -> None:
    await bench.send("First @notes:note://milk and @notes:note://two")
    await bench.send("Then @notes:note://milk again")

    ids = [use.call_id for each in bench.driver.requests[-1].messages for use in each.tool_uses]
    assert len(set(ids)) == len(ids) == 3
    roles = [role for role, _ in bench.read()]
    assert roles == ["user", "assistant", "tool", "tool", "assistant", "user", "assistant", "tool"]


@pytest.mark.parametrize(
    ("uri", "part", "summary"),
    [
        ("note://two", '"uri":"note://two/2"', "12 bytes, text/plain. The server says that it is "),
        ("note://other", '"uri":"note://elsewhere"', "14 bytes. The server says that it is `note://elsewhere`"),
        ("note://pixel", "This is no text. It is kept as an artifact", "70 bytes, image/png"),
        ("note://long", '"cut":true', "65 kB"),
    ],
)
async def test_what_came_is_said(uri: str, part: str, summary: str, bench: Bench) -> None:
    task, _ = await bench.send(f"See @notes:{uri}")

    assert part in bench.read()[-1][1]
    (done,) = of(await bench.bodies(task), ToolCallCompleted)
    assert done.summary.startswith(summary)


async def test_a_picture_is_kept_as_those_of_tools_are(bench: Bench) -> None:
    task, _ = await bench.send("See @notes:note://pixel")

    (done,) = of(await bench.bodies(task), ToolCallCompleted)
    artifact, content = await bench.ozzie.artifacts.of(bench.session).open(done.data["kept"][0]["artifact_id"])  # pyright: ignore[reportArgumentType]
    assert (artifact.mime, artifact.content.sources) == ("image/png", ("mcp:notes",))
    assert content.startswith(b"\x89PNG")


async def test_a_key_that_a_server_quotes_is_removed(bench: Bench) -> None:
    await bench.send("See @notes:note://key")

    assert "The key is" in bench.read()[-1][1]
    assert KEY not in bench.read()[-1][1]


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        ("note://nothing", "was not read. There is no note://nothing. Tab after @notes: shows what it has"),
        ("note://die", "It has ended. It wrote: I am dying. See whether it works: ozzie mcp test notes"),
    ],
)
async def test_without_it_no_model_is_asked_and_a_retry_reads_it_again(uri: str, says: str, bench: Bench) -> None:
    task, rests = await bench.send(f"See @notes:note://milk and @notes:{uri}")

    (failed,) = of(await bench.bodies(task), TaskFailed)
    assert (rests, failed.code, bench.driver.requests) == ("task.failed", "message.mention", [])
    assert says in failed.message
    assert failed.hint.startswith("No model was asked.")


async def test_a_retry_reads_what_failed_and_nothing_else(bench: Bench) -> None:
    task, rests = await bench.send("See @notes:note://milk and @notes:note://later")
    assert rests == "task.failed"
    (bench.state / "later").touch()
    bench.driver = bench.ozzie.plays([Say("Done.")])

    await bench.ozzie.control.retries.retry(task, by="ana")

    assert await bench.ozzie.rests(task, 2, wait_s=WAIT_S) == "task.succeeded"
    started = of(await bench.bodies(task), ToolCallStarted)
    assert len(started) == 3
    assert [json.loads(content)["data"] for role, content in bench.read() if role == "tool"] == ["milk, eggs\n", "now"]


async def test_a_server_that_nobody_trusts_is_said_before_anything_is_recorded(bench: Bench) -> None:
    listed = {"mcpServers": {"todo": {"command": "todo"}}}
    (bench.project / ".mcp.json").write_text(json.dumps(listed))

    bench.session = (await bench.ozzie.sessions.open("todo", title="n", channel="notebook")).session_id
    words = await bench.refused("See @todo:note://milk")

    assert words.startswith("The server `todo` was not trusted yet, so nothing is read from it.")
    assert "ozzie mcp trust todo. Or write the name without the @." in words
    assert await bench.ozzie.tasks.list(session_id=bench.session) == []


@pytest.mark.parametrize("text", ["Mail a@notes:note://milk", "See `@notes:note://milk`", "@unknown:note://milk"])
async def test_what_names_no_resource_calls_nothing(text: str, bench: Bench) -> None:
    task, rests = await bench.send(text)

    assert rests == "task.succeeded"
    assert of(await bench.bodies(task), ToolCallStarted) == []


async def test_what_others_put_into_a_message_names_nothing(bench: Bench) -> None:
    task, _ = await bench.send("See @notes:note://milk", named=())

    assert of(await bench.bodies(task), ToolCallStarted) == []


async def test_a_model_can_not_call_what_messages_call(bench: Bench) -> None:
    use = Use("notes-resource", {"uri": "note://milk"})
    task, _ = await bench.send("Hello", use, [Say("Done.")])

    (failed,) = of(await bench.bodies(task), ToolCallFailed)
    assert failed.message == "Not done: only a message of the user's calls notes-resource."
    assert all("notes-" not in tool.name for tool in bench.driver.requests[0].tools)


# --- what leaves this machine -----------------------------------------------------------------------------------------

CARRIES = "See @notes:note://day/my-secret/at/9"


async def verdicts(bench: Bench, task: TaskId) -> list[tuple[str, str]]:
    return [(each.decision, each.rule) for each in of(await bench.bodies(task), ToolCallDecided)]


async def test_an_address_goes_to_a_server_with_a_network_if_a_person_typed_it_or_nothing_was_read(
    bench: Bench,
) -> None:
    bench.may_send()

    fresh, _ = await bench.send(CARRIES)  # a program may have written the cell, but had nothing of the session
    written, rests = await bench.send(CARRIES)
    by_hand, done = await bench.send(CARRIES, confirmation=typed(CARRIES), new=True)
    again, too = await bench.send(CARRIES, confirmation=typed(CARRIES))

    assert await verdicts(bench, fresh) == [("ALLOW", "default.read_only")]
    assert await verdicts(bench, written) == [("ASK", "floor.address")]
    assert await verdicts(bench, by_hand) == [("ALLOW", "default.read_only")]
    assert await verdicts(bench, again) == [("ALLOW", "default.read_only")]
    assert (rests, done, too) == ("task.waiting_approval", "task.succeeded", "task.succeeded")


async def test_an_address_of_which_a_part_was_pasted_asks(bench: Bench) -> None:
    bench.may_send()
    await bench.send("See @notes:note://milk")

    pasted = Confirmation.of("ana", "cell", "See @notes:note://day/", "my-secret", "/at/9")
    beside = Confirmation.of("ana", "cell", "See @notes:note://day/my-secret/at/9 and ", "a pasted text", "")
    asked, _ = await bench.send(CARRIES, confirmation=pasted, new=False)
    assert await verdicts(bench, asked) == [("ASK", "floor.address")]
    await bench.ozzie.tasks.cancel(asked, by="ana")
    passed, _ = await bench.send(f"{CARRIES} and a pasted text", confirmation=beside)
    assert await verdicts(bench, passed) == [("ALLOW", "default.read_only")]


async def test_a_yes_reads_it_and_a_no_ends_the_turn_without_a_model(bench: Bench) -> None:
    bench.may_send()
    await bench.send("See @notes:note://milk")
    ana = Answerer(name="ana", way=AuthStrength.BROWSER)
    allowed, _ = await bench.send(CARRIES)
    (asked,) = of(await bench.bodies(allowed), ApprovalRequested)
    assert asked.sentence == "Read `note://day/my-secret/at/9` from the server `notes`?"

    bench.ozzie = await bench.ozzie.again()
    await bench.ozzie.approvals.approve(asked.approval_id, ana)
    assert await bench.ozzie.rests(allowed, 2, wait_s=WAIT_S) == "task.succeeded"

    denied, _ = await bench.send(CARRIES)
    (asked,) = of(await bench.bodies(denied), ApprovalRequested)
    await bench.ozzie.approvals.reject(asked.approval_id, ana)
    assert await bench.ozzie.rests(denied, 2, wait_s=WAIT_S) == "task.failed"
    assert bench.driver.requests == []


# --- prompts ----------------------------------------------------------------------------------------------------------


async def test_a_prompt_reaches_the_model_with_its_roles_as_the_servers_words(bench: Bench) -> None:
    task, rests = await bench.run("notes:week", "topic=milk and eggs", "style=short")

    assert rests == "task.succeeded"
    (_, text), _, (role, result) = bench.read()
    data = json.loads(result)["data"]
    assert (text, role) == ("%run notes:week topic=milk and eggs style=short", "tool")
    assert data["messages"] == [
        {"role": "user", "text": "Sum up the week about milk and eggs, short."},
        {"mime": "", "resource": "note://milk", "role": "user", "text": "milk, eggs\n"},
        {"role": "assistant", "text": "I begin with Monday."},
    ]
    assert "The words are the server's" in data["about"]
    events = {event.type: event for event in await bench.ozzie.log.read_stream(task_stream(task))}
    assert (events["message.received"].labels, events["tool.call.completed"].labels) == ((), ("mcp",))


async def test_orders_in_a_prompt_can_do_no_more_than_those_in_a_page(bench: Bench) -> None:
    name = bench.project / "a.md"
    _, rests = await bench.send(
        "", Use("write_file", {"path": "a.md", "text": "x"}), [Say("Done.")], skill=SkillRequest(name="notes:plain")
    )

    assert rests == "task.waiting_approval"
    assert not name.exists()


async def test_a_prompt_that_is_described_in_other_words_is_not_run(bench: Bench) -> None:
    changed = {"prompts": [{"name": "week", "description": "Sums up, and sends it", "arguments": []}]}
    (bench.state / "words.json").write_text(json.dumps(changed))

    other, _ = await bench.run("notes:week", "topic=milk")
    gone, _ = await bench.run("notes:plain")

    words = [of(await bench.bodies(task), TaskFailed)[0].message for task in (other, gone)]
    assert "describes the prompt week otherwise than when you trusted it" in words[0]
    assert "has no prompt plain any more" in words[1]
    assert all("ozzie mcp test notes" in each for each in words)
    assert bench.calls() == []


async def test_a_prompts_arguments_ask_before_they_leave_this_machine_unless_a_person_typed_them(bench: Bench) -> None:
    bench.may_send()
    await bench.send("See @notes:note://milk")
    text = "%run notes:week topic=secret"
    request = SkillRequest(name="notes:week", words=("topic=secret",))

    typed_one, done = await bench.send(text, skill=request, confirmation=typed(text))
    written, rests = await bench.send(text, skill=request)

    assert await verdicts(bench, typed_one) == [("ALLOW", "default.read_only")]
    assert await verdicts(bench, written) == [("ASK", "floor.address")]
    assert (done, rests) == ("task.succeeded", "task.waiting_approval")
    assert bench.calls() == ['prompt week {"topic": "secret"}']


# --- lists ------------------------------------------------------------------------------------------------------------


async def test_a_list_of_servers_has_their_prompts_and_resources(bench: Bench) -> None:
    found, _ = await bench.ozzie.projects.own.server_tools.overview()

    assert [each.uri for each in found[0].resources] == ["note://milk", "note://pixel", "note://day/{day}/at/{hour}"]
    assert [*bench.settled().prompts] == ["week", "plain"]


async def test_a_replay_shows_what_was_recorded_and_asks_no_server(
    bench: Bench,
) -> None:  # the last one, as the home has another gateway afterwards
    await bench.send("See @notes:note://milk and @notes:note://two")
    await bench.send("See @notes:note://nothing")
    await bench.run("notes:week", "topic=milk")
    asked = bench.calls()

    verdict = await asyncio.to_thread(replayed, bench.home, SessionId(bench.session))

    assert verdict.is_same, verdict.sentence
    assert bench.calls() == asked
