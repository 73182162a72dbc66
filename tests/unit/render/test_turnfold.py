"""A turn folded from the frames of the feed."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ozzie_server_ext.domain.events import EVENT_CLASSES
from ozzie_server_ext.domain.ids import GATEWAY
from ozzie_server_ext.protocol.frames import NAMES
from ozzie_server_ext.render.console import plain_text
from ozzie_server_ext.render.static import static_bundle, turn_json, turn_markdown
from ozzie_server_ext.render.turnfold import fold, new_turn
from ozzie_server_ext.render.turnview import TextPart, TurnView, WorkPart, about_message
from tests.unit.render.frames import BEGINNING, DONE, END, FIRST, LAST, PUT, START, WORK, Frame, folded, live_html
from tests.unit.render.frames import call as tool_call


def texts(view: TurnView) -> list[str]:
    return [part.text for part in view.parts if isinstance(part, TextPart)]


def delta(reply_id: str, offset: int, content: str) -> Frame:
    return None, "reply.delta", {"reply_id": reply_id, "offset": offset, "phase": "delta", "content": content}


def test_parts_stand_in_the_order_in_which_things_happened():
    view = folded(DONE)
    assert [type(part) for part in view.parts] == [TextPart, WorkPart, TextPart]
    assert texts(view) == [FIRST, LAST]
    assert [row.name for row in view.rows] == ["read_file", "fetch_url"]


def test_a_finished_turn_tells_what_it_used():
    view = folded(DONE)
    assert (view.status, view.alias, view.provider, view.model) == ("Done", "main", "anthropic", "claude-sonnet")
    assert (view.input_tokens, view.output_tokens, view.total_tokens) == (2500, 620, 3120)
    assert (view.cost, view.cost_known) == (21_000_000, True)
    assert view.elapsed_s() == 24


def test_folding_the_same_frames_again_changes_nothing():
    view = folded(DONE)
    for _, name, payload in WORK + END[1:-1]:
        assert fold(view, name, payload, START + timedelta(seconds=99)) == view


def completed(reply_id: str, text: str) -> Frame:
    return 1.0, "message.completed", {"reply_id": reply_id, "text": text, "finish": "stop"}


STARTED: list[Frame] = [(0.0, "task.started", {"attempt": 1})]
REJECTED: list[Frame] = [
    completed("r1", "It is Rome."),
    (1.0, "message.rejected", {"reply_id": "r1", "problem": "It is not one JSON value."}),
    delta("r2", 0, '{"city"'),
    completed("r2", '{"city": "Rome"}'),
]


def test_a_rejected_reply_is_shown_until_the_next_one_takes_its_place():
    seen = [texts(folded([*STARTED, *REJECTED[:length]])) for length in range(1, len(REJECTED) + 1)]
    assert seen == [["It is Rome."], ["It is Rome."], ['{"city"'], ['{"city": "Rome"}']]

    view = folded([*STARTED, *REJECTED[:2]])
    failed = fold(view, "task.failed", {"code": "answer.unfit", "message": "No answer fits.", "hint": ""}, START)
    for text in (plain_text(failed), turn_markdown(failed)):
        assert ("It is Rome." in text, "No answer fits." in text) == (True, True)


def test_a_rejected_reply_that_is_told_again_does_not_come_back():
    view = folded(REJECTED)
    for _, name, payload in REJECTED:
        assert fold(view, name, payload, START) == view


@pytest.mark.parametrize("length", range(len(DONE) + 1))
def test_every_beginning_of_a_turn_can_be_shown(length: int):
    view = folded(DONE[:length])
    assert f"Turn, {view.status}" in live_html(view, START + timedelta(seconds=3))
    assert static_bundle(view)[0]["text/markdown"]
    assert plain_text(view)


def test_frames_of_any_kind_leave_a_turn_that_can_be_shown():
    view = new_turn()
    for name in sorted({kind.type for kind in EVENT_CLASSES} | set(NAMES)):
        view = fold(view, name, {}, START)
        assert live_html(view)
        assert static_bundle(view)[0]["text/plain"]


@given(st.text(max_size=60), st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=8))
def test_deltas_may_be_sent_again_and_may_overlap(text: str, spans: list[tuple[int, int]]):
    reached, frames = 0, []
    for first, second in spans:
        start, end = min(first, second, reached), min(max(first, second), len(text))
        frames.append(delta("r", start, text[start:end]))
        reached = max(reached, end)
    frames.append(delta("r", reached, text[reached:]))
    shown = texts(folded(frames))
    assert shown == ([text] if text else [])


def test_a_gap_is_shown_as_it_came_until_the_final_text_fills_it():
    frames = [delta("r", 0, "one "), delta("r", 8, "three")]
    assert texts(folded(frames)) == ["one three"]
    final: Frame = (1, "message.completed", {"reply_id": "r", "text": "one two three", "finish": "stop"})
    assert texts(folded([*frames, final])) == ["one two three"]


def test_the_whole_text_sent_to_a_late_joiner_fills_a_gap():
    assert texts(folded([delta("r", 8, "three"), delta("r", 0, "one two three")])) == ["one two three"]


def test_a_reset_empties_its_reply_and_leaves_its_place():
    reset: Frame = (None, "reply.reset", {"reply_id": "r2"})
    view = folded([*BEGINNING, *WORK, *END[:2], reset, delta("r2", 0, "Anew.")])
    assert texts(view) == [FIRST, "Anew."]
    assert isinstance(view.parts[1], WorkPart)


def test_a_late_delta_does_not_touch_a_completed_reply():
    assert texts(folded([*DONE, delta("r2", 0, "x" * 200)])) == [FIRST, LAST]


def test_a_stopped_turn_keeps_its_text_and_says_who_stopped_it():
    view = folded([*BEGINNING, (3, "task.cancelled", {"by": "user", "reason": "interrupt"})])
    assert (view.status, view.closing, texts(view)) == ("Stopped", "Stopped here by you.", [FIRST])


def test_a_call_that_was_running_when_the_turn_was_stopped_is_named():
    frames = [*BEGINNING, *WORK[:-1], (3.0, "task.cancelled", {"by": "user", "reason": ""})]
    view = folded(frames)
    assert view.closing == "Stopped here by you. fetch_url was cancelled."
    assert [row.state for row in view.rows] == ["done", "cancelled"]


def test_a_stop_by_ozzie_itself_is_not_put_on_the_user():
    reason = "The run that it was part of has ended."
    view = folded([*BEGINNING, (3, "task.cancelled", {"by": GATEWAY, "reason": reason})])
    assert view.closing == f"Stopped here: {reason}"


def test_the_cost_of_a_call_that_was_cut_off_is_not_known():
    view = folded([*BEGINNING, (3, "task.cancelled", {"by": "user", "reason": ""})])
    assert view.cost_known is False
    assert "cost unknown" in live_html(view)
    assert "$" not in plain_text(view)


def test_a_refused_call_cost_nothing():
    failed: Frame = (1, "model.call.failed", {"call_id": "m1", "code": "model.key", "message": "no", "latency_ms": 1})
    error: Frame = (1, "task.failed", {"kind": "model", "code": "model.key", "message": "No.", "hint": "Do."})
    view = folded([*BEGINNING[:4], failed, error])
    assert (view.status, view.cost, view.cost_known) == ("Failed", 0, True)
    assert plain_text(view).endswith("[failed] 1.0 s, 0 tokens, $0.00")


def test_an_unknown_price_makes_the_cost_unknown_and_never_zero():
    unpriced: Frame = (2, "model.call.completed", {"call_id": "m1", "usage": {"input_tokens": 1}, "cost": None})
    view = folded([*BEGINNING, unpriced, (2, "task.succeeded", {"rounds": 1})])
    assert "cost unknown" in static_bundle(view)[0]["text/markdown"]
    assert static_bundle(view)[0]["application/vnd.ozzie.turn+json"]["cost"] is None


def test_time_spent_waiting_for_a_person_is_not_counted():
    waiting: list[Frame] = [
        (4, "task.waiting_approval", {"approval_id": "a"}),
        (14, "task.resumed", {"by": "ana"}),
        (15, "task.succeeded", {"rounds": 1}),
    ]
    assert folded([*BEGINNING, *waiting[:1]]).elapsed_s(START + timedelta(seconds=9)) == 4
    assert folded([*BEGINNING, *waiting]).elapsed_s() == 5


def test_a_recovered_turn_says_so_while_it_runs():
    again: list[Frame] = [
        (5, "task.queued", {"reason": "recovered"}),
        (5, "task.started", {"attempt": 2, "epoch": "f"}),
    ]
    view = folded([*BEGINNING, *again])
    assert (view.status, view.recoveries) == ("Working", 1)
    assert "continued after a restart" in live_html(view)
    done = folded([*BEGINNING, *again, (6, "task.succeeded", {"rounds": 1})])
    assert "Ozzie: Done · continued after a restart" in static_bundle(done)[0]["text/markdown"]


def test_a_turn_that_is_asked_to_stop_says_so_until_it_has():
    asked = folded([*BEGINNING, (3, "task.stopping", {"by": "ana", "reason": ""})])
    assert "stopping" in live_html(asked)
    late = fold(folded([*BEGINNING, (3, "task.cancelled", {"by": "ana"})]), "task.stopping", {"by": "ana"}, START)
    assert "stopping" not in live_html(late)


def test_what_an_interrupted_call_cost_is_not_known():
    failed = {"call_id": "c", "code": "interrupted", "message": "", "latency_ms": None, "partial_blob": None}
    again: list[Frame] = [
        (2, "model.call.started", {"call_id": "c"}),
        (5, "model.call.failed", failed),
        (6, "task.succeeded", {"rounds": 1}),
    ]
    assert not folded([*BEGINNING, *again]).cost_known


@pytest.mark.parametrize(
    ("event", "payload", "state", "result"),
    [
        ("tool.call.decided", {"decision": "DENY", "reason": "outside it"}, "denied", "Not allowed: outside it"),
        ("tool.call.decided", {"decision": "ASK", "reason": ""}, "waiting", "Waiting for your answer"),
        ("tool.call.started", {}, "running", ""),
        ("tool.call.failed", {"message": "Timed out after 10 s."}, "failed", "Timed out after 10 s"),
        ("tool.call.completed", {"ok": False, "data": {"error": {"message": "No file."}}}, "failed", "No file"),
        ("tool.call.cancelled", {"reason": "no longer needed"}, "cancelled", "Cancelled: no longer needed"),
        ("tool.call.uncertain", {}, "unknown", "May or may not have happened"),
    ],
)
def test_a_row_says_how_its_call_stands(event: str, payload: dict[str, object], state: str, result: str):
    asked: Frame = (2, "tool.call.requested", {"call_id": "t", "name": "tool", "args": {}})
    row = folded([*BEGINNING, asked, (3, event, {"call_id": "t", **payload})]).rows[0]
    assert (row.state, row.result) == (state, result)


@pytest.mark.parametrize(
    ("args", "shown"),
    [
        ({}, ""),
        ({"text": "x", "path": "a/b.md"}, "a/b.md"),
        ({"url": "https://example.org/list?q=1"}, "example.org/list?q=1"),
        ({"expression": "0.175*2480"}, "0.175*2480"),
        ({"limit": 3}, '{"limit": 3}'),
        ({"path": "a/" + "b" * 100 + "/c.md"}, "a/" + "b" * 37 + "…" + "b" * 35 + "/c.md"),
        ({"path": "a\u202egnp.exe\n\x1b[2J"}, "a\\u202egnp.exe \\u001b[2J"),
        ({"argv": ["git", "commit", "-m", "two words\u202e"], "folder": "."}, "git commit -m 'two words\\u202e'"),
    ],
)
def test_a_row_shows_the_argument_that_says_most(args: dict[str, object], shown: str):
    row = folded([(2, "tool.call.requested", {"call_id": "t", "name": "tool", "args": args})]).rows[0]
    assert row.argument == shown
    assert len(row.argument) <= 80


def test_what_a_turn_waits_for_is_told_until_its_text_begins():
    waiting = fold(fold(new_turn(), "task.started", {"attempt": 1}, START), "task.progress", {"step": "starting it"})
    begun = fold(waiting, *delta("r", 0, "Hi")[1:])
    assert "starting it" in live_html(waiting)
    assert begun.step == ""


def test_after_a_gateway_stopped_in_order_what_it_cut_off_is_dropped_too():
    view = fold(new_turn(), "message.completed", {"reply_id": "a", "text": "whole", "finish": "tool_calls"})
    for call, end in (("t", "tool.call.completed"), ("u", "tool.call.cancelled")):
        view = fold(view, "tool.call.requested", {"call_id": call, "name": call, "args": {}})
        view = fold(view, end, {"call_id": call, "ok": True, "data": 1, "reason": "The turn was stopped."})
    view = fold(view, "message.completed", {"reply_id": "b", "text": "ha", "finish": "cancelled"})

    recovered = fold(view, "task.queued", {"reason": "recovered"})

    assert texts(view) == ["whole", "ha"]
    assert texts(recovered) == ["whole"]
    assert [row.name for row in recovered.rows] == ["t"]


def a_turn_in_doubt() -> TurnView:
    """Its call was begun with a key, and cut off by a gateway's end."""
    view = fold(new_turn(), "tool.call.requested", {"call_id": "t", "name": "pay", "args": {}})
    view = fold(view, "tool.call.started", {"call_id": "t"})
    view = fold(view, "tool.call.uncertain", {"call_id": "t", "reason": "It was cut off.", "again": True})
    return fold(view, "task.queued", {"reason": "recovered"})


