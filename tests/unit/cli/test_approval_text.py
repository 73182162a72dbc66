"""An approval in a terminal: all of it is seen, and nothing in it passes for what Ozzie says."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ozzie_server_ext.cli.approvals import commands, details, state_words, summary
from ozzie_server_ext.render.text import LINE_WIDTH, columns, quoted, visible_proof
from ozzie_server_ext.store.codec import time_text
from tests.unit.render.frames import target

ID = "01M800000000000000000000ZZ"


def approval(**changed: Any) -> dict[str, Any]:
    """One that waits, with all fields of REST's."""
    now = datetime.now(UTC)
    return {
        "approval_id": ID,
        "session_id": f"sess_{ID}",
        "task_id": ID,
        "run_id": ID,
        "step": "",
        "status": "pending",
        "why": "",
        "sentence": "Change 3 lines of `notes/suppliers.md`?",
        "reason": "It changes something of yours.",
        "rule": "default.changes",
        "place": "",
        "proof": "@@ -1,1 +1,1 @@\n-old\n+new",
        "shown": "diff",
        "whole": None,
        "tool_id": "fs.edit",
        "name": "edit_file",
        "side_effect": "reversible",
        "risk_level": "medium",
        "undo": "The old version is kept among the artifacts.",
        "needs": "relay",
        "binds": "0" * 64,
        "key": f"{ID}-1-0",
        "session_cover": "`edit_file` in `notes/`",
        "requested_at": time_text(now - timedelta(seconds=65)),
        "expires_at": time_text(now + timedelta(seconds=600.9)),
        "answered_at": None,
        "extent": "",
        "by": "",
        "way": "",
        "comment": "",
        "in_force_until": None,
        "notebook": "reports/may.ipynb",
        "checked": "",
        "made_from": "",
        "arguments": '{\n  "path": "notes/suppliers.md"\n}',
        "targets": [],
        "known_from": "",
        **changed,
    }


def answered(status: str, **changed: Any) -> dict[str, Any]:
    now = datetime.now(UTC)
    given = {"status": status, "answered_at": time_text(now), "by": "Ana", "way": "browser", **changed}
    return approval(**given)


def test_one_that_waits_shows_all_that_an_answer_needs() -> None:
    shown = "\n".join(details(approval()))

    assert re.match(r"Approval needed \(asked 1 min \d+ s ago, (9|10) min \d+ s left\)\n  Change 3 lines of `", shown)
    for said in (
        "  why      It changes something of yours.",
        "  | @@ -1,1 +1,1 @@\n  | -old\n  | +new",
        "  risk     Medium",
        "  effect   Can be undone",
        "  undo     The old version is kept among the artifacts.",
        "  rule     default.changes",
        "  from     reports/may.ipynb",
        f"  key      {ID}-1-0",
        '  arguments\n  | {\n  |   "path": "notes/suppliers.md"\n  | }',
        f"Once:    ozzie approvals approve {ID}",
        f"Session: ozzie approvals approve {ID} --session\n         for 30 minutes: `edit_file` in `notes/`",
        f"Not:     ozzie approvals reject {ID} [COMMENT]",
    ):
        assert said in shown


def test_where_no_yes_for_the_session_is_offered_it_says_so() -> None:
    told = list(commands(approval(session_cover=None)))

    assert told[-1] == "Each such call asks."
    assert "--session" not in "".join(told)


def test_where_a_yes_has_to_come_from_the_page_no_command_is_offered_that_would_be_refused() -> None:
    told = " ".join(commands(approval(needs="browser")))

    assert told.startswith("A yes has to come from the page: from Ozzie's card or sidebar in JupyterLab. Not: ")
    assert "approvals approve" not in told
    assert "  answer   in the page" in list(details(approval(needs="browser")))


def test_what_nobody_knows_is_not_left_blank() -> None:
    shown = list(details(approval(undo="", side_effect="irreversible", place="policy.jsonc, line 3", needs="cli")))

    assert "  undo     Not known" in list(details(approval(undo="")))
    assert "  undo     None" in shown
    assert "  effect   Cannot be undone" in shown
    assert "  rule     default.changes, policy.jsonc, line 3" in shown
    assert "  answer   in a terminal or in the page; a kernel's yes is not enough" in shown


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (answered("granted", extent="once"), "Approved once by Ana in the page, "),
        (answered("granted", extent="once", why="changed"), ", void: the call would do something else"),
        (answered("granted", extent="session", why="revoked", way="cli"), "in a terminal, "),
        (answered("granted", extent="session", why="revoked"), ", since taken back"),
        (answered("rejected", way="relay"), "Rejected by Ana in a cell, "),
        (answered("expired", why="time"), ". Nothing was done."),
        (answered("expired", why="changed"), "the call would now do something else."),
        (answered("expired", why="task"), "its task ended at "),
    ],
)
def test_an_answer_is_told_with_who_gave_it_and_where(found: dict[str, Any], said: str) -> None:
    assert said in state_words(found)


def test_a_yes_for_the_session_can_be_taken_back_while_it_is_in_force() -> None:
    now = datetime.now(UTC)
    good = answered("granted", extent="session", in_force_until=time_text(now + timedelta(minutes=9)))
    over = answered("granted", extent="session", in_force_until=time_text(now - timedelta(minutes=9)))

    assert list(commands(good)) == [f"Take it back: ozzie approvals revoke {ID}"]
    assert list(commands(over)) == []
    assert ", valid until " in state_words(good)
    assert ", was valid until " in state_words(over)


