"""The frames of the WebSocket: S0's three kinds, there and back."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.events import Draft, MessageCompleted, Transient
from ozzie_server_ext.domain.ids import ReplyId, SessionId, TaskId
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.protocol.codec import InvalidShape
from ozzie_server_ext.protocol.frames import (
    MAX_FRAME_BYTES,
    ErrorInfo,
    EventFrame,
    Frame,
    Request,
    Response,
    decode_frames,
    decode_request,
    encode_frame,
    event_frame,
)
from ozzie_server_ext.protocol.jsontext import InvalidJson
from ozzie_server_ext.store.memory import InMemoryEventLog

FRAMES: list[Frame] = [
    Request(id="1", method="message.send", params={"content": "hi"}),
    Request(id="1", method="models.list"),
    Response(id="1", ok=True, payload={"task_id": "t"}),
    Response(id="1", ok=True),
    Response(id="2", ok=False, error=ErrorInfo(code="input.method", message="There is no method x.", hint="Try y.")),
    Response(id="", ok=False, error=ErrorInfo(code="input.json", message="Not JSON.")),
    EventFrame(event="task.started", canonical="task.started", position=7, payload={"a": 1}, ts="2026-01-01T00:00:00"),
    EventFrame(event="assistant.stream", canonical="reply.delta", session_id="s", task_id="t", labels=("web",)),
]


@pytest.mark.parametrize("frame", FRAMES, ids=lambda frame: type(frame).__name__)
def test_a_frame_comes_back_as_it_was(frame: Frame) -> None:
    assert decode_frames(encode_frame(frame)) == (frame,)


JSON_OBJECTS = st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.integers() | st.booleans())
TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@given(TEXT, TEXT, JSON_OBJECTS)
def test_any_request_comes_back_as_it_was(request_id: str, method: str, params: dict[str, Any]) -> None:
    frame = Request(id=request_id, method=f"m{method}", params=params)

    assert decode_request(encode_frame(frame)) == frame


@given(TEXT)
def test_any_text_is_a_frame_or_refused_in_words(text: str) -> None:
    for read in (decode_frames, decode_request):
        refused = ""
        try:
            frames = read(text)
        except InputError as error:
            frames, refused = (), str(error)
        assert refused or isinstance(frames, tuple)


def test_a_message_may_hold_several_frames_in_order() -> None:
    together = f"[{','.join(encode_frame(frame) for frame in FRAMES)}]"

    assert decode_frames(together) == tuple(FRAMES)
    assert decode_frames("[]") == ()


def test_each_kind_carries_s0s_name_for_it() -> None:
    assert [json.loads(encode_frame(FRAMES[index]))["type"] for index in (0, 2, 6)] == ["req", "res", "event"]


def test_a_transient_event_says_that_it_has_no_position() -> None:
    assert json.loads(encode_frame(FRAMES[7]))["position"] is None


def test_empty_fields_are_left_out() -> None:
    assert json.loads(encode_frame(Response(id="1", ok=True))) == {"type": "res", "id": "1", "ok": True, "payload": {}}


def test_unknown_fields_are_passed_over() -> None:
    text = '{"type":"req","id":"1","method":"m","params":{},"colour":"red"}'

    assert decode_request(text) == Request(id="1", method="m")


def test_a_client_may_send_s0s_user_message_as_an_event() -> None:
    text = '{"type":"event","event":"user.message","payload":{"content":"hello"}}'

    assert decode_request(text) == EventFrame(event="user.message", payload={"content": "hello"})


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "1",
        "null",
        '"req"',
        '{"type":"reqs","id":"1","method":"m"}',
        '{"type":["req"]}',
        '{"type":"req","id":"1"}',
        '{"type":"req","id":1,"method":"m"}',
        '{"type":"req","id":"1","method":"m","params":[]}',
        '{"type":"event"}',
        '{"type":"event","event":"x","position":"1"}',
        '{"type":"res","id":"1"}',
        '{"type":"res","id":"1","ok":true}',
        '[{"type":"req","id":"1","method":"m"}]',
    ],
)
def test_what_a_client_may_not_send_is_refused(text: str) -> None:
    with pytest.raises(InvalidShape):
        decode_request(text)


def test_a_clients_frame_is_bounded() -> None:
    frame = Request(id="1", method="m", params={"text": "a" * MAX_FRAME_BYTES})

    with pytest.raises(InvalidJson, match="larger"):
        decode_request(encode_frame(frame))
    assert decode_frames(encode_frame(frame)) == (frame,), "what the gateway sends may be larger"


async def test_a_recorded_event_is_told_with_its_place_and_the_name_that_s0_has_for_it() -> None:
    log = InMemoryEventLog(FakeClock(), CountingIds())
    body = MessageCompleted(reply_id=ReplyId("r"), text="hi", finish="stop")
    draft = Draft(body=body, actor="worker", source="agent", session_id=SessionId("s"), labels=("web",))
    (event,) = await log.append("session:s", [draft])

    frame = event_frame(event)

    assert (frame.event, frame.canonical, frame.position) == ("assistant.message", "message.completed", 1)
    assert frame.payload == {"reply_id": "r", "text": "hi", "finish": "stop"}
    assert (frame.session_id, frame.task_id, frame.labels) == ("s", None, ("web",))
    assert frame.ts == "2026-01-01T00:00:00+00:00"
    assert decode_frames(encode_frame(frame)) == (frame,)


def test_a_transient_event_is_told_without_a_place() -> None:
    delta = Transient(
        type="reply.delta",
        session_id=SessionId("s"),
        task_id=TaskId("t"),
        payload={"reply_id": "r", "offset": 0, "phase": "delta", "content": "Bonjour"},
    )

    frame = event_frame(delta)

    assert (frame.event, frame.canonical, frame.position, frame.ts) == ("assistant.stream", "reply.delta", None, "")
    assert frame.payload["content"] == "Bonjour"