def test_a_call_in_doubt_is_seen_beside_the_one_that_is_made_in_its_place():
    view = fold(a_turn_in_doubt(), "tool.call.requested", {"call_id": "u", "name": "pay", "args": {}})
    view = fold(view, "tool.call.completed", {"call_id": "u", "ok": True, "summary": "paid"})
    view = fold(view, "task.succeeded", {})
    assert [(row.state, row.result) for row in view.rows] == [
        ("unknown", "May or may not have happened"),
        ("done", "paid"),
    ]


def test_a_call_in_doubt_whose_turn_is_stopped_before_it_is_made_again_stays_in_doubt():
    view = fold(a_turn_in_doubt(), "task.cancelled", {"by": "ann", "reason": ""})
    assert [row.state for row in view.rows] == ["unknown"]
    assert view.closing == "Stopped here by you."
    assert "May or may not have happened" in turn_markdown(view)


def test_after_a_restart_the_half_said_is_dropped_and_the_finished_kept():
    view = fold(new_turn(), "message.completed", {"reply_id": "a", "text": "whole", "finish": "tool_calls"})
    view = fold(view, *delta("b", 0, "ha")[1:])
    recovered = fold(view, "task.queued", {"reason": "recovered"})
    assert texts(recovered) == ["whole"]
    assert recovered.recoveries == 1


