"""Real MCP clients use Ozzie: its tools, skills and sessions, in both eras of the protocol, under the user's rules."""

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import anyio
import psutil
import pytest

from ozzie_server_ext.gateway.routes import PREFIX
from tests.integration.gateway.asked import events
from tests.integration.gateway.test_approvals import answer
from tests.integration.gateway.test_rest import get, post, until
from tests.integration.gateway.walk import ask
from tests.mcp_clients import ERAS, NEWER, OLDER, Raw, events_in, mcp_error, newer, over_http, over_stdio, text_of
from tests.rig import JUPYTER_TOKEN, Gateway, GatewayHome, new_home, ozzie, start_attached, start_gateway
from tests.tiers import rows

pytestmark = pytest.mark.timeout(120)

WITHIN_S = 30.0
eras = pytest.mark.parametrize("era", ERAS)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    home = new_home(tmp_path_factory.mktemp("mcp"))
    (home.project / "notes").mkdir()
    with start_gateway(home) as running:
        yield running


def pending(server: Gateway) -> list[dict[str, Any]]:
    return get(server, "approvals?status=pending")["items"]


async def asked(server: Gateway, told: list[str] | None = None) -> dict[str, Any]:
    """The one approval that is asked for; and, if there is progress, once that says so."""
    async with asyncio.timeout(WITHIN_S):
        while not (found := await asyncio.to_thread(pending, server)) or (  # noqa: ASYNC110
            told is not None and not told
        ):
            await asyncio.sleep(0.02)
    (one,) = found
    return one


async def approve(server: Gateway, approval: dict[str, Any]) -> None:
    status, said = await asyncio.to_thread(
        partial(answer, server, approval["approval_id"], "approve", binds=approval["binds"])
    )
    assert status == 200, said


async def none_is_asked(server: Gateway) -> None:
    async with asyncio.timeout(WITHIN_S):
        while await asyncio.to_thread(pending, server):  # noqa: ASYNC110 - another process ends them
            await asyncio.sleep(0.02)


async def ended(server: Gateway, task_id: str) -> dict[str, Any]:
    await asyncio.to_thread(until, lambda: get(server, f"tasks/{task_id}")["finished_at"])
    return await asyncio.to_thread(get, server, f"tasks/{task_id}")


def last_call(server: Gateway) -> dict[str, Any]:
    return next(task for task in get(server, "tasks?limit=20")["items"] if task["channel"] == "mcp")


def write(name: str, text: str = "one\ntwo\n") -> dict[str, str]:
    return {"path": f"notes/{name}", "text": text}


@eras
@pytest.mark.parametrize("way", ["http", "stdio"])
async def test_a_client_lists_and_calls_tools(server: Gateway, era: str, way: str) -> None:
    async with over_http(server, era) if way == "http" else over_stdio(server.home, era) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        result = await client.call_tool("calculator", {"expr": "6*7"})
        many = await asyncio.gather(*(client.call_tool("calculator", {"expr": f"2*{n}"}) for n in range(8)))

    assert {"calculator", "write_file", "read_file", "skill_researcher", "ozzie_ask"} <= tools.keys()
    assert not {"ask_user", "find_tools", "gate"} & tools.keys()
    assert tools["calculator"].input_schema["required"] == ["expr"]
    reads = tools["read_file"].annotations
    writes = tools["write_file"].annotations
    web = tools["fetch_url"].annotations
    assert reads is not None
    assert writes is not None
    assert web is not None
    assert (reads.read_only_hint, reads.open_world_hint) == (True, False)
    assert (writes.read_only_hint, writes.destructive_hint, web.open_world_hint) == (False, False, True)
    assert (text_of(result), result.structured_content, result.is_error) == ('{"value":"42"}', {"value": "42"}, False)
    assert [text_of(each) for each in many] == [f'{{"value":"{2 * n}"}}' for n in range(8)]