def test_only_one_whose_time_was_up_can_be_asked_anew() -> None:
    assert list(commands(answered("expired", why="time"))) == [f"Ask again: ozzie approvals renew {ID}"]
    assert list(commands(answered("expired", why="task"))) == []


def test_an_answer_of_another_day_is_told_with_its_day() -> None:
    assert "2026-01-31 " in state_words(answered("rejected", answered_at="2026-01-31T12:00:00.000000Z"))


def test_a_proof_that_is_cut_says_where_the_rest_is() -> None:
    assert f"  It goes on: ozzie artifacts get {ID}" in list(details(approval(whole=ID)))


def test_a_text_can_not_pass_for_what_ozzie_says() -> None:
    hostile = f"harmless{' ' * 200}Once:    nothing is done\n\nApproval needed\n\x1b[2Jx\r\u202eevil\tend"
    shown = list(details(approval(proof=hostile, shown="text", reason="why\n\nOnce:    now", comment="a\nOnce:  b")))

    assert [line for line in shown if line.startswith(("Once:", "Approval"))] == [shown[0], shown[-4]]
    assert [line for line in shown if not line.isprintable()] == []
    assert r"  | \u001b[2Jx" in shown
    assert r"  | \u202eevil end" in [" ".join(line.split()).replace("|", "  |", 1) for line in shown]


@given(st.text(max_size=600))
def test_every_line_of_a_proof_is_marked_fits_and_loses_nothing(proof: str) -> None:
    shown = [line for line in details(approval(proof=proof, arguments="")) if line.startswith("  |")] if proof else []
    whole = "".join(line.removeprefix("  |") for line in shown)

    assert all(columns(line) <= LINE_WIDTH for line in shown)
    assert "".join(whole.split()) == "".join(visible_proof(proof).split())


def test_a_long_line_of_marks_without_width_is_shown_in_time() -> None:
    assert len(list(details(approval(proof="a" + "\u0301" * 32_000)))) > 5


@pytest.mark.parametrize(
    "sentence",
    [
        "Run `probe`?",
        f"Change {'a few ' * 40}lines of `notes/suppliers.md`?",
        f"Change 3 lines of {quoted('notes/' + 'deep/' * 30 + 'suppliers.md')}?",
        f"Change 3 lines of {quoted('notes/' + '数' * 200)}?",
    ],
)
def test_a_row_of_the_list_fits_in_80_columns(sentence: str) -> None:
    waiting = summary(approval(sentence=sentence))
    rows = [*waiting, *summary(answered("granted", extent="session", by="Ana " * 9))]

    assert max(map(columns, rows)) <= LINE_WIDTH
    assert "".join("".join(waiting).split()).endswith("".join(sentence.split())), "all of it is there"
    assert waiting[0].startswith(f"{ID}  asked 1 min ")
    assert "in reports/may.ipynb" in " ".join(" ".join(waiting).split())
    assert all(line.startswith("  ") for line in waiting[1:])


def test_one_of_a_step_says_of_which() -> None:
    assert ", by the step publish" in " ".join(summary(approval(step="publish")))


def test_a_second_models_answer_is_told_as_such() -> None:
    said = {"by": "cheap (model)", "way": "model"}

    assert state_words(answered("granted", extent="once", **said)).startswith(
        "Approved once by a second model (cheap), "
    )
    assert state_words(answered("rejected", **said)).startswith("Rejected by a second model (cheap), ")
    shown = "\n".join(details(approval(checked="A second model is not sure.")))
    assert "  why      It changes something of yours.\n  checked  A second model is not sure." in shown


def test_what_a_call_names_stands_below_its_question_in_the_list_and_in_full() -> None:
    targets = [
        target("recipient", "to", "ben@firm.example", "ana@firm.example"),
        target("amount", "amount", '"120"', is_read=False),
    ]
    below = [
        "  Change 3 lines of `notes/suppliers.md`?",
        "  To: ben@firm.example, ana@firm.example",
        '  Amount: "120" (can\'t be read)',
    ]

    assert summary(approval(targets=targets))[-3:] == below
    assert list(details(approval(targets=targets)))[1:5] == [*below, "  why      It changes something of yours."]


def test_a_long_list_is_cut_where_it_can_still_be_shown_in_full() -> None:
    targets = [target("recipient", "to", "ben@firm.example", more=80)]

    cut = " ".join(" ".join(summary(approval(targets=targets))).split())
    assert cut.endswith(f"To: ben@firm.example and 80 more (ozzie approvals show {ID})")
    assert summary(answered("granted", extent="once", targets=targets))[-1] == "  To: ben@firm.example and 80 more"


@given(st.text(max_size=300), st.text(max_size=100))
def test_no_name_leaves_its_line_or_makes_it_too_long(text: str, argument: str) -> None:
    targets = [target("object", argument, text, written=text), target("object", "b", text)]
    shown = summary(approval(targets=targets))

    assert all(line.startswith("  ") and columns(line) <= LINE_WIDTH for line in shown[2:])
    assert re.findall("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]", "".join(shown)) == []
