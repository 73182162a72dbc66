"""Approvals in the views of a turn."""

from typing import Any

import pytest

from ozzie_server_ext.render.console import ConsoleWriter, approval_lines, detail_lines, plain_text
from ozzie_server_ext.render.questions import (
    SHOWN_LINES,
    pending_approval_of,
    target_lines,
    ways_to_answer,
    why_asked,
)
from ozzie_server_ext.render.static import turn_json, turn_markdown
from ozzie_server_ext.render.text import LINE_WIDTH, columns
from ozzie_server_ext.render.turnview import unresolved
from tests.unit.render.frames import (
    BEGINNING,
    GRANTED,
    PUT,
    START,
    Frame,
    approval,
    call,
    folded,
    live_html,
    target,
    waiting,
)

REJECTED: list[Frame] = [
    (24, "approval.rejected", {"approval_id": "01APPROVAL", "comment": "no", "by": "Ana", "way": "cli"}),
    (24, "tool.call.failed", {"call_id": "c9", "code": "approval.rejected", "message": 'Rejected by Ana: "no"'}),
    (24, "task.resumed", {"by": "Ana"}),
    (24, "task.queued", {"reason": "answered"}),
]
EXPIRED: Frame = (600, "approval.expired", {"approval_id": "01APPROVAL", "why": "time"})


def test_a_waiting_turn_says_what_is_asked_why_and_what_would_happen() -> None:
    html = live_html(folded(waiting()), START)

    assert "Waiting for you" in html
    assert "1 approval" in html
    assert "Change 2 lines of <code>notes/suppliers.md</code>?" in html
    assert "Ozzie asks because it changes something of yours." in html
    assert '<span class="oz-line oz-plus">+| 4.35 |\n</span>' in html
    assert '<span class="oz-line oz-minus">-| 3.85 |\n</span>' in html
    assert "It can be undone: the old version is kept among the artifacts." in html
    assert "For this session: <code>edit_file</code> in <code>notes/</code>" in html
    assert "<code>ozzie approvals approve 01APPROVAL --session</code>" in html
    assert "Expires in 10:00" in html


def test_a_yes_lets_the_same_row_go_on_and_says_who_gave_it() -> None:
    view = folded([*waiting(), *GRANTED])

    (row,) = view.rows
    assert (row.name, row.state, row.result) == ("edit_file", "done", "+1 −1 lines")
    assert row.approved.startswith("approved once by Ana, ")
    assert view.asked == ()
    assert view.waited_s == 21.0


@pytest.mark.parametrize(
    ("asked", "answer", "told"),
    [
        (waiting(), GRANTED[0], ("01APPROVAL", "Ana approved it at {}")),
        (waiting(), REJECTED[0], ("01APPROVAL", "Ana rejected it at {}")),
        (
            [*BEGINNING, *PUT],
            (24, "prompt.answered", {"prompt_id": "p2", "option": "1", "by": "A\u202ena"}),
            ("p2", "A\\u202ena at {}"),
        ),
    ],
)
def test_who_answered_and_when_is_known(asked: list[Frame], answer: Frame, told: tuple[str, str]) -> None:
    key, words = told
    view = folded([*asked, answer, answer, (30, "task.cancelled", {"by": "Ana", "reason": ""})])

    assert view.answers == ((key, words.format(f"{START.astimezone():%H:%M}")),)


def test_the_saved_form_names_the_yes_above_the_call() -> None:
    view = folded([*waiting(), *GRANTED, (25, "task.succeeded", {"rounds": 2})])

    lines = turn_markdown(view).splitlines()
    (at,) = [index for index, line in enumerate(lines) if line.startswith("| approval |")]
    assert "approved once by Ana" in lines[at]
    assert "`edit_file`" in lines[at + 1]
    assert "1 step: edit_file (0.0 s, 1 approval)" in turn_markdown(view)
    (work,) = [part for part in turn_json(view)["parts"] if part["type"] == "work"]
    assert work["rows"][0]["approved"].startswith("approved once by Ana")


def test_a_call_under_a_yes_for_the_session_says_so() -> None:
    view = folded(
        [
            *waiting()[:-2],
            (4, "tool.call.started", {"call_id": "c9", "approval_id": "01BEFORE"}),
            (5, "tool.call.completed", {"call_id": "c9", "ok": True, "summary": "done", "duration_ms": 1.0}),
        ]
    )

    assert [row.approved for row in view.rows] == ["approved for the session"]