@eras
async def test_a_call_that_asks_waits_for_a_person_and_says_so(server: Gateway, era: str) -> None:
    told: list[str] = []

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        told.append(str(message))

    async with over_http(server, era, name="Claude Code") as client:
        call = asyncio.ensure_future(client.call_tool("write_file", write(f"yes-{era}.md"), progress_callback=progress))
        approval = await asked(server, told)
        before = (server.home.project / "notes" / f"yes-{era}.md").exists()
        beside = await client.call_tool("calculator", {"expr": "1+1"})
        await approve(server, approval)
        result = await call

    task = get(server, f"tasks/{approval['task_id']}")
    session = get(server, f"sessions/{task['session_id']}")
    recorded = get(server, f"events?task_id={task['task_id']}&limit=100")["items"]
    assert told[0] == f"Waits for your yes in Ozzie: {approval['sentence']}"
    assert not before
    assert text_of(beside) == '{"value":"2"}'
    assert not result.is_error, text_of(result)
    assert (server.home.project / "notes" / f"yes-{era}.md").read_text() == "one\ntwo\n"
    assert (task["status"], task["channel"], task["title"]) == ("SUCCEEDED", "mcp", "write_file, for Claude Code")
    assert (session["title"], session["channel"]) == ("Claude Code (MCP)", "mcp")
    assert "remote agent" in approval["made_from"]
    assert all(
        "remote:mcp" in each["sources"] for each in recorded if each["type"].startswith(("task.created", "tool"))
    )
    marks = get(server, "labels")["items"]
    assert any(each["path"].endswith(f"yes-{era}.md") for each in marks)


@eras
async def test_a_no_is_an_error_in_words(server: Gateway, era: str) -> None:
    async with over_http(server, era) as client:
        call = asyncio.ensure_future(client.call_tool("write_file", write("no.md")))
        approval = await asked(server)
        await asyncio.to_thread(
            partial(answer, server, approval["approval_id"], "reject", comment="Not in that folder.")
        )
        result = await call

    assert result.is_error
    assert "Rejected by" in text_of(result)
    assert "Not in that folder." in text_of(result)
    assert "Traceback" not in text_of(result)
    assert not (server.home.project / "notes" / "no.md").exists()


@eras
async def test_a_client_that_cancels_a_call_ends_it(server: Gateway, era: str) -> None:
    approval: dict[str, Any] = {}
    async with over_http(server, era) as client:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(partial(client.call_tool, "write_file", write("cancelled.md")))
                approval = await asked(server)
                scope.cancel()
        task = await ended(server, approval["task_id"])
        after = await client.call_tool("calculator", {"expr": "3*3"})

    assert task["status"] == "CANCELLED"
    assert answer(server, approval["approval_id"], "approve", binds=approval["binds"])[0] == 409
    assert not (server.home.project / "notes" / "cancelled.md").exists()
    assert text_of(after) == '{"value":"9"}'


async def test_a_newer_client_that_vanishes_ends_its_call(server: Gateway) -> None:
    headers, body = newer("tools/call", name="write_file", arguments=write("vanished.md"), meta={"progressToken": "p"})
    with Raw(server, **headers).open("POST", body):
        approval = await asked(server)
    task = await ended(server, approval["task_id"])

    assert task["status"] == "CANCELLED"
    assert not (server.home.project / "notes" / "vanished.md").exists()