@pytest.mark.parametrize(
    ("count", "absent", "words"),
    [
        (1, (), "With 1.png."),
        (2, (), "With 1.png and 2.png."),
        (4, (), "With 1.png, 2.png, 3.png and 4.png."),
        (7, ("x.png",), "With 1.png, 2.png, 3.png and 4 more. There is no x.png."),
        (0, ("x.png", "y.png"), "There is no x.png or y.png."),
        (
            0,
            (f"{'long/' * 20}x.png",),
            f"There is no …{('long/' * 20)[-54:]}x.png.",
        ),
    ],
)
def test_the_pictures_of_a_message_are_named_in_every_form(count: int, absent: tuple[str, ...], words: str) -> None:
    named = [{"path": f"{number}.png", "media_type": "image/png"} for number in range(1, count + 1)]
    view = fold(new_turn(), "message.received", {"text": "look", "pictures": named, "absent": absent})
    view = fold(view, "task.succeeded", {})

    assert about_message(view) == words
    assert f'<p class="oz-note">{words}</p>' in live_html(view)
    assert f"<sub>{words}</sub>" in turn_markdown(view)
    assert " ".join(plain_text(view).split("\n")[1:-1]) == words


def test_a_message_without_pictures_has_no_word_of_them() -> None:
    view = fold(fold(new_turn(), "message.received", {"text": "look"}), "task.succeeded", {})

    assert about_message(view) == ""
    assert 'class="oz-note"' not in live_html(view)
    assert turn_markdown(view).count("<sub>") == 1
    assert len(plain_text(view).split("\n")) == 2


