"""The documents' frames, events, routes, commands, and the lines of a worker."""

import asyncio
import json
import re
import shlex
from pathlib import Path
from typing import Any, get_args

import pytest
from msgspec.structs import replace

from ozzie_server_ext.cli.parser import Misused, parser
from ozzie_server_ext.domain.budget import Usage
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.events import (
    EVENT_CLASSES,
    TransientType,
)
from ozzie_server_ext.domain.ids import TaskId, task_stream
from ozzie_server_ext.gateway.access import Principal
from ozzie_server_ext.gateway.methods import METHODS_OF_EVENTS
from ozzie_server_ext.gateway.operation import Call
from ozzie_server_ext.gateway.routes import METHODS, PREFIX, REST, WS_PATH
from ozzie_server_ext.gateway.state import GatewayState
from ozzie_server_ext.models.driver import ModelChoice
from ozzie_server_ext.models.foreign import read_line
from ozzie_server_ext.models.scripted import End, Say, ScriptedDriver, Wait
from ozzie_server_ext.observability.clock import CountingIds
from ozzie_server_ext.programs.worker_server import WorkerServer, listening
from ozzie_server_ext.protocol.codec import encode
from ozzie_server_ext.protocol.frames import (
    NAMES,
    EventFrame,
    Request,
    Response,
    canonical_names,
    decode_frames,
    decode_request,
    encode_frame,
    event_frame,
)
from ozzie_server_ext.protocol.worker import CreateSession, Error, Generate, Stop, parse_command
from tests.documents.examples_read import KERNEL, WAIT_S, one_of, quoted, template, text, without_gaps
from tests.integration.tasks.runs_rig import Runs


async def test_a_request_is_answered_with_the_fields_of_the_response_and_streamed(runs: Runs) -> None:
    ozzie, go = runs.ozzie, asyncio.Event()
    ozzie.plays([Wait(go), Say("Bonjour")])
    session = await ozzie.sessions.open("n", title="n", channel="notebook")
    request = decode_request(text("frame_request.json"))
    assert isinstance(request, Request)
    assert request == Request(id="uuid", method="message.send", params={"content": "hello"})
    operation = METHODS[request.method]
    with pytest.raises(InputError, match=r"^Which session\? The parameter session_id is missing\.$"):
        await operation.payload_for(Call(GatewayState(), ozzie, Principal(kind="user", name="ana")), request.params)

    caller = replace(KERNEL, session_id=session.session_id)
    payload = await operation.payload_for(Call(GatewayState(), ozzie, caller), request.params)
    response = json.loads(encode_frame(Response(id=request.id, ok=True, payload=payload)))
    example = json.loads(without_gaps(text("frame_response.json")))
    assert decode_frames(json.dumps(example)) == (Response(id="uuid", ok=True),)
    assert {**response, "payload": {}} == example
    assert list(payload) == ["task_id", "message_id", "session_id", "position", "ahead", "became"]

    task_id = TaskId(str(payload["task_id"]))
    assert (await ozzie.log.read_stream(task_stream(task_id)))[0].source == "ws"
    frames: list[dict[str, Any]] = []
    async with asyncio.timeout(WAIT_S), ozzie.feed.subscribe(0, task_id=task_id) as events:
        go.set()
        async for event in events:
            frames.append(json.loads(encode_frame(event_frame(event))))
            if event.type == "task.succeeded":
                break
    streamed = json.loads(text("frame_event_stream.json"))
    (delta,) = [each for each in frames if each["event"] == streamed["event"] and each["payload"]["phase"] == "delta"]
    assert {key: delta[key] for key in ("type", "event")} == {key: streamed[key] for key in ("type", "event")}
    assert delta["payload"].items() >= streamed["payload"].items()
    assert delta.keys() - streamed.keys() == {"canonical", "position", "session_id", "task_id"}
    assert delta["payload"].keys() - streamed["payload"].keys() == {"reply_id", "offset"}
    assert (delta["canonical"], delta["position"]) == ("reply.delta", None)


def test_the_event_of_a_client_is_the_request() -> None:
    frame = decode_request(text("frame_event_user_message.json"))
    request = decode_request(text("frame_request.json"))
    assert isinstance(frame, EventFrame)
    assert isinstance(request, Request)

    assert (METHODS_OF_EVENTS[frame.event], frame.payload) == (request.method, request.params)
    assert METHODS_OF_EVENTS["prompt.response"] == "task.answer"


LATER = {"incoming.message", "outgoing.message", "schedule.trigger"}
OURS = {
    "incoming.message": "channel.incoming",
    "outgoing.message": "channel.outgoing",
    "agent.thinking": "agent.thinking",
    "agent.delegation": "agent.delegated",
    "tool.call.requested": "tool.call.requested",
    "tool.call.result": "tool.call.completed tool.call.failed tool.call.cancelled",
    "tool.call.confirmation": "approval.requested",
    "schedule.trigger": "schedule.triggered",
    "session.created": "session.created",
    "session.closed": "session.closed",
    "user.message": "message.received",
    "assistant.stream": "reply.delta",
    "assistant.message": "message.completed",
    "tool.call": "tool.call.requested",
    "prompt.request": "prompt.requested",
    "prompt.response": "prompt.answered",
    "internal.llm.call": "model.call.completed",
    "skill.started": "skill.started",
    "skill.completed": "skill.completed",
    "skill.step.started": "step.started",
    "skill.step.completed": "step.completed",
}


