"""`ozzie approvals`: list, show and answer approvals."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from ozzie_server_ext.cli.http import Object, expect_id, get, items, post
from ozzie_server_ext.cli.sessions import find_session
from ozzie_server_ext.cli.terminal import agreed, local_time, print_json, print_result
from ozzie_server_ext.domain.approvals import SESSION_YES_EXPIRES_S
from ozzie_server_ext.render.console import hanging, quoted_lines
from ozzie_server_ext.render.questions import (
    EACH_ASKS,
    EFFECTS,
    EXTENTS,
    IN_PAGE,
    NEEDS,
    NOT_KNOWN,
    RISKS,
    second_model,
    target_lines,
    undo_words,
)
from ozzie_server_ext.render.text import LINE_WIDTH, elapsed, visible_label, visible_proof, wrapped

_NAME_WIDTH = 9
"""Width of a fact's name and the gap behind it, in columns."""

_PLACES = {"relay": "a cell", "cli": "a terminal", "browser": "the page", "step_up": "the page"}
_EXPIRED = {
    "time": "Expired at {at}. Nothing was done.",
    "changed": "No longer open since {at}: the call would now do something else.",
    "task": "No longer open: its task ended at {at}. Nothing was done.",
}


def state_words(approval: Object) -> str:
    """Return the approval's state in a few words: "asked 3 s ago, 59 min 57 s left"."""
    at = _moment(approval["answered_at"])
    match approval["status"]:
        case "pending":
            now = datetime.now(UTC)
            since = now - datetime.fromisoformat(approval["requested_at"])
            left = datetime.fromisoformat(approval["expires_at"]) - now
            return f"asked {elapsed(since.total_seconds())} ago, {elapsed(left.total_seconds())} left"
        case "granted":
            return f"Approved {EXTENTS[approval['extent']]} by {_who(approval)}, {at}{_in_force(approval)}"
        case "rejected":
            return f"Rejected by {_who(approval)}, {at}"
        case _:
            return _EXPIRED[approval["why"]].format(at=at)


def summary(approval: Object) -> list[str]:
    """Return id, state and question, with what the call names: two lines or more."""
    where = f", in {approval['notebook']}" if approval["notebook"] and approval["status"] == "pending" else ""
    where += f", by the step {approval['step']}" if approval["step"] and approval["status"] == "pending" else ""
    return [*_hanging(f"{approval['approval_id']}  ", state_words(approval) + where), *question(approval)]


def question(approval: Object) -> list[str]:
    """Return the approval's sentence and what the call names, indented."""
    rest_at = f"ozzie approvals show {approval['approval_id']}" if approval["status"] == "pending" else ""
    named = target_lines(approval["targets"], rest_at=rest_at)
    leads = [("  ", approval["sentence"]), *((f"  {word}: ", text) for word, text in named)]
    return [line for lead, text in leads for line in hanging(lead, text)]


def details(approval: Object) -> Iterator[str]:
    """Yield everything a person has to see before answering, and the commands to answer."""
    yield from wrapped(heading(approval))
    yield from question(approval)
    if approval["comment"]:
        yield from _fact("said", approval["comment"])
    if approval["known_from"]:
        yield from _fact("known", approval["known_from"])
    yield from _fact("why", approval["reason"])
    if approval["made_from"]:
        yield from _fact("outside", approval["made_from"])
    if approval["checked"]:
        yield from _fact("checked", approval["checked"])
    if approval["proof"]:
        yield ""
        yield from quoted_lines(visible_proof(approval["proof"]).split("\n"))
        yield ""
    if approval["whole"]:
        yield f"  It goes on: ozzie artifacts get {approval['whole']}"
        yield ""
    yield from _facts(approval)
    if approval["arguments"]:
        yield "  arguments"
        yield from quoted_lines(visible_proof(approval["arguments"]).split("\n"))
    if answers := list(commands(approval)):
        yield from ("", *answers)


def heading(approval: Object) -> str:
    """Return the first line: approval needed, or the answer it got."""
    state = state_words(approval)
    return f"Approval needed ({state})" if approval["status"] == "pending" else state