def test_a_no_ends_the_row_with_the_comment_and_asks_no_more() -> None:
    view = folded([*waiting(), *REJECTED])

    (row,) = view.rows
    assert (row.state, row.result) == ("denied", 'Rejected by Ana: "no"')
    assert view.asked == ()


def test_what_expired_stays_and_can_be_asked_anew() -> None:
    view = folded([*waiting(), EXPIRED])

    html = live_html(view, START)
    assert "Nothing was done." in html
    assert "ozzie approvals renew 01APPROVAL" in html
    assert "ozzie approvals approve" not in html
    assert "1 approval" not in html
    again = folded([*waiting(), EXPIRED, (700, "approval.requested", approval(approval_id="01SECOND"))])
    assert [each.approval_id for each in again.asked] == ["01SECOND"]


def test_a_changed_request_takes_the_place_of_the_one_before() -> None:
    changed: Frame = (5, "approval.expired", {"approval_id": "01APPROVAL", "why": "changed"})
    view = folded([*waiting(), changed, (5, "approval.requested", approval(approval_id="01SECOND", proof="+new"))])

    assert [(each.approval_id, each.proof) for each in view.asked] == [("01SECOND", ("+new",))]


@pytest.mark.parametrize("end", ["task.cancelled", "task.failed"])
def test_a_turn_that_ended_asks_for_nothing(end: str) -> None:
    view = folded([*waiting(), (9, end, {"by": "you", "message": "No.", "code": "x", "hint": ""})])

    assert view.asked == ()
    assert "Approval needed" not in live_html(view, START)


def test_what_cannot_be_undone_is_shown_whole_and_not_offered_for_the_session() -> None:
    proof = "\n".join(f"+line {number}" for number in range(SHOWN_LINES + 8))
    usual = pending_approval_of(approval(proof=proof))
    grave = pending_approval_of(approval(proof=proof, side_effect="irreversible", cover=None, needs="cli"))

    assert len(usual.shown) == SHOWN_LINES
    assert usual.hidden == "8 more lines: ozzie approvals show 01APPROVAL"
    assert (grave.shown, grave.hidden, grave.by_kernel) == (grave.proof, "", False)
    html = live_html(folded(waiting(proof=proof, side_effect="irreversible", cover=None)), START)
    assert "It can&#x27;t be undone." in html
    assert "Each such call asks." in html
    assert "--session" not in html


def test_nothing_in_a_request_hides_or_reorders_what_is_asked() -> None:
    asked = pending_approval_of(
        approval(sentence="Change `a\u202egnp.exe`?", proof="+ok\u202e\x1b[2Jb\u200bad", reason="It\x1b[1m is.")
    )

    assert asked.sentence == "Change `a\\u202egnp.exe`?"
    assert asked.proof == ("+ok\\u202e\\u001b[2Jb\\u200bad",)
    assert "\x1b" not in why_asked(asked)
    html = live_html(folded(waiting(proof="+<img src=x onerror=alert(1)>", sentence="<b>?</b>")), START)
    assert "<img" not in html
    assert "<b>?" not in html


@pytest.mark.parametrize(
    ("changed", "worst"),
    [
        ({"undo": "", "side_effect": ""}, "Whether it can be undone is not known."),
        ({"undo": ""}, "It can be undone; how is not known."),
        ({"side_effect": "none"}, "It changes nothing."),
        ({"side_effect": "irreversible", "undo": ""}, "It can't be undone."),
        ({"side_effect": "irreversible", "undo": "", "rule": "floor.irreversible", "place": ""}, ""),
        (
            {"side_effect": "irreversible", "undo": "", "rule": "floor.irreversible", "place": "p"},
            "It can't be undone.",
        ),
        ({"side_effect": "irreversible", "undo": "Write again."}, "It can't be undone. Write again."),
        ({"side_effect": "irreversible", "undo": "", "risk_level": "high"}, "It can't be undone. Its risk is high."),
        (
            {"undo": "", "risk_level": "high", "rule": "floor.high_risk", "place": ""},
            "It can be undone; how is not known.",
        ),
    ],
)
def test_what_may_become_of_it_is_said_once(changed: dict[str, str], worst: str) -> None:
    assert pending_approval_of(approval(**changed)).worst == worst