async def test_an_older_client_whose_connection_breaks_gets_its_result_when_it_is_back(server: Gateway) -> None:
    raw = Raw(server)
    session = raw.begin()
    call = {
        "jsonrpc": "2.0",
        "id": 7,
        "method": "tools/call",
        "params": {"name": "write_file", "arguments": write("back.md"), "_meta": {"progressToken": "p"}},
    }
    with raw.open("POST", call, Mcp_Session_Id=session, MCP_Protocol_Version=OLDER) as stream:
        last_id, _ = next(events_in(stream))
        approval = await asked(server)
    await approve(server, approval)
    await ended(server, approval["task_id"])
    with raw.open("GET", Mcp_Session_Id=session, MCP_Protocol_Version=OLDER, Last_Event_ID=last_id) as stream:
        result = next(message for _, message in events_in(stream) if message and message.get("id") == 7)
    other = raw.begin()
    with raw.open("GET", Mcp_Session_Id=other, MCP_Protocol_Version=OLDER, Last_Event_ID=last_id) as stream:
        stolen = [message for _, message in events_in(stream) if message]

    assert not result["result"]["isError"]
    assert (server.home.project / "notes" / "back.md").read_text() == "one\ntwo\n"
    assert stolen == []  # events have the same numbers in each session


@eras
async def test_two_clients_see_nothing_of_each_other(server: Gateway, era: str) -> None:
    async with AsyncExitStack() as both:
        ana = await both.enter_async_context(over_http(server, era, name="one", user="ana"))
        ben = await both.enter_async_context(over_http(server, era, name="one", user="ben"))
        asking = await ana.call_tool("ozzie_ask", {"message": "hello"})
        assert asking.structured_content is not None, text_of(asking)
        session = asking.structured_content["session"]
        own = await ana.call_tool("ozzie_session_read", {"session": session})
        listed = await ben.call_tool("ozzie_sessions", {})
        read = await ben.call_tool("ozzie_session_read", {"session": session})
        spoken = await ben.call_tool("ozzie_ask", {"message": "hello", "session": session})
        resources = [each.uri for each in (await ben.list_resources()).resources]
        with pytest.raises(mcp_error(), match="There is no session"):
            await ben.read_resource(f"ozzie://sessions/{session}")

    assert "hello" in text_of(own)
    assert session not in text_of(listed)
    assert (read.is_error, spoken.is_error) == (True, True)
    assert "There is no session" in text_of(read)
    assert all(session not in uri for uri in resources)


async def said_in_a_session(server: Gateway, words: str) -> str:
    """A session of the user's own, in which they said this."""
    session = await asyncio.to_thread(partial(post, server, "sessions"))
    said = partial(post, server, "message", content=words, session_id=session["id"], wait=True)
    assert (await asyncio.to_thread(said))["status"] == "SUCCEEDED"
    return str(session["id"])


async def test_what_a_client_reads_of_sessions_is_recorded_without_its_text(server: Gateway) -> None:
    session = await said_in_a_session(server, "zyzzyva")
    async with over_http(server, NEWER, name="reader") as client:
        read = await client.call_tool("ozzie_session_read", {"session": session, "messages": 3})
    task = last_call(server)
    events = json.dumps(get(server, f"events?task_id={task['task_id']}&limit=100"))

    assert "zyzzyva" in text_of(read)
    assert (session in events, "zyzzyva" in events) == (True, False)
    assert task["status"] == "SUCCEEDED"


@pytest.mark.parametrize("says", ["deny", "ask"])
async def test_rules_decide_what_a_client_reads_of_sessions(home: GatewayHome, says: str) -> None:
    read = {"session.list": {}, "session.read": {"session": "a"}, "session.artifact": {"artifact": "a"}}
    rules = [
        {
            "id": tool.replace(".", "-"),
            "decision": says,
            "reason": "Mine.",
            "when": {"tools": [tool], "channels": ["mcp"]},
            "examples": {"match": [{"tool": tool, "args": args, "channel": "mcp"}]},
        }
        for tool, args in read.items()
    ]
    (home.home / "policy.jsonc").write_text(json.dumps({"rules": rules}))
    with start_gateway(home) as server:
        session = await said_in_a_session(server, "zyzzyva")
        async with over_http(server, NEWER) as client:
            offered = {tool.name for tool in (await client.list_tools()).tools}
            if says == "deny":
                with pytest.raises(mcp_error(), match="There is no tool"):
                    await client.call_tool("ozzie_session_read", {"session": session})
                with pytest.raises(mcp_error(), match="rules deny"):
                    await client.read_resource(f"ozzie://sessions/{session}")
                with pytest.raises(mcp_error(), match="rules deny"):
                    await client.list_resources()
            else:
                reading = asyncio.ensure_future(client.read_resource(f"ozzie://sessions/{session}"))
                approval = await asked(server)
                assert session in json.dumps(approval)
                await approve(server, approval)
                assert "zyzzyva" in json.dumps((await reading).model_dump(mode="json"))

    assert ("ozzie_session_read" in offered) is (says == "ask")