def commands(approval: Object) -> Iterator[str]:
    """Yield the commands that still apply: one for each answer, with what a session grant would cover."""
    approval_id = approval["approval_id"]
    if approval["status"] == "pending":
        yield from _answers(approval)
    elif approval["status"] == "expired" and approval["why"] == "time":
        yield f"Ask again: ozzie approvals renew {approval_id}"
    elif _is_in_force(approval):
        yield f"Take it back: ozzie approvals revoke {approval_id}"


def _answers(approval: Object) -> Iterator[str]:
    approval_id = approval["approval_id"]
    in_page = approval["needs"] in ("browser", "step_up")
    if in_page:
        yield from wrapped(IN_PAGE)
    else:
        yield f"Once:    ozzie approvals approve {approval_id}"
    if approval["session_cover"] is not None and not in_page:
        yield f"Session: ozzie approvals approve {approval_id} --session"
        yield from _hanging(" " * 9, f"for {SESSION_YES_EXPIRES_S // 60} minutes: {approval['session_cover']}")
    yield f"Not:     ozzie approvals reject {approval_id} [COMMENT]"
    if approval["session_cover"] is None:
        yield EACH_ASKS


def _facts(approval: Object) -> Iterator[str]:
    facts = {
        "risk": RISKS.get(approval["risk_level"], NOT_KNOWN),
        "effect": EFFECTS.get(approval["side_effect"], NOT_KNOWN),
        "undo": undo_words(approval["undo"], approval["side_effect"]),
        "tool": f"{approval['name']} ({approval['tool_id']})",
        "rule": f"{approval['rule']}, {approval['place']}" if approval["place"] else approval["rule"],
        "answer": NEEDS[approval["needs"]],
        "from": approval["notebook"],
        "session": approval["session_id"],
        "task": approval["task_id"],
        "key": approval["key"],
        "binds": approval["binds"],
    }
    for name, value in facts.items():
        if value:
            yield from _fact(name, value)


def _fact(name: str, value: str) -> list[str]:
    return _hanging(f"  {name:<{_NAME_WIDTH}}", value)


def _hanging(lead: str, text: str) -> list[str]:
    """Return one paragraph behind `lead`, with a hanging indent."""
    lines = wrapped(visible_label(text), LINE_WIDTH - len(lead))
    return [f"{lead if number == 0 else ' ' * len(lead)}{line}" for number, line in enumerate(lines)]


def _who(approval: Object) -> str:
    by = visible_label(approval["by"])
    return second_model(by) if approval["way"] == "model" else f"{by} in {_PLACES[approval['way']]}"


def _in_force(approval: Object) -> str:
    if approval["why"]:
        return ", since taken back" if approval["why"] == "revoked" else ", void: the call would do something else"
    until = _moment(approval["in_force_until"])
    return f", {'' if _is_in_force(approval) else 'was '}valid until {until}" if until else ""


def _is_in_force(approval: Object) -> bool:
    until = approval["in_force_until"]
    return until is not None and datetime.fromisoformat(until) > datetime.now(UTC)


def _moment(text: str | None) -> str:
    """Return the time of day, with the date unless it is today; "" for None."""
    here = datetime.now(UTC).astimezone().strftime("%Y-%m-%d ")
    return local_time(text).removeprefix(here)


def list_approvals(options: argparse.Namespace) -> int:
    """Print the pending approvals, or all. Raises NotRunning, NotFound, or Answered."""
    session_id = find_session(options.session)["id"] if options.session else None
    status = None if options.all else "pending"
    found = list(items("approvals", options.limit, session_id=session_id, status=status))
    renewable = [] if options.all else list(_renewable(found, options.limit, session_id))
    found += renewable
    if options.json:
        print_json(found)
        return 0
    for approval in found:
        print(*summary(approval), sep="\n")
    if not found:
        print("No approvals." if options.all else "Nothing waits for your approval.")
    elif not options.all:
        print("\nShow one in full, and how to answer it: ozzie approvals show ID")
    if renewable:
        print("Ask again for one that expired: ozzie approvals renew ID")
    return 0


