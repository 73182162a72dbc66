"""A key that a model quotes is seen and kept nowhere, however its answer is cut into pieces."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ozzie_server_ext.domain.events import MessageCompleted, ModelCallCompleted, ModelCallFailed, Transient
from ozzie_server_ext.domain.redaction import MIN_KNOWN, StreamMask
from ozzie_server_ext.models.driver import ModelError
from ozzie_server_ext.models.scripted import Fail, Say, Step
from tests.unit.agent.rig import TurnRig

KEY = "tr0ub4dor-and-3-horses"
MASK = "[redacted: known secret]"


def pieces(text: str, *cuts: int) -> list[str]:
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    return [text[begin:end] for begin, end in pairwise(places)]


@given(st.lists(st.integers(0, 80), max_size=30), st.text(max_size=12), st.text(max_size=12))
def test_it_is_found_wherever_the_text_is_cut(cuts: list[int], before: str, behind: str) -> None:
    mask = StreamMask([KEY])
    shown = [mask.feed(piece) for piece in pieces(f"{before}{KEY}{behind}", *cuts)]
    assert "".join([*shown, mask.end()]) == f"{before}{MASK}{behind}"


@given(st.text(alphabet="tr0ub4-x", max_size=40), st.lists(st.integers(0, 40), max_size=8))
def test_all_else_is_shown_as_it_is_and_at_once_but_for_what_may_be_its_beginning(text: str, cuts: list[int]) -> None:
    mask, told, seen = StreamMask([KEY]), "", ""
    for piece in pieces(text, *cuts):
        told += piece
        seen += mask.feed(piece)
        assert told.startswith(seen)
        assert KEY.startswith(told[len(seen) :])
    rest = mask.end()
    assert seen + rest == text or (rest == MASK and len(text) - len(seen) >= MIN_KNOWN)


@pytest.mark.parametrize("cuts", [(), (4,), (10, 20, 30), tuple(range(60))], ids=["whole", "two", "four", "letters"])
async def test_it_is_in_no_delta_no_message_and_no_blob(
    project: Path, cuts: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = pieces(f"The key is {KEY}. Keep it safe.", *cuts)
    rig = TurnRig(project, [[Say(piece) for piece in said]])
    rig.parts = replace(rig.parts, known_secrets=lambda: [KEY])
    await rig.ask("Which key do you use?")
    published: list[Transient] = []
    publish = rig.feed.publish
    monkeypatch.setattr(rig.feed, "publish", lambda transient: (published.append(transient), publish(transient)))
    await rig.run()
    shown = ""
    for delta in (each.payload for each in published if each.type == "reply.delta"):
        assert delta["offset"] == len(shown)
        shown += str(delta["content"])
    whole = f"The key is {MASK}. Keep it safe."
    assert shown == whole
    (message,) = await rig.bodies(MessageCompleted)
    assert isinstance(message, MessageCompleted)
    assert message.text == whole
    (called,) = await rig.bodies(ModelCallCompleted)
    assert isinstance(called, ModelCallCompleted)
    kept = (await rig.blobs.get(called.response_blob)).decode()
    assert KEY not in kept
    assert MASK in kept


async def test_half_of_it_is_not_told_either_where_the_answer_broke_off(project: Path) -> None:
    steps: list[Step] = [Say(f"The key is {KEY[:-4]}"), Fail("provider.bad_request")]
    rig = TurnRig(project, [steps])
    rig.parts = replace(rig.parts, known_secrets=lambda: [KEY])
    await rig.ask("Which key do you use?")
    with pytest.raises(ModelError):
        await rig.run()
    (failed,) = await rig.bodies(ModelCallFailed)
    assert isinstance(failed, ModelCallFailed)
    assert failed.partial_blob is not None
    assert json.loads(await rig.blobs.get(failed.partial_blob)) == {"text": f"The key is {MASK}"}