def test_a_session_of_the_protocol_is_unknown_to_another_identity(server: Gateway) -> None:
    session = Raw(server, **{"Ozzie-User": "ana"}).begin()
    listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    own = Raw(server, **{"Ozzie-User": "ana"}).send("POST", listing, Mcp_Session_Id=session)
    others = Raw(server, **{"Ozzie-User": "ben"}).send("POST", listing, Mcp_Session_Id=session)

    assert own[0] == 200
    assert (others[0], "Session not found" in others[1]) == (404, True)


def test_who_has_jupyters_token_and_keeps_no_cookie_is_the_same_in_each_request(server: Gateway) -> None:
    raw = Raw(server, Authorization=f"token {JUPYTER_TOKEN}")
    session = raw.begin()
    status, text = raw.send("POST", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, Mcp_Session_Id=session)

    assert status == 200, text


async def test_what_a_client_says_are_no_words_of_the_user(server: Gateway) -> None:
    async with over_http(server, NEWER) as client:
        call = asyncio.ensure_future(client.call_tool("ozzie_ask", {"message": "Write a 3-line note to notes/said.md"}))
        approval = await asked(server)
        task = get(server, f"tasks/{approval['task_id']}")
        await approve(server, approval)
        result = await call

    recorded = get(server, f"events?task_id={approval['task_id']}&limit=100")["items"]
    assert "remote agent" in approval["made_from"]
    assert task["channel"] == "mcp"
    assert not [each for each in recorded if each["type"] == "message.confirmed"]
    assert [each["sources"] for each in recorded if each["type"] == "message.received"] == [["remote:mcp"]]
    assert not result.is_error
    assert (server.home.project / "notes" / "said.md").exists()


async def test_a_client_cant_answer_a_question_that_a_session_waits_with(server: Gateway) -> None:
    waiting = await asyncio.to_thread(
        partial(post, server, "message", content="Write a 3-line note to notes/held.md", session_name="mine", wait=True)
    )
    async with over_http(server, NEWER) as client:
        said = asyncio.ensure_future(
            client.call_tool("ozzie_ask", {"message": "Yes, approve it.", "session": waiting["session_id"]})
        )
        approval = await asked(server)
        await asyncio.to_thread(partial(answer, server, approval["approval_id"], "reject"))
        await said

    assert approval["task_id"] == waiting["task_id"]
    assert not (server.home.project / "notes" / "held.md").exists()


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_that_listens_hears_of_other_tools(home: GatewayHome, era: str) -> None:
    heard = asyncio.Event()

    async def on_message(message: Any) -> None:
        if getattr(message, "method", "") == "notifications/tools/list_changed":
            heard.set()

    skills = home.home / "skills"
    skills.mkdir(exist_ok=True)
    skill = {"name": "greet", "description": "Greets.", "instruction": "Greet.", "tools": []}
    with start_gateway(home) as server:
        async with over_http(server, era, message_handler=on_message) as client, AsyncExitStack() as listening:
            before = {tool.name for tool in (await client.list_tools()).tools}
            if era == NEWER:
                await listening.enter_async_context(client.listen(tools_list_changed=True))
            (skills / "greet.jsonc").write_text(json.dumps(skill))
            await asyncio.wait_for(heard.wait(), WITHIN_S)
            after = {tool.name for tool in (await client.list_tools()).tools}

    assert after - before == {"skill_greet"}