def test_a_row_whose_result_was_too_large_says_where_the_whole_is():
    told = [
        *BEGINNING,
        *tool_call("c1", "read_file", {"path": "a"}, 1, duration_ms=5, summary="64 lines", artifacts=["01A"]),
        *tool_call("c2", "read_file", {"path": "b"}, 2, duration_ms=5, summary="64 lines"),
    ]

    view = folded(told)
    large, small = view.rows

    assert (large.result, large.artifacts) == ("64 lines", ("01A",))
    assert large.detail == "64 lines. In whole: ozzie artifacts get 01A"
    assert (small.result, small.detail, small.artifacts) == ("64 lines", "64 lines", ())
    assert f'title="{large.detail}"' in live_html(view)
    assert [row.get("artifacts") for row in turn_json(view)["parts"][-1]["rows"]] == [["01A"], None]


def test_a_call_that_hands_over_to_a_skill_is_a_row_with_the_skills_name():
    args = {"question": "Who grows tea?"}
    asked = {"call_id": "a", "tool_id": "delegate.researcher", "name": "skill_researcher", "args": args}
    other = {"call_id": "b", "tool_id": "notes.read", "name": "skill_note", "args": {}}
    view = folded([*BEGINNING, (1, "tool.call.requested", asked), (1, "tool.call.requested", other)])

    assert [row.name for row in view.rows] == ["researcher", "skill_note"]


OF_SERVER: list[Frame] = [
    *BEGINNING,
    *tool_call("t1", "trips__book", {}, 2, duration_ms=1)[:-1],
    (3, "prompt.requested", {**PUT[0][2], "kind": "server"}),
]
"""A server asks during its call, and the turn goes on."""


def test_a_call_waits_for_a_person_while_its_server_asks_and_then_goes_on():
    asked, answered = folded(OF_SERVER), folded([*OF_SERVER, (4, "prompt.answered", {"prompt_id": "p2", "by": "Ana"})])

    assert asked.question is not None
    assert [row.state for row in asked.rows] == ["waiting"]
    assert answered.question is None
    assert [row.state for row in answered.rows] == ["running"]


def test_a_servers_question_is_gone_once_its_call_was_cut_off():
    assert folded([*OF_SERVER, (9, "task.queued", {"reason": "recovered"})]).question is None
