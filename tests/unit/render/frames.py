"""The frames of one turn as the feed sends them, for the tests of its views."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from ozzie_server_ext.render.live import LiveTurn
from ozzie_server_ext.render.turnfold import fold, new_turn
from ozzie_server_ext.render.turnview import TurnView

START = datetime(2026, 11, 3, 14, 0, tzinfo=UTC)
TASK = "01JD4T0000000000000000TASK"
SESSION = "sess_01JD4T0000000000000000SESS"

Frame = tuple[float | None, str, dict[str, Any]]
"""Seconds since the start (None: transient), canonical name, payload."""

FIRST = "I will read our list and the price page, then match the two."
LAST = "The list now has **both** new prices."


def call(call_id: str, name: str, args: dict[str, Any], at: float, **outcome: Any) -> list[Frame]:
    """The frames of one tool call that ran."""
    return [
        (at, "tool.call.requested", {"call_id": call_id, "tool_id": name, "name": name, "args": args}),
        (at, "tool.call.decided", {"call_id": call_id, "decision": "ALLOW", "rule": "read", "reason": ""}),
        (at, "tool.call.started", {"call_id": call_id}),
        (at + outcome["duration_ms"] / 1000, "tool.call.completed", {"call_id": call_id, "ok": True, **outcome}),
    ]


def model_call(call_id: str, reply_id: str, at: float) -> Frame:
    names = {"alias": "main", "provider": "anthropic", "model": "claude-sonnet"}
    return at, "model.call.started", {"call_id": call_id, "reply_id": reply_id, "round": 0, **names}


def model_answer(call_id: str, at: float, *, cost: int, **usage: int) -> Frame:
    return at, "model.call.completed", {"call_id": call_id, "usage": usage, "cost": cost}


BEGINNING: list[Frame] = [
    (0, "task.created", {"title": "prices"}),
    (0, "task.queued", {"reason": "created"}),
    (0.1, "task.started", {"attempt": 1, "epoch": "e"}),
    model_call("m1", "r1", 0.2),
    (None, "reply.delta", {"reply_id": "r1", "offset": 0, "phase": "delta", "content": FIRST[:20]}),
    (None, "reply.delta", {"reply_id": "r1", "offset": 20, "phase": "delta", "content": FIRST[20:]}),
]

ASKED: list[Frame] = [
    (
        3,
        "prompt.requested",
        {
            "prompt_id": "p1",
            "kind": "budget",
            "question": "This turn has used its $1.00.",
            "notes": ["The next step takes $0.04 at the most."],
            "options": [
                {"name": "allow", "label": "Allow $0.50 more", "amount": 500_000_000, "unit": "cost"},
                {"name": "stop", "label": "Stop here", "amount": 0, "unit": ""},
            ],
        },
    ),
    (3, "task.waiting_input", {"question": "This turn has used its $1.00."}),
]

PUT: list[Frame] = [
    (
        3,
        "prompt.requested",
        {
            "prompt_id": "p2",
            "kind": "question",
            "question": "Which year do you mean?\nThe table has two.",
            "notes": [],
            "options": [
                {"name": "1", "label": "2025", "help": "The last full one.", "takes_text": False},
                {"name": "2", "label": "2026", "help": "", "takes_text": False},
                {"name": "text", "label": "Something else…", "help": "", "takes_text": True},
                {"name": "skip", "label": "Skip", "help": "", "takes_text": False},
            ],
            "call_id": "t1",
        },
    ),
    (3, "task.waiting_input", {"question": "Which year do you mean?"}),
]
"""What the model asks a person, of its call `t1`."""

WORK: list[Frame] = [
    model_answer("m1", 2, input_tokens=1500, output_tokens=440, cost=12_000_000),
    (2, "message.completed", {"reply_id": "r1", "text": FIRST, "finish": "tool_calls"}),
    *call("t1", "read_file", {"path": "notes/suppliers.md"}, 2.1, summary="64 lines", duration_ms=100),
    *call(
        "t2",
        "fetch_url",
        {"url": "https://prices.example.org/list"},
        2.3,
        summary="12 kB",
        duration_ms=1800,
        brought=["web:prices.example.org"],
    ),
]

END: list[Frame] = [
    model_call("m2", "r2", 5),
    (None, "reply.delta", {"reply_id": "r2", "offset": 0, "phase": "delta", "content": LAST}),
    model_answer("m2", 24, input_tokens=1000, output_tokens=180, cost=9_000_000),
    (24, "message.completed", {"reply_id": "r2", "text": LAST, "finish": "stop"}),
    (24, "task.succeeded", {"rounds": 2}),
]

DONE = BEGINNING + WORK + END


def folded(frames: list[Frame]) -> TurnView:
    view = replace(new_turn(task_id=TASK, session_id=SESSION), started_at=START)
    for seconds, name, payload in frames:
        view = fold(view, name, payload, None if seconds is None else START + timedelta(seconds=seconds))
    return view


PROOF = "@@ -1,2 +1,2 @@\n | Nordwal | 2026-11 |\n-| 3.85 |\n+| 4.35 |"


def approval(**changed: Any) -> dict[str, Any]:
    """What asks for a call of `edit_file`, whose call is `c9`."""
    return {
        "approval_id": "01APPROVAL",
        "call_id": "c9",
        "tool_id": "fs.edit",
        "name": "edit_file",
        "sentence": "Change 2 lines of `notes/suppliers.md`?",
        "proof": PROOF,
        "shown": "diff",
        "whole": None,
        "reason": "It changes something of yours.",
        "rule": "default.changes",
        "place": "",
        "side_effect": "reversible",
        "risk_level": "medium",
        "undo": "The old version is kept among the artifacts.",
        "binds": "b1",
        "needs": "relay",
        "cover": {"said": "`edit_file` in `notes/`"},
        "key": "t-1-0",
        "expires_at": (START + timedelta(minutes=10)).isoformat(),
        **changed,
    }


def waiting(**changed: Any) -> list[Frame]:
    """A turn that asks for a call, and waits."""
    args = {"path": "notes/suppliers.md", "old": "3.85", "new": "4.35"}
    return [
        *BEGINNING,
        (3, "tool.call.requested", {"call_id": "c9", "tool_id": "fs.edit", "name": "edit_file", "args": args}),
        (3, "tool.call.decided", {"call_id": "c9", "decision": "ASK", "rule": "default.changes", "reason": ""}),
        (3, "approval.requested", approval(**changed)),
        (3, "task.waiting_approval", {"approval_id": "01APPROVAL"}),
    ]


GRANTED: list[Frame] = [
    (24, "approval.granted", {"approval_id": "01APPROVAL", "extent": "once", "by": "Ana", "way": "browser"}),
    (24, "task.resumed", {"by": "Ana"}),
    (24, "task.queued", {"reason": "answered"}),
    (24.1, "task.started", {"attempt": 2, "epoch": "e"}),
    (24.2, "tool.call.decided", {"call_id": "c9", "decision": "ASK", "rule": "default.changes", "reason": ""}),
    (24.2, "tool.call.started", {"call_id": "c9", "approval_id": "01APPROVAL"}),
    (24.3, "tool.call.completed", {"call_id": "c9", "ok": True, "summary": "+1 −1 lines", "duration_ms": 12.0}),
]
"""What follows once somebody said yes."""


def live_html(view: TurnView, now: datetime | None = None) -> str:
    """Return the HTML of one moment of a turn."""
    return LiveTurn().html(view, now)


def target(kind: str, argument: str, *texts: str, more: int = 0, **name: Any) -> dict[str, Any]:
    """What an argument names, as an event has it; `name` changes all of its names."""
    names = [{"text": text, "written": "", "is_read": True, **name} for text in texts]
    return {"kind": kind, "argument": argument, "names": names, "more": more}