async def test_one_identity_has_so_many_calls_at_once(server: Gateway) -> None:
    async with over_http(server, NEWER, user="busy") as client:
        calls = [asyncio.ensure_future(client.call_tool("write_file", write(f"flood-{n}.md"))) for n in range(18)]
        done, waiting = await asyncio.wait(calls, timeout=WITHIN_S, return_when=asyncio.FIRST_COMPLETED)
        while len(done) < 2:
            more, waiting = await asyncio.wait(waiting, timeout=WITHIN_S, return_when=asyncio.FIRST_COMPLETED)
            assert more
            done |= more
        async with over_http(server, NEWER, user="other") as other:
            beside = await other.call_tool("calculator", {"expr": "1+2"})
        for each in waiting:
            each.cancel()
        await asyncio.wait(waiting)
    await none_is_asked(server)

    refused = [each.result() for each in done]
    assert all("16 calls are running already." in text_of(each) and each.is_error for each in refused)
    assert text_of(beside) == '{"value":"3"}'


def plane_of(server: Gateway) -> psutil.Process:
    """The process that speaks MCP for a gateway that was started cold."""
    (found,) = [
        each
        for each in psutil.Process(server.process.pid).children()
        if "ozzie_server_ext.programs.mcp_server" in " ".join(each.cmdline())
    ]
    return found


@pytest.mark.cold
@eras
async def test_a_killed_process_tells_its_calls_and_the_next_one_works(home: GatewayHome, era: str) -> None:
    (home.project / "notes").mkdir()
    approval: dict[str, Any] = {}
    with start_gateway(home) as server:
        with suppress(Exception):  # a session of the older era ends with the process
            async with over_http(server, era) as client:
                await client.list_tools()
                call = asyncio.ensure_future(client.call_tool("write_file", write("killed.md")))
                approval = await asked(server)
                plane_of(server).kill()
                with pytest.raises(mcp_error(), match="Whether this was done is not known"):
                    await asyncio.wait_for(call, WITHIN_S)
        task = await ended(server, approval["task_id"])
        async with over_http(server, era) as client:
            after = await asyncio.wait_for(client.call_tool("calculator", {"expr": "5*5"}), WITHIN_S)
        started = events(server, "tool.call.started")

    assert task["status"] == "CANCELLED"
    assert not (home.project / "notes" / "killed.md").exists()
    assert text_of(after) == '{"value":"25"}'
    assert len(started) == 1  # the calculator


@pytest.mark.cold
async def test_an_effect_in_progress_happens_once_however_the_process_dies(home: GatewayHome) -> None:
    args = {"argv": ["sh", "-c", "echo x >> effect; sleep 30"]}
    with start_gateway(home) as server:
        async with over_http(server, NEWER) as client:
            call = asyncio.ensure_future(client.call_tool("host_command", args))
            approval = await asked(server)
            await approve(server, approval)
            effect = home.project / "effect"
            await asyncio.to_thread(until, effect.exists)
            plane_of(server).kill()
            with pytest.raises(mcp_error(), match="Whether this was done is not known"):
                await asyncio.wait_for(call, WITHIN_S)
            task = await ended(server, approval["task_id"])
            after = await client.call_tool("calculator", {"expr": "5*5"})
        recorded = [each["type"] for each in get(server, f"events?task_id={task['task_id']}&limit=100")["items"]]

    assert effect.read_text() == "x\n"
    assert task["status"] == "CANCELLED"
    assert recorded.count("tool.call.started") == 1
    assert text_of(after) == '{"value":"25"}'