@pytest.mark.parametrize(
    ("column", "name"),
    [(each, name) for each in ("s0", "s1") for name in quoted(f"event_names_{each}.md")],
)
def test_a_name_of_an_event_stands_for_ours_and_a_feed_takes_it(column: str, name: str) -> None:
    assert [canonical for canonical, names in NAMES.items() if getattr(names, column) == name] == OURS[name].split()

    if name in LATER or name == "tool.call":  # a frame has the first document's name: tool.call.requested
        with pytest.raises(InputError, match=f"^There is no event {name}.$"):
            canonical_names([name])
    else:
        assert canonical_names([name]) == set(OURS[name].split())


def test_the_other_documents_names_of_events_stand_for_ours() -> None:
    s4 = {
        name: [ours for ours, names in NAMES.items() if names.s4 == name]
        for name in one_of(template("event.yaml")["type"])
    }
    moved = s4.pop("STATE_TRANSITION")
    known = {kind.type for kind in EVENT_CLASSES} | set(get_args(TransientType))
    sse = [line[2:].partition(":")[0] for line in text("sse_events.md").splitlines()]

    assert all(name.startswith("task.") for name in moved)
    assert {name: ours for name, ours in s4.items() if len(ours) != 1} == {
        "ERROR": ["task.failed", "model.call.failed"],
        "TOOL_RESULT": OURS["tool.call.result"].split(),
    }
    assert {each for ours in s4.values() for each in ours} | set(moved) <= known
    assert [name for name in sse if name not in {names.sse for names in NAMES.values()}] == ["plan", "research_result"]


def test_the_routes_lie_below_jupyters_server() -> None:
    served = {(each.method, PREFIX + each.path) for each in REST} | {("GET", PREFIX + WS_PATH)}
    routes = [tuple(line.split()[:2]) for line in text("routes.txt").splitlines()]

    assert len(routes) == 5
    assert {(method, f"/ozzie{path}") for method, path in routes} <= served
    assert not set(routes) & served


def test_the_commands_are_there_but_for_the_terminals_own_interface() -> None:
    (sessions,) = re.findall(r"`(ozzie sessions) (\S+)`", text("commands_sessions.md"))
    lines = [line for line in text("commands.sh").splitlines() if line.startswith("ozzie")]
    lines += [f"{sessions[0]} {verb}{'' if verb == 'list' else ' notes'}" for verb in sessions[1].split("/")]
    found: list[tuple[str, dict[str, Any]]] = []
    for line in lines:
        words = shlex.split(line, comments=True)[1:]
        if words == ["tui"]:
            with pytest.raises(Misused, match=r"^There is no command 'tui' here"):
                parser().parse_args(words)
            continue
        given = vars(parser().parse_args(words))
        typed = {key: given[key] for key in ("port", "detach", "message", "session") if given.get(key)}
        found.append((given["run"], typed))

    assert found == [
        ("gateway:gateway", {}),
        ("gateway:gateway", {"detach": True}),
        ("gateway:gateway", {"port": "18420"}),
        ("ask:ask", {"message": "Résume mes messages"}),
        ("gateway:status", {}),
        ("sessions:list_sessions", {}),
        ("events:tail", {}),
        ("sessions:list_sessions", {}),
        ("sessions:show_session", {"session": "notes"}),
        ("sessions:resume_session", {"session": "notes"}),
    ]


def messages(name: str) -> list[str]:
    return [without_gaps(each) for each in quoted(name) if each.startswith("{")]


async def test_the_requests_to_a_worker_are_answered(tmp_path: Path) -> None:
    choice = ModelChoice(alias="m", provider="scripted", driver="scripted", model="m")
    usage = End(usage=Usage(input_tokens=1, output_tokens=2))
    server = WorkerServer(ScriptedDriver([[Say("Olá"), usage]]), choice, CountingIds(), max_history=10)
    answers: list[dict[str, Any]] = []
    create, generate, abort, close, status = messages("worker_requests.md")
    with listening(tmp_path / "own" / "w.sock") as end:
        accepting = await asyncio.start_unix_server(server.accept, sock=end)
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "own" / "w.sock"))
        async with asyncio.timeout(WAIT_S):
            for line, count in ((create, 1), (generate, 2), (status, 1), (abort, 1), (close, 1), (generate, 1)):
                session = answers[0]["session_id"] if answers else ""
                writer.write(f"{line.replace('<sid>', session)}\n".encode())
                answers += [json.loads(await reader.readline()) for _ in range(count)]
        writer.close()
        accepting.close()
        await server.stop()

    created, token, stop, state, aborted, closed, refused = answers
    said = [json.loads(each) for each in messages("worker_answers.md")]
    assert [each["ok"] for each in (created, state, aborted, closed)] == [True] * 4
    assert {**token, "text": "..."} == said[2]
    assert stop == said[3] | {"finish": "stop", "usage": encode(usage.usage)}
    assert refused.keys() == said[1].keys()
    assert refused["error"] == f'There is no session "{created["session_id"]}". Begin one with create_session.'


def test_the_requests_are_read_and_their_answers_too() -> None:
    (example,) = messages("worker_generate.md")
    assert parse_command(json.loads(example)) == Generate(session_id="abc", prompt="...", stream=True)
    assert parse_command(json.loads(messages("worker_requests.md")[0])) == CreateSession(params={})

    lines = [*messages("worker_answers.md"), "uma linha de texto puro"]
    assert [read_line(line.encode(), is_first=True) for line in lines] == [
        None,
        Error(message="..."),
        "...",
        Stop(),
        Error(message="..."),
        "uma linha de texto puro\n",
    ]
