"""Which pictures a request shows."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from ozzie_server_ext.agent.entries import with_latest_pictures
from ozzie_server_ext.domain.budget import tokens_in
from ozzie_server_ext.domain.events import MessageReceived, ModelCallStarted, Origin
from ozzie_server_ext.domain.ids import BlobRef, MessageId
from ozzie_server_ext.domain.messages import MAX_PICTURE_BYTES, MAX_PICTURES, MAX_SHOWN_BYTES, PICTURE_TOKENS, Picture
from ozzie_server_ext.models.chain import Chain
from ozzie_server_ext.models.driver import ChatMessage, ModelError
from ozzie_server_ext.models.scripted import End, Fail, Say
from tests.unit.agent.rig import CHOICE, PLAN, TurnRig

BLIND = replace(CHOICE, provider="blind", sees=False, in_chain=True)
SEEING = replace(CHOICE, provider="seeing", in_chain=True)


def picture(name: str, size: int = 100) -> Picture:
    return Picture(path=name, ref=BlobRef(f"sha256:{name.encode().hex():0>64}"), media_type="image/png", size=size)


def user(text: str, *pictures: Picture) -> ChatMessage:
    return ChatMessage(role="user", content=text, pictures=pictures)


async def ask(rig: TurnRig, text: str, *pictures: Picture, task: str = "t1") -> None:
    message = MessageReceived(
        message_id=MessageId(rig.ids.new()), text=text, origin=Origin(channel="test"), pictures=pictures
    )
    await rig.record(message, task=task)


def test_a_conversation_without_pictures_stays_as_it_is() -> None:
    messages = (user("hi"), ChatMessage(role="assistant", content="hello"))

    assert with_latest_pictures(messages, sees=True) == messages


def test_the_latest_pictures_are_shown_and_earlier_ones_named() -> None:
    half = MAX_SHOWN_BYTES // 2
    messages = (
        user("a", picture("a.png", 1)),
        user("b", picture("b.png", half + 1)),
        user("c", picture("c.png", half)),
        user("d", picture("c.png", half)),
    )

    first, second, third, fourth = with_latest_pictures(messages, sees=True)

    assert first == user("a\n\n[The picture a.png was shown with this message, and is not shown again.]")
    assert second == user("b\n\n[The picture b.png was shown with this message, and is not shown again.]")
    assert third == user("c\n\n[The picture c.png belongs to this message, too, and is shown below.]")
    assert fourth == messages[3]
    assert MAX_SHOWN_BYTES >= 2 * MAX_PICTURE_BYTES


def test_no_request_shows_more_pictures_than_providers_take() -> None:
    messages = [user(str(number), picture(f"{number}.png", 1)) for number in range(MAX_PICTURES + 5)]

    shown = [len(message.pictures) for message in with_latest_pictures(messages, sees=True)]

    assert shown == [0] * 5 + [1] * MAX_PICTURES


def test_a_model_that_can_not_see_is_told_of_each() -> None:
    (told,) = with_latest_pictures([user("a", picture("a.png"), picture("b.png"))], sees=False)

    assert told.pictures == ()
    assert "a.png belongs to this message; you can't see it" in told.content
    assert "b.png belongs to this message; you can't see it" in told.content


async def test_a_request_names_its_pictures_by_their_content_and_reserves_for_them(project: Path) -> None:
    rig = TurnRig(project, [[Say("Red."), End()], [Say("Still red."), End()]])
    await ask(rig, "What is @a.png?", picture("a.png"))
    await rig.run()
    await ask(rig, "And now?", task="t2")
    await rig.run("t2")

    for request in rig.model.requests:
        assert request.messages[1].pictures == (picture("a.png"),)
    started, _ = [body for body in await rig.bodies(ModelCallStarted) if isinstance(body, ModelCallStarted)]
    document = await rig.blobs.get(started.request_blob)
    told = json.loads(document)["messages"][1]
    assert told["pictures"] == [{"path": "a.png", "ref": picture("a.png").ref, "media_type": "image/png"}]
    assert started.reserved_tokens == tokens_in(document) + PICTURE_TOKENS + (CHOICE.max_tokens or 0)


async def test_a_message_with_a_picture_is_not_answered_unseen(project: Path) -> None:
    rig = TurnRig(project, [], plan=replace(PLAN, chain=Chain((replace(BLIND, in_chain=False),))))
    await ask(rig, "What is @a.png?", picture("a.png"))

    with pytest.raises(ModelError) as failed:
        await rig.run()

    assert str(failed.value) == '"main" (m-1) can\'t be shown pictures.'
    assert "without the @" in failed.value.hint
    assert await rig.types() == ["message.received"], "nobody was asked, and nothing is paid"


async def test_the_next_of_a_chain_that_can_see_answers_instead_at_once(project: Path) -> None:
    dear = replace(SEEING, provider="dear")
    chain = Chain((BLIND, SEEING), stronger=(dear,), wanted="blind")
    rig = TurnRig(project, [[Say("Red."), End()]], plan=replace(PLAN, chain=chain))
    rig.parts.health.failed("blind", "provider.rate_limited", for_s=50.0, requested=True)  # nobody waits for it
    await ask(rig, "What is @a.png?", picture("a.png"))

    await rig.run()

    (started,) = [body for body in await rig.bodies(ModelCallStarted) if isinstance(body, ModelCallStarted)]
    assert (started.provider, started.attempt, started.instead_of) == ("seeing", 1, "blind")


async def test_where_the_only_one_that_sees_is_gone_its_error_is_told(project: Path) -> None:
    script = [[Fail("provider.unreachable")]]
    rig = TurnRig(project, script, plan=replace(PLAN, chain=Chain((BLIND, SEEING), wanted="blind")))
    await ask(rig, "What is @a.png?", picture("a.png"))

    with pytest.raises(ModelError) as failed:
        await rig.run()

    assert failed.value.code == "provider.unreachable"


async def test_a_picture_that_nobody_answered_is_not_shown_to_later_turns(project: Path) -> None:
    rig = TurnRig(project, [[Fail("provider.bad_request")], [Say("Hi."), End()]])
    await ask(rig, "What is @bad.png?", picture("bad.png"))
    with pytest.raises(ModelError):
        await rig.run()
    await ask(rig, "Forget it.", task="t2")

    await rig.run("t2")

    assert rig.model.requests[0].pictures == (picture("bad.png"),)
    assert rig.model.requests[1].pictures == ()
    assert "bad.png belongs to this message, and is not shown" in rig.model.requests[1].messages[1].content


async def test_a_picture_that_is_not_there_is_told_to_the_model(project: Path) -> None:
    rig = TurnRig(project, [[Say("There is none."), End()]])
    message = MessageReceived(
        message_id=MessageId(rig.ids.new()), text="@gone.png?", origin=Origin(channel="test"), absent=("gone.png",)
    )
    await rig.record(message)

    await rig.run()

    assert rig.model.requests[0].messages[1].content == "@gone.png?\n\n[The picture gone.png does not exist.]"


async def test_a_later_message_may_be_answered_by_who_can_not_see(project: Path) -> None:
    rig = TurnRig(project, [[Say("Red."), End()], [Say("I can't see it."), End()]])
    await ask(rig, "What is @a.png?", picture("a.png"))
    await rig.run()
    await ask(rig, "And in words?", task="t2")

    await rig.run("t2", chain=Chain((BLIND,)))

    assert "you can't see it" in rig.model.requests[1].messages[1].content
    assert rig.model.requests[1].pictures == ()