def test_where_the_names_stand_is_said_below_them() -> None:
    told = "evil@evil.example comes from web content (evil.example)."
    asked = pending_approval_of(approval(known_from=told))

    assert told in live_html(folded(waiting(known_from=told)), START)
    assert told in " ".join(line.strip() for line in approval_lines(asked, START))


def test_a_console_shows_all_of_what_would_happen_within_its_width() -> None:
    asked = pending_approval_of(approval(proof="+" + "x" * 200 + " the end"))

    lines = approval_lines(asked, START)

    assert lines[1] == "Approval needed (expires in 10 min)"
    assert "  Change 2 lines of notes/suppliers.md?" in lines
    assert all(columns(line) <= LINE_WIDTH for line in lines)
    assert "".join(line[4:] for line in lines).endswith("x the end")
    assert all(columns(line) <= LINE_WIDTH for line in detail_lines(asked))


def test_a_console_prints_a_request_once_and_the_row_when_it_is_done() -> None:
    writer = ConsoleWriter()
    writer.update(folded(waiting()), START)
    first = writer.asks(folded(waiting()), START)
    again = writer.asks(folded(waiting()), START)
    end = writer.update(folded([*waiting(), *GRANTED]), START)

    assert first.count("Approval needed") == 1
    assert "ozzie approvals approve 01APPROVAL" in first
    assert again == ""
    assert end.splitlines()[-1].startswith("  edit_file")
    assert "ozzie approvals approve" in plain_text(folded(waiting()))


def test_every_answer_has_its_command() -> None:
    names = [name for name, _ in ways_to_answer(pending_approval_of(approval()))]

    assert names == ["Approve once", "Approve for this session", "Reject"]
    assert [name for name, _ in ways_to_answer(pending_approval_of(approval(cover=None)))] == ["Approve once", "Reject"]


def test_where_a_yes_has_to_come_from_the_page_no_command_is_offered_that_would_be_refused() -> None:
    asked = pending_approval_of(approval(needs="browser"))
    html, text = live_html(folded(waiting(needs="browser")), START), plain_text(folded(waiting(needs="browser")))

    assert [name for name, _ in ways_to_answer(asked)] == ["Reject"]
    assert (asked.by_kernel, asked.in_page) == (False, True)
    for shown in (html, text):
        assert "A yes has to come from the page" in " ".join(shown.split())
        assert "approvals reject" in shown
        assert "approvals approve" not in shown
    assert "from the page" not in live_html(folded(waiting()), START)


@pytest.mark.parametrize(
    ("code", "state", "told"),
    [
        ("approval.rejected", "denied", "write_file not allowed"),
        ("policy.unattended", "denied", "write_file not allowed"),
        ("tool.failed", "failed", "write_file failed"),
    ],
)
def test_what_nobody_allowed_is_told_apart_from_what_failed(code: str, state: str, told: str) -> None:
    failed = (3, "tool.call.failed", {"call_id": "t1", "code": code, "message": "It was not to be."})
    view = folded([*BEGINNING, *call("t1", "write_file", {"path": "a.md"}, 2.0, duration_ms=1)[:2], failed])

    assert [row.state for row in view.rows] == [state]
    assert unresolved(view.rows) == [told]


# --- a second model ------------------------------------------------------------------------------------------

DECIDED: Frame = (3, "tool.call.decided", {"call_id": "c9", "decision": "CHECK", "rule": "mine", "reason": ""})
YES = {"approval_id": "01APPROVAL", "extent": "once", "by": "cheap (model)", "way": "model"}


def checked(*more: Frame, **changed: object) -> list[Frame]:
    """A turn whose call a rule has checked, up to what asks for it."""
    asking: list[Frame] = [DECIDED if frame[1] == "tool.call.decided" else frame for frame in waiting(**changed)[:-1]]
    return [*asking, *more]


def test_what_a_second_model_allows_asks_nobody_at_any_moment_and_its_row_says_who_did() -> None:
    frames = checked((3, "approval.granted", YES), *GRANTED[-2:], needs="model")
    for end in range(len(frames) + 1):
        view = folded(frames[:end])
        assert view.asked == ()
        assert "Approval needed" not in live_html(view, START)

    (row,) = folded(frames).rows
    assert row.state == "done"
    assert row.approved.startswith("approved by a second model (cheap), ")


