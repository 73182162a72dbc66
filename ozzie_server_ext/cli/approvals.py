"""`ozzie approvals`: list them, look at one, answer one (TL-4)."""

import argparse
import sys
from collections.abc import Iterator, Sequence

from ozzie_server_ext.cli.approval_text import details, question, summary
from ozzie_server_ext.cli.asking import agreed
from ozzie_server_ext.cli.http import Object, get, items, post
from ozzie_server_ext.cli.output import print_json
from ozzie_server_ext.cli.sessions import find_session
from ozzie_server_ext.domain.errors import NotFound
from ozzie_server_ext.domain.ids import is_ulid
from ozzie_server_ext.render.text import visible_label


def list_approvals(options: argparse.Namespace) -> int:
    """Print the approvals that wait for an answer, or all. Raises NotRunning, NotFound, or Answered."""
    session_id = find_session(options.session)["id"] if options.session else None
    status = None if options.all else "pending"
    found = list(items("approvals", options.limit, session_id=session_id, status=status))
    unasked = [] if options.all else list(_to_ask_anew(found, options.limit, session_id))
    found += unasked
    if options.json:
        print_json(found)
        return 0
    for approval in found:
        print(*summary(approval), sep="\n")
    if not found:
        print("No approvals." if options.all else "Nothing waits for your approval.")
    elif not options.all:
        print("\nSee all of one, and how to answer it: ozzie approvals show ID")
    if unasked:
        print("Have one that expired asked anew: ozzie approvals renew ID")
    return 0


def _to_ask_anew(pending: Sequence[Object], limit: int, session_id: str | None) -> Iterator[Object]:
    """Those that a task still waits for, though their time is up."""
    asked = {approval["task_id"] for approval in pending}
    for task in items("tasks", limit, session_id=session_id, status="WAITING_APPROVAL", all=True):
        if task["task_id"] not in asked:
            newest = items("approvals", 1, task_id=task["task_id"])
            yield from (approval for approval in newest if approval["status"] == "expired")


def show_approval(options: argparse.Namespace) -> int:
    """Print what is asked, with all that a person has to see before an answer. Raises NotRunning, NotFound, and
    Answered if the call would do something else by now."""
    approval = _whole(_approval(options.approval_id))
    if options.json:
        print_json(approval)
    else:
        print(*details(approval), sep="\n")
    return 0


def approve(options: argparse.Namespace) -> int:
    """Say yes, after asking back where it can't be undone. Raises NotRunning, NotFound, Misused where nobody can be
    asked back, or Answered where it is too late, or the yes can't come from here."""
    extent = "session" if options.session else "once"
    if not options.yes and not _is_meant(_approval(options.approval_id), extent):
        print("Nothing was approved; it still waits.", file=sys.stderr)
        return 1
    _answer(options.approval_id, "approve", {"extent": extent})
    if options.json:
        print_json({"approved": options.approval_id, "extent": extent})
        return 0
    approval = _approval(options.approval_id)
    print("Approved for the session." if options.session else "Approved once.", *question(approval), sep="\n")
    return 0


def reject(options: argparse.Namespace) -> int:
    """Say no; the model gets the comment. Raises as `approve`."""
    _answer(options.approval_id, "reject", {"comment": options.comment})
    if options.json:
        print_json({"rejected": options.approval_id, "comment": options.comment})
    else:
        print("Rejected. Nothing was done.", *question(_approval(options.approval_id)), sep="\n")
    return 0


def renew(options: argparse.Namespace) -> int:
    """Have an expired one asked anew. Raises NotRunning, NotFound, or Answered where it is no such one."""
    _answer(options.approval_id, "renew", {})
    if options.json:
        print_json({"renewed": options.approval_id})
    else:
        print("The task looks at it again, and asks anew: ozzie approvals list")
    return 0


def revoke(options: argparse.Namespace) -> int:
    """Take back a yes for the session. Raises NotRunning, NotFound, or Answered where none is in force."""
    _answer(options.approval_id, "revoke", {})
    if options.json:
        print_json({"revoked": options.approval_id})
    else:
        print("Taken back. From now on such calls ask again.")
    return 0


def _is_meant(approval: Object, extent: str) -> bool:
    """Whether a person who sees all of it says yes once more: of what can't be undone, is of high risk, or was shown
    to them without what looks like a secret."""
    is_grave = approval["side_effect"] == "irreversible" or approval["risk_level"] == "high"
    needs_look = bool(approval["card"]) or (is_grave and extent == "once")
    if not needs_look or approval["status"] != "pending":
        return True
    print(*details(_whole(approval)), "", sep="\n", file=sys.stderr)
    about = "can't be undone or is of high risk" if is_grave else "contains something that looks like a secret"
    return agreed("Approve it?", about=f"approve what {about}")


def _whole(approval: Object) -> Object:
    """The approval with nothing taken out of it, while it waits for an answer."""
    if not approval["card"] or approval["status"] != "pending":
        return approval
    return {**approval, **get(f"approvals/{approval['approval_id']}/card"), "whole": None}


def _answer(approval_id: str, verb: str, body: Object) -> None:
    _expect_id(approval_id)
    post(f"approvals/{approval_id}/{verb}", body)


def _approval(approval_id: str) -> Object:
    _expect_id(approval_id)
    return get(f"approvals/{approval_id}")


def _expect_id(text: str) -> None:
    if not is_ulid(text):
        raise NotFound(f"There is no approval {visible_label(text)[:40]}.", hint="List them with ozzie approvals list.")