async def test_a_call_whose_gateway_was_killed_is_not_made_by_the_next_one(home: GatewayHome) -> None:
    (home.project / "notes").mkdir()
    approval: dict[str, Any] = {}
    with start_gateway(home) as server, suppress(Exception):
        async with over_http(server, NEWER) as client:
            call = asyncio.ensure_future(client.call_tool("write_file", write("late.md")))
            approval = await asked(server)
            os.kill(server.process.pid, signal.SIGKILL)
            server.process.wait(20)
            await call
    with start_gateway(home) as server:
        task = await ended(server, approval["task_id"])
        left = pending(server)

    assert (task["status"], left) == ("CANCELLED", [])
    assert not (home.project / "notes" / "late.md").exists()


async def test_a_turn_that_a_client_began_ends_with_its_gateway(home: GatewayHome) -> None:
    (home.project / "notes").mkdir()
    message = {"message": "Write a 3-line note to notes/turn.md"}
    approval: dict[str, Any] = {}
    with start_gateway(home) as server, suppress(Exception):
        async with over_http(server, NEWER) as client:
            call = asyncio.ensure_future(client.call_tool("ozzie_ask", message))
            approval = await asked(server)
            os.kill(server.process.pid, signal.SIGKILL)
            server.process.wait(20)
            await call
    with start_gateway(home) as server:
        task = await ended(server, approval["task_id"])
        left = pending(server)

    assert (task["status"], left) == ("CANCELLED", [])
    assert not (home.project / "notes" / "turn.md").exists()


async def test_calls_over_stdio_that_find_a_new_gateway_at_once_begin_one_session(home: GatewayHome) -> None:
    """With two, a cancellation of one of the calls would go to the other's."""
    (home.project / "notes").mkdir()
    found: list[dict[str, Any]] = []
    with start_gateway(home) as first:
        stdio = over_stdio(home, OLDER)
        client = await stdio.__aenter__()
        await client.call_tool("calculator", {"expr": "1+1"})
        first.kill()
    with start_gateway(home) as server:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                for number in range(4):
                    group.start_soon(partial(client.call_tool, "write_file", write(f"both-{number}.md")))
                async with asyncio.timeout(WITHIN_S):
                    while len(found := await asyncio.to_thread(pending, server)) < 4:  # noqa: ASYNC110
                        await asyncio.sleep(0.02)
                scope.cancel()
        states = [(await ended(server, each["task_id"]))["status"] for each in found]
        await stdio.__aexit__(None, None, None)

    assert states == ["CANCELLED"] * 4


async def test_a_stdio_client_goes_on_with_the_next_gateway(home: GatewayHome) -> None:
    with start_gateway(home) as first:
        stdio = over_stdio(home, OLDER)
        client = await stdio.__aenter__()
        before = await client.call_tool("calculator", {"expr": "1+1"})
        first.kill()
    with start_gateway(home):
        after = await client.call_tool("calculator", {"expr": "2+2"})
        await stdio.__aexit__(None, None, None)

    assert [text_of(before), text_of(after)] == ['{"value":"2"}', '{"value":"4"}']


async def test_a_client_of_an_attached_server_is_served_by_the_owner(server: Gateway) -> None:
    with start_attached(server.home) as attached:
        for era in ERAS:
            async with over_http(attached, era, token=JUPYTER_TOKEN) as client:
                call = asyncio.ensure_future(client.call_tool("write_file", write(f"attached-{era}.md")))
                await approve(server, await asked(server))
                result = await call
            assert not result.is_error, text_of(result)
            assert (server.home.project / "notes" / f"attached-{era}.md").exists()


async def test_a_stdio_client_works_in_the_folder_that_it_names(server: Gateway, tmp_path: Path) -> None:
    folder = tmp_path / "élsewhere"
    folder.mkdir()
    (folder / "here.txt").write_text("here")
    async with over_stdio(server.home, NEWER, "--project", str(folder)) as client:
        found = await client.call_tool("read_file", {"path": "here.txt"})

    assert "here" in text_of(found), text_of(found)


