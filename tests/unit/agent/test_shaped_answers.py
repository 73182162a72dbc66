"""Turns whose answer is read by a program: it fits the schema, or comes anew, or the turn ends in words."""

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from ozzie_server_ext.agent.structured_output import MAX_REJECTED, UnfitAnswer
from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.domain.events import (
    EventBody,
    Limits,
    MessageCompleted,
    MessageReceived,
    MessageRejected,
    ModelCallCompleted,
    ModelCallStarted,
    Origin,
    TaskCreated,
)
from ozzie_server_ext.domain.ids import MessageId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.models.chain import Chain
from ozzie_server_ext.models.driver import ModelError
from ozzie_server_ext.models.scripted import End, Fail, Round, Say, Use
from ozzie_server_ext.store.recorder import Recorder
from tests.unit.agent.rig import CHOICE, PLAN, TurnRig

SCHEMA: JsonObject = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FITS: Round = [Say('{"city": "Rome"}'), End()]
TALKS: Round = [Say("It is Rome."), End()]
HOLDS = replace(PLAN, chain=Chain((replace(CHOICE, structured=True),)))


async def ask(rig: TurnRig, text: str = "Which city?", *, schema: JsonObject | None = SCHEMA, task: str = "t1") -> None:
    """A message and its task, as `tasks.service` records them."""
    message = MessageReceived(message_id=MessageId(rig.ids.new()), text=text, origin=Origin(channel="test"))
    created = TaskCreated(title=text, mode="FREE", message_id=message.message_id, limits=Limits(), answer_schema=schema)
    await rig.record(message, created, task=task)


async def test_an_answer_that_fits_ends_the_turn_and_the_model_was_told_the_schema(project: Path) -> None:
    rig = TurnRig(project, [FITS])
    await ask(rig)

    assert await rig.run() == 1

    assert '"required":["city"]' in rig.model.requests[0].messages[0].content
    assert await rig.bodies(MessageRejected) == []


async def test_an_answer_that_does_not_fit_comes_anew_and_says_why(project: Path) -> None:
    rig = TurnRig(project, [TALKS, FITS])
    await ask(rig)

    assert await rig.run() == 2

    (rejected,) = await rig.bodies(MessageRejected)
    assert isinstance(rejected, MessageRejected)
    assert rejected.problem.startswith("It is not one JSON value")
    said = [(message.role, message.content) for message in rig.model.requests[1].messages[1:]]
    assert said[:2] == [("user", "Which city?"), ("assistant", "It is Rome.")]
    assert said[2][0] == "user"
    assert rejected.problem in said[2][1]


async def test_after_three_answers_that_do_not_fit_the_turn_ends_in_words(project: Path) -> None:
    rig = TurnRig(project, [TALKS] * (MAX_REJECTED + 1))
    await ask(rig)

    with pytest.raises(
        UnfitAnswer, match=r'"main" gave no answer that fits the schema, in 3 tries\. It is not one JSON'
    ):
        await rig.run()

    assert len(await rig.bodies(ModelCallCompleted)) == MAX_REJECTED + 1


async def test_a_turn_that_goes_on_behind_a_rejection_asks_once_more_and_counts_on(project: Path) -> None:
    rig = TurnRig(project, [TALKS, [Fail("provider.unreachable")], TALKS, FITS])
    await ask(rig)
    with pytest.raises(ModelError):
        await rig.run()

    rounds = await rig.run()

    assert rounds == 3
    assert len(await rig.bodies(MessageRejected)) == 2


async def test_other_turns_know_nothing_of_what_was_rejected(project: Path) -> None:
    rig = TurnRig(project, [TALKS, FITS, [Say("Hi."), End()]])
    await ask(rig)
    await rig.run()
    await ask(rig, "Hello?", schema=None, task="t2")

    await rig.run("t2")

    said = [message.content for message in rig.model.requests[2].messages[1:]]
    assert said == ["Which city?", '{"city": "Rome"}', "Hello?"]
    assert "JSON Schema" not in rig.model.requests[2].messages[0].content


async def test_tools_come_first_and_the_schema_holds_for_the_last_answer(project: Path) -> None:
    rig = TurnRig(project, [[Use("current_time", {}), End()], FITS], plan=HOLDS)
    await ask(rig)

    assert await rig.run() == 2

    assert [(bool(request.tools), request.schema) for request in rig.model.requests] == [(True, None), (True, None)]


async def test_a_provider_that_can_is_told_to_hold_the_second_try_to_the_schema(project: Path) -> None:
    rig = TurnRig(project, [TALKS, FITS], plan=HOLDS)
    await ask(rig)

    await rig.run()

    assert [(bool(request.tools), request.schema) for request in rig.model.requests] == [(True, None), (False, SCHEMA)]


async def test_without_tools_it_is_told_so_at_once(project: Path) -> None:
    rig = TurnRig(project, [FITS], plan=HOLDS, tools=())
    await ask(rig)

    await rig.run()

    assert rig.model.requests[0].schema == SCHEMA


async def test_anthropic_is_given_closed_schemas_only(project: Path) -> None:
    chain = Chain((replace(CHOICE, structured=True, driver="anthropic"),))
    rig = TurnRig(project, [FITS, FITS], plan=replace(PLAN, chain=chain), tools=())
    await ask(rig)
    await ask(rig, schema={**SCHEMA, "additionalProperties": False}, task="t2")

    await rig.run()
    await rig.run("t2")

    assert [request.schema is not None for request in rig.model.requests] == [False, True]
    started = [body for body in await rig.bodies(ModelCallStarted) if isinstance(body, ModelCallStarted)]
    assert b'"schema":{' in await rig.blobs.get(started[1].request_blob)