def _renewable(pending: Sequence[Object], limit: int, session_id: str | None) -> Iterator[Object]:
    """Yield expired approvals that a task still waits for."""
    with_pending = {approval["task_id"] for approval in pending}
    for task in items("tasks", limit, session_id=session_id, status="WAITING_APPROVAL", all=True):
        if task["task_id"] not in with_pending:
            newest = items("approvals", 1, task_id=task["task_id"])
            yield from (approval for approval in newest if approval["status"] == "expired")


def show_approval(options: argparse.Namespace) -> int:
    """Print one approval in full. Raises NotRunning, NotFound, and Answered if the call would now do something else."""
    approval = _whole(_approval(options.approval_id))
    return print_result(approval, *details(approval), as_json=options.json)


def approve(options: argparse.Namespace) -> int:
    """Approve a call, after asking back if it can't be undone. Raises NotRunning, NotFound, Misused without a terminal
    to ask at, or Answered if it is too late or an approval can't come from here."""
    extent = "session" if options.session else "once"
    if not options.yes and not _is_confirmed(_approval(options.approval_id), extent):
        print("Not approved; it still waits.", file=sys.stderr)
        return 1
    _answer(options.approval_id, "approve", {"extent": extent})
    if options.json:
        print_json({"approved": options.approval_id, "extent": extent})
        return 0
    approval = _approval(options.approval_id)
    print("Approved for the session." if options.session else "Approved once.", *question(approval), sep="\n")
    return 0


def reject(options: argparse.Namespace) -> int:
    """Reject a call; the model gets the comment. Raises as `approve`."""
    _answer(options.approval_id, "reject", {"comment": options.comment})
    if options.json:
        print_json({"rejected": options.approval_id, "comment": options.comment})
        return 0
    print("Rejected. Nothing was done.", *question(_approval(options.approval_id)), sep="\n")
    return 0


def renew(options: argparse.Namespace) -> int:
    """Ask again for an expired approval. Raises NotRunning, NotFound, or Answered if it has not expired."""
    _answer(options.approval_id, "renew", {})
    line = "The task checks the call again and asks again: ozzie approvals list"
    return print_result({"renewed": options.approval_id}, line, as_json=options.json)


def revoke(options: argparse.Namespace) -> int:
    """Take back a session grant. Raises NotRunning, NotFound, or Answered if none is in force."""
    _answer(options.approval_id, "revoke", {})
    line = "Taken back. Such calls ask again from now on."
    return print_result({"revoked": options.approval_id}, line, as_json=options.json)


def _is_confirmed(approval: Object, extent: str) -> bool:
    """Return whether a person confirms after seeing everything. Asks only if the call can't be undone, is of high risk,
    or was shown with something taken out that looks like a secret."""
    is_grave = approval["side_effect"] == "irreversible" or approval["risk_level"] == "high"
    needs_look = bool(approval["card"]) or (is_grave and extent == "once")
    if not needs_look or approval["status"] != "pending":
        return True
    print(*details(_whole(approval)), "", sep="\n", file=sys.stderr)
    about = "can't be undone or is of high risk" if is_grave else "contains something that looks like a secret"
    return agreed("Approve it?", about=f"approve what {about}")


def _whole(approval: Object) -> Object:
    """Return a pending approval with nothing taken out and nothing left out."""
    is_whole = not approval["card"] and not any(target["more"] for target in approval["targets"])
    if is_whole or approval["status"] != "pending":
        return approval
    return {**approval, **get(f"approvals/{approval['approval_id']}/card"), "whole": None}


def _answer(approval_id: str, verb: str, body: Object) -> None:
    expect_id(approval_id, "approval")
    post(f"approvals/{approval_id}/{verb}", body)


def _approval(approval_id: str) -> Object:
    expect_id(approval_id, "approval")
    return get(f"approvals/{approval_id}")