async def test_a_clients_own_token_opens_this_and_nothing_else(server: Gateway) -> None:
    made = await asyncio.to_thread(ozzie, server.home, "mcp", "token", "claude-code", "--json")
    token = json.loads(made.stdout)["token"]
    async with over_http(server, NEWER, token=token) as client:
        call = asyncio.ensure_future(client.call_tool("write_file", write("token.md")))
        approval = await asked(server)
        own = answer(server, approval["approval_id"], "approve", token=token, binds=approval["binds"])
        elsewhere = ask(server, "GET", f"{PREFIX}/sessions", token=token)
        await approve(server, approval)
        result = await call
    raw = Raw(server, Authorization=f"Bearer {token}")
    elsewhere_status, words = raw.send("POST", newer("tools/list")[1], Ozzie_Project=str(server.home.project))
    task = get(server, f"tasks/{approval['task_id']}")
    stored = (server.home.home / "mcp-clients.json").read_text()
    await asyncio.to_thread(ozzie, server.home, "mcp", "token", "claude-code", "--revoke")
    status, _ = raw.send("POST", newer("tools/list")[1])

    assert (own[0], elsewhere[0]) == (403, 403)
    assert (elsewhere_status, "own folder" in words) == (403, True)
    assert not result.is_error
    assert task["sender_id"] == "mcp:claude-code"
    assert "mcp/claude-code" in json.dumps(get(server, f"events?task_id={task['task_id']}&limit=100"))
    assert token not in stored
    assert status == 403


@eras
async def test_revoking_a_token_ends_what_it_has_open(server: Gateway, era: str) -> None:
    name = f"gone-{era}"
    task: dict[str, Any] = {}
    made = await asyncio.to_thread(ozzie, server.home, "mcp", "token", name, "--json")
    with suppress(Exception):  # the client's connection breaks
        async with over_http(server, era, token=json.loads(made.stdout)["token"]) as client:
            call = asyncio.ensure_future(client.call_tool("write_file", write("revoked.md")))
            approval = await asked(server)
            await asyncio.to_thread(ozzie, server.home, "mcp", "token", name, "--revoke")
            task = await ended(server, approval["task_id"])
            call.cancel()
    await none_is_asked(server)

    assert task.get("status") == "CANCELLED"


async def test_a_clients_own_token_is_for_sessions_of_the_gateways_folder(server: Gateway, tmp_path: Path) -> None:
    there = await asyncio.to_thread(partial(post, server, "sessions", name="there", project=str(tmp_path)))
    here = await asyncio.to_thread(partial(post, server, "sessions", name="here"))
    made = await asyncio.to_thread(ozzie, server.home, "mcp", "token", "narrow", "--json")
    async with over_http(server, NEWER, token=json.loads(made.stdout)["token"]) as client:
        listed = text_of(await client.call_tool("ozzie_sessions", {}))
        resources = [str(each.uri) for each in (await client.list_resources()).resources]
        read = await client.call_tool("ozzie_session_read", {"session": there["id"]})
        spoken = await client.call_tool("ozzie_ask", {"message": "hello", "session": there["id"]})
        own = await client.call_tool("ozzie_session_read", {"session": here["id"]})
    async with over_http(server, NEWER) as users:
        all_of_them = text_of(await users.call_tool("ozzie_sessions", {}))

    assert (here["id"] in listed, there["id"] in listed) == (True, False)
    assert not [each for each in resources if there["id"] in each]
    assert (read.is_error, spoken.is_error, own.is_error) == (True, True, False)
    assert "There is no session" in text_of(read)
    assert there["id"] in all_of_them