async def test_deepseek_is_given_none_whatever_is_said_of_its_models(project: Path) -> None:
    chain = Chain((replace(CHOICE, structured=True, driver="deepseek"),))
    rig = TurnRig(project, [TALKS, FITS], plan=replace(PLAN, chain=chain))
    await ask(rig)

    await rig.run()

    assert [(bool(request.tools), request.schema) for request in rig.model.requests] == [(True, None)] * 2


async def test_a_provider_that_refuses_the_schema_is_asked_without_it(project: Path) -> None:
    rig = TurnRig(project, [[Fail("provider.bad_request")], TALKS, FITS], plan=HOLDS, tools=())
    await ask(rig)

    assert await rig.run() == 2

    assert [request.schema for request in rig.model.requests] == [SCHEMA, None, None]
    started = [body for body in await rig.bodies(ModelCallStarted) if isinstance(body, ModelCallStarted)]
    assert [(body.round, body.attempt) for body in started] == [(1, 1), (1, 2), (2, 1)]


async def test_what_has_begun_is_not_asked_for_without_it(project: Path) -> None:
    """It would be said, and billed, twice."""
    rig = TurnRig(project, [[Say('{"ci'), Fail("provider.bad_request")]], plan=HOLDS, tools=())
    await ask(rig)

    with pytest.raises(ModelError):
        await rig.run()

    assert len(rig.model.requests) == 1


async def test_a_schema_is_sent_without_what_it_says_of_itself(project: Path) -> None:
    rig = TurnRig(project, [FITS], plan=HOLDS, tools=())
    await ask(rig, schema={"$schema": "https://json-schema.org/draft/2020-12/schema", **SCHEMA})

    await rig.run()

    assert rig.model.requests[0].schema == SCHEMA


async def test_where_nothing_can_be_looked_at_the_turn_says_so_and_rejects_nothing(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    rig = TurnRig(project, [FITS])
    await ask(rig)

    with pytest.raises(Unavailable, match="The process that checks JSON Schemas failed"):
        await rig.run()

    assert await rig.bodies(MessageRejected) == []


async def test_a_provider_that_refuses_it_then_as_well_ends_the_turn(project: Path) -> None:
    rig = TurnRig(project, [[Fail("provider.bad_request")]] * 2, plan=HOLDS, tools=())
    await ask(rig)

    with pytest.raises(ModelError) as failed:
        await rig.run()

    assert (failed.value.code, len(rig.model.requests)) == ("provider.bad_request", 2)


async def test_an_answer_that_was_cut_off_behind_its_text_is_looked_at_by_the_next_gateway(project: Path) -> None:
    rig = TurnRig(project, [TALKS, FITS])
    await ask(rig)
    whole = rig.recorder()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Recorder, "append", until_rejected(whole))
        with pytest.raises(RuntimeError, match="gone"):
            await rig.run()
    assert await rig.bodies(MessageRejected) == []

    assert await rig.run() == 2

    assert len(await rig.bodies(MessageRejected)) == 1
    assert len(await rig.bodies(ModelCallCompleted)) == 2


def until_rejected(recorder: Recorder) -> Callable[..., Awaitable[object]]:
    append = type(recorder).append

    async def appending(self: Recorder, *bodies: EventBody) -> object:
        if isinstance(bodies[0], MessageRejected):
            raise RuntimeError("gone")
        return await append(self, *bodies)

    return appending


async def test_a_turn_without_rounds_left_says_in_what_its_last_answer_does_not_fit(project: Path) -> None:
    rig = TurnRig(project, [TALKS, TALKS], plan=replace(PLAN, limits=Limits(max_rounds=2)))
    await ask(rig)

    with pytest.raises(UnfitAnswer, match=r"in 2 tries\. It is not one JSON value"):
        await rig.run()


async def test_a_blank_answer_is_complained_of_within_the_users_message(project: Path) -> None:
    rig = TurnRig(project, [[Say(" \n"), End()], FITS])
    await ask(rig)

    assert await rig.run() == 2

    said = [(message.role, message.content) for message in rig.model.requests[1].messages[1:]]
    assert [role for role, _ in said] == ["user"]
    assert said[0][1].startswith("Which city?\n\nYour answer does not fit the JSON Schema.")


async def test_a_window_never_begins_at_a_complaint(project: Path) -> None:
    rig = TurnRig(project, [TALKS, TALKS, FITS], plan=replace(PLAN, max_history=2))
    await ask(rig)

    await rig.run()

    assert [request.messages[1].content for request in rig.model.requests] == ["Which city?"] * 3


async def test_a_schema_that_makes_work_without_end_ends_the_turn_in_words(project: Path) -> None:
    endless: JsonObject = {
        "anyOf": [{"type": "array", "minItems": least, "items": {"$ref": "#"}} for least in (2, 3)],
    }
    rig = TurnRig(project, [[Say("[" * 60 + "]" * 60), End()]])
    await ask(rig, schema=endless)

    with pytest.raises(UnfitAnswer, match="that takes too much time or memory"):
        await rig.run()

    assert len(await rig.bodies(MessageCompleted)) == 1
    assert len(await rig.bodies(MessageRejected)) == 1