def test_where_a_second_model_does_not_a_person_reads_why_below_the_reason() -> None:
    said = 'A second model advises against it: "<b>No</b>"'
    view = folded(checked((3, "task.waiting_approval", {"approval_id": "01APPROVAL"}), checked=said))

    assert [row.state for row in view.rows] == ["waiting"]
    html = live_html(view, START)
    assert html.index("Ozzie asks because") < html.index("A second model advises") < html.index('class="oz-proof"')
    assert "<b>No" not in html
    lines = approval_lines(view.asked[0], START)
    assert f"  {said}" in lines


def test_a_check_counts_and_is_not_who_answers() -> None:
    started = {"call_id": "k1", "alias": "cheap", "provider": "second", "model": "m-2", "purpose": "check"}
    ended = {"call_id": "k1", "usage": {"input_tokens": 9, "output_tokens": 1}, "cost": 5}
    before = folded(checked(needs="model"))
    view = folded(checked((3, "model.call.started", started), (3, "model.call.completed", ended), needs="model"))

    assert (view.alias, view.provider, view.model) == (before.alias, before.provider, before.model)
    assert (view.cost, view.total_tokens) == (before.cost + 5, before.total_tokens + 10)
    assert "k1" not in view.open_calls


# --- what a call names


@pytest.mark.parametrize(
    ("targets", "lines"),
    [
        ([], []),
        (
            [target("recipient", "to", "a@x.example", "b@x.example"), target("amount", "amount", "120.00 EUR")],
            [("To", "a@x.example, b@x.example"), ("Amount", "120.00 EUR")],
        ),
        (
            [target("recipient", "to", "a@x.example"), target("recipient", "bcc", "b@x.example")],
            [("To", "a@x.example"), ("To (bcc)", "b@x.example")],
        ),
        ([target("account", "iban", '"AT62"', is_read=False)], [("Account", '"AT62" (can\'t be read)')]),
        (
            [target("recipient", "to", "a@xn--x", written='"a@\u0456"')],
            [("To", 'a@xn--x (written "a@\u0456")')],
        ),
        ([target("person", "who", '"Ben"', more=1200)], [("Person", '"Ben" and 1,200 more (CMD)')]),
        ([target("object", "id", more=1)], [("Object", "too long to be shown here (CMD)")]),
        ([target("channel", "in", '"a"'), target("calendar", "of", '"b"')], [("Channel", '"a"'), ("Calendar", '"b"')]),
    ],
)
def test_what_a_call_names_is_a_line_for_each_argument(
    targets: list[dict[str, Any]], lines: list[tuple[str, str]]
) -> None:
    assert list(target_lines(targets, rest_at="CMD")) == lines


TARGETS = [target("recipient", "to", "ben@firm.example", "ana@firm.example"), target("account", "account", "AT61")]


def test_what_a_call_names_stands_directly_below_the_question() -> None:
    asked = pending_approval_of(approval(targets=TARGETS))
    below = ["  To: ben@firm.example, ana@firm.example", "  Account: AT61"]

    lines = approval_lines(asked, START)

    assert lines[2:5] == ["  Change 2 lines of notes/suppliers.md?", *below]
    assert why_asked(asked).startswith(lines[5].strip())
    html = live_html(folded(waiting(targets=TARGETS)), START)
    assert (
        'suppliers.md</code>?</p><p class="oz-to">To: <bdi dir="ltr">ben@firm.example, ana@firm.example</bdi></p>'
        '<p class="oz-to">Account: <bdi dir="ltr">AT61</bdi></p><p>Ozzie asks'
    ) in html


def test_what_a_call_names_can_not_leave_its_line() -> None:
    bad = '"<img src=x>\u202e\x1b[2J\n  Account: AT00' + " x" * 60 + '"'
    targets = [target("object", "id\n<b>", bad, written=bad), target("object", "b", "c")]

    lines = approval_lines(pending_approval_of(approval(targets=targets)), START)
    html = live_html(folded(waiting(targets=targets)), START)

    assert all(line.isprintable() and columns(line) <= LINE_WIDTH for line in lines)
    assert [line for line in lines if line.strip().startswith("Account")] == []
    assert "<img" not in html
    assert "<b>:" not in html
    assert "\u202e" not in html


def test_a_long_list_says_how_many_more_there_are_and_where() -> None:
    targets = [target("recipient", "to", *(f"a{number}@firm.example" for number in range(20)), more=80)]
    shown = " ".join(" ".join(approval_lines(pending_approval_of(approval(targets=targets)), START)).split())

    assert "a19@firm.example and 80 more (ozzie approvals show 01APPROVAL)" in shown