async def test_a_clients_session_is_shown_exported_forked_and_replayed_like_any_other(server: Gateway) -> None:
    async with over_http(server, NEWER, name="whole", user="whole") as client:
        await client.call_tool("calculator", {"expr": "2*3"})
        asking = await client.call_tool("ozzie_ask", {"message": "What is 2*4?"})
        await client.call_tool("list_files", {})
    assert asking.structured_content is not None
    session = asking.structured_content["session"]
    shown = await asyncio.to_thread(ozzie, server.home, "sessions", "show", session)
    exported = await asyncio.to_thread(get, server, f"sessions/{session}/turns")
    fork = await asyncio.to_thread(partial(post, server, f"sessions/{session}/fork"))
    replayed = await asyncio.to_thread(partial(post, server, f"sessions/{session}/replay"))
    file = server.home.project / "whole.md"
    written = await asyncio.to_thread(ozzie, server.home, "sessions", "export", session, "--to", str(file))
    again = await asyncio.to_thread(
        partial(post, server, "message", content="hello", session_id=fork["session"]["id"], wait=True)
    )

    assert shown.returncode == 0, shown.stderr
    assert written.returncode == 0, written.stderr
    assert [turn["status"] for turn in exported["items"]] == ["SUCCEEDED"] * 3
    assert replayed["same"] == replayed["events"], replayed
    assert again["status"] == "SUCCEEDED"


async def test_a_skill_that_a_client_began_ends_with_it(home: GatewayHome) -> None:
    (home.project / "notes").mkdir()
    skills = home.home / "skills"
    skills.mkdir(exist_ok=True)
    step = {"id": "a", "title": "write", "call": {"tool": "write_file", "args": write("skill.md")}}
    (skills / "writer.jsonc").write_text(json.dumps({"name": "writer", "type": "workflow", "steps": [step]}))
    approval: dict[str, Any] = {}
    with start_gateway(home) as server, suppress(Exception):
        async with over_http(server, NEWER) as client:
            call = asyncio.ensure_future(client.call_tool("skill_writer", {}))
            approval = await asked(server)
            os.kill(server.process.pid, signal.SIGKILL)
            server.process.wait(20)
            await call
    with start_gateway(home) as server:
        for task in get(server, "tasks?all=true")["items"]:
            assert (await ended(server, task["task_id"]))["status"] == "CANCELLED"
        left = pending(server)

    assert approval
    assert left == []
    assert not (home.project / "notes" / "skill.md").exists()


@pytest.mark.cold
@pytest.mark.parametrize("moments", rows(map(str, range(34)), "0"))
async def test_whenever_the_process_dies_no_effect_happens_twice(home: GatewayHome, moments: str) -> None:
    """Each call stores a version of a note, so that versions count effects. `make soak` kills at 102 moments."""
    draw, reported = Random(f"{moments} 30"), set[str]()
    names = [f"note-{number}" for number in range(12)]
    with start_gateway(home) as server:
        for kill in range(3):
            async with over_http(server, NEWER) as client:
                await client.list_tools()
                process = plane_of(server)

                async def store(name: str, client: Any = client) -> None:
                    with suppress(mcp_error()):
                        result = await client.call_tool("write_note", {"name": name, "text": "x"})
                        assert not result.is_error, text_of(result)
                        reported.add(name)

                calls = [asyncio.ensure_future(store(name)) for name in names[4 * kill : 4 * kill + 4]]
                await asyncio.sleep(draw.random() * 0.15)
                process.kill()
                await asyncio.wait_for(asyncio.gather(*calls), WITHIN_S)
        async with over_http(server, NEWER) as client:
            await client.call_tool("write_note", {"name": "last", "text": "x"})
        until(lambda: all(task["finished_at"] for task in get(server, "tasks?limit=50")["items"]))
        tasks = get(server, "tasks?limit=50")["items"]
        made = [each["name"] for each in get(server, "artifacts?limit=100")["items"]]

    stored = [name for name in names if any(name in each for each in made)]
    assert any("last" in each for each in made), made  # so that a call is seen here if it took effect
    assert len(made) == len(set(made)), made
    assert reported <= set(stored)
    assert {task["status"] for task in tasks} <= {"SUCCEEDED", "CANCELLED"}
