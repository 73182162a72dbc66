"""An approval in 80 columns: what is asked, what became of it, and the commands that answer it (UX §2.4, §5)."""

from collections.abc import Iterator
from datetime import UTC, datetime

from ozzie_server_ext.cli.http import Object
from ozzie_server_ext.cli.output import local_time
from ozzie_server_ext.domain.approvals import SESSION_S
from ozzie_server_ext.render.asked import IN_PAGE, second_model
from ozzie_server_ext.render.columns import LINE_WIDTH, folded, wrapped
from ozzie_server_ext.render.console import quoted_lines
from ozzie_server_ext.render.contract_words import EFFECTS, NEEDS, NOT_KNOWN, RISKS, undo_words
from ozzie_server_ext.render.text import elapsed, visible_label, visible_proof

_NAMES = 9
"""Columns of the name of a fact, with its gap."""

_PLACES = {"relay": "a cell", "cli": "a terminal", "browser": "the page", "step_up": "the page"}
_EXPIRED = {
    "time": "Expired at {at}. Nothing was done.",
    "changed": "Not asked any more since {at}: the call would do something else by now.",
    "task": "Not asked any more: its task ended at {at}. Nothing was done.",
}


def standing(approval: Object) -> str:
    """How it stands, in a few words: "asked 3 s ago, 59 min 57 s left"."""
    at = _moment(approval["answered_at"])
    match approval["status"]:
        case "pending":
            return f"asked {_ago(approval['requested_at'])} ago, {_left(approval['expires_at'])} left"
        case "granted":
            return f"{_granted(approval)} by {_who(approval)}, {at}{_in_force(approval)}"
        case "rejected":
            return f"Rejected by {_who(approval)}, {at}"
        case _:
            return _EXPIRED[approval["why"]].format(at=at)


def summary(approval: Object) -> list[str]:
    """Its id, how it stands, and the question: two lines, or some more where the question is long."""
    where = f", in {approval['notebook']}" if approval["notebook"] and approval["status"] == "pending" else ""
    where += f", by the step {approval['step']}" if approval["step"] and approval["status"] == "pending" else ""
    return [*_hanging(f"{approval['approval_id']}  ", standing(approval) + where), *question(approval)]


def question(approval: Object) -> list[str]:
    """The sentence, indented."""
    return [line for whole in _hanging("  ", approval["sentence"]) for line in _broken(whole, "  ")]


def details(approval: Object) -> Iterator[str]:
    """All that a person has to see before an answer, and the commands that give one."""
    yield from wrapped(heading(approval))
    yield from question(approval)
    if approval["comment"]:
        yield from _fact("said", approval["comment"])
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
    if ways := list(commands(approval)):
        yield from ("", *ways)


def heading(approval: Object) -> str:
    """What it needs, or how it ended."""
    state = standing(approval)
    return f"Approval needed ({state})" if approval["status"] == "pending" else state


def commands(approval: Object) -> Iterator[str]:
    """What can still be done about it: the command for each answer, and what one for the session would cover."""
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
        yield from _hanging(" " * 9, f"for {SESSION_S // 60} minutes: {approval['session_cover']}")
    yield f"Not:     ozzie approvals reject {approval_id} [COMMENT]"
    if approval["session_cover"] is None:
        yield f"Approving for the session is not offered{_why_no_session(approval)}."


def _facts(approval: Object) -> Iterator[str]:
    told = {
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
    for name, value in told.items():
        if value:
            yield from _fact(name, value)


def _fact(name: str, value: str) -> list[str]:
    return _hanging(f"  {name:<{_NAMES}}", value)


def _hanging(lead: str, text: str) -> list[str]:
    """One paragraph behind `lead`, its further lines below each other."""
    lines = wrapped(visible_label(text), LINE_WIDTH - len(lead))
    return [f"{lead if number == 0 else ' ' * len(lead)}{line}" for number, line in enumerate(lines)]


def _broken(line: str, lead: str) -> list[str]:
    """A line that one word makes too long, such as a path, in lines that fit."""
    return [f"{lead}{piece}" for piece in folded(line.removeprefix(lead), LINE_WIDTH - len(lead))]


def _who(approval: Object) -> str:
    by = visible_label(approval["by"])
    return second_model(by) if approval["way"] == "model" else f"{by} in {_PLACES[approval['way']]}"


def _granted(approval: Object) -> str:
    return "Approved for the session" if approval["extent"] == "session" else "Approved once"


def _in_force(approval: Object) -> str:
    if approval["why"]:
        return ", taken back since" if approval["why"] == "revoked" else ", void: the call would do something else"
    until = _moment(approval["in_force_until"])
    return f", {'' if _is_in_force(approval) else 'it was '}good until {until}" if until else ""


def _is_in_force(approval: Object) -> bool:
    until = approval["in_force_until"]
    return until is not None and datetime.fromisoformat(until) > datetime.now(UTC)


def _why_no_session(approval: Object) -> str:
    if approval["side_effect"] == "irreversible":
        return ": this cannot be undone"
    return ": its risk is high" if approval["risk_level"] == "high" else " for this"


def _moment(text: str | None) -> str:
    """The time of the day, with the day where it is another one; "" for none."""
    here = datetime.now(UTC).astimezone().strftime("%Y-%m-%d ")
    return local_time(text).removeprefix(here)


def _ago(text: str) -> str:
    return elapsed((datetime.now(UTC) - datetime.fromisoformat(text)).total_seconds())


def _left(text: str) -> str:
    return elapsed((datetime.fromisoformat(text) - datetime.now(UTC)).total_seconds())
