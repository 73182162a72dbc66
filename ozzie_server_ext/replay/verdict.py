"""What a replay found, in words: whether all came out as it was recorded; else what differs first, and why."""

from collections.abc import Sequence, Set

import msgspec

from ozzie_server_ext.domain.events import Event, ToolsetInjected
from ozzie_server_ext.domain.ids import TaskId
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.domain.toolmeta import SKILLS
from ozzie_server_ext.protocol.jsontext import dumps
from ozzie_server_ext.render.text import cut_end, visible_label
from ozzie_server_ext.replay.changes import Changes
from ozzie_server_ext.replay.outcome import Cause, Verdict
from ozzie_server_ext.replay.record import Record, parents_of
from ozzie_server_ext.replay.replay import Replayed
from ozzie_server_ext.replay.stage import Divergence

MOST_SHOWN = 400
"""Characters of a value."""
_MOST_NAMED = 5
"""Tools."""
_SAME_BEFORE = 40
"""Characters before the first that differs, of texts that begin with more that is the same."""

_WORDS: dict[Cause, str] = {
    "prompt": "The prompt is another one.",
    "rules": "The rules are other ones.",
    "skill": "The skill is another one.",
    "tools": "The contract of a tool has changed.",
    "configuration": "The configuration is another one.",
    "code": "The code of Ozzie has changed since.",
}


def verdict_of(record: Record, replayed: Replayed) -> Verdict:
    """Return what a replay of the record found."""
    events, same = replayed.events, replayed.same
    if replayed.missing is not None:
        at = _next(record, same)
        return Verdict(
            events=events,
            same=same,
            turn=None if at is None else turn_of(record, at.task_id),
            position=None if at is None else at.position,
            missing=str(replayed.missing),
            sentence=f"{_same_up_to(same)}{replayed.missing}",
        )
    if replayed.divergence is None:
        return Verdict(events=events, same=events, sentence=f"Same for all {events:,} events.")
    return _differing(record, replayed.divergence, events, replayed.changes)


def _differing(record: Record, found: Divergence, events: int, changes: Changes) -> Verdict:
    event, difference = found.event, found.difference
    before = event or found.before
    same = events if before is None else _index(record.events, before)
    task_id = event.task_id if event is not None else found.now and found.now.task_id
    turn = turn_of(record, task_id)
    now_type = "" if found.now is None else found.now.body.type
    cause = cause_of(found, changes)
    then, now = ("", "") if difference is None else _both(difference.then, difference.now)
    verdict = Verdict(
        events=events,
        same=same,
        turn=turn,
        position=None if event is None else event.position,
        then_type="" if event is None else event.type,
        now_type=now_type,
        field="" if difference is None else difference.field,
        then=then,
        now=now,
        cause=cause,
        sentence="",
    )
    turn_words = f" of turn {turn}" if turn else ""
    what = _of_tools(found) or _what(verdict)
    words = f"Event {same + 1:,}{turn_words} differs: {what} {_WORDS[cause]}"
    return msgspec.structs.replace(verdict, sentence=f"{_same_up_to(same)}{words}")


def _same_up_to(same: int) -> str:
    return f"Same up to event {same:,}. " if same else ""


def _of_tools(found: Divergence) -> str:
    """Return what has become of the offered tools, if those differ; else nothing."""
    then, now = None if found.event is None else found.event.body, None if found.now is None else found.now.body
    if not isinstance(then, ToolsetInjected) or not isinstance(now, ToolsetInjected):
        return ""
    before, after = ({tool.name: tool.version for tool in body.tools} for body in (then, now))
    both = before.keys() & after.keys()
    words = (
        ("would not be offered", before.keys() - after.keys()),
        ("would be offered, too", after.keys() - before.keys()),
        ("would be offered in another version", {name for name in both if before[name] != after[name]}),
    )
    parts = [f"{_names(names)} {what}" for what, names in words if names]
    return f"{'; '.join(parts)}." if parts else "the tools would be offered in another order."


def _names(names: Set[str]) -> str:
    listed = sorted(names)
    more = f" and {len(listed) - _MOST_NAMED} more" if len(listed) > _MOST_NAMED else ""
    return ", ".join(listed[:_MOST_NAMED]) + more


def _what(found: Verdict) -> str:
    if not found.then_type:
        return f"{found.now_type} would be recorded, where nothing was."
    if not found.now_type:
        return f"{found.then_type} was recorded, and nothing would be."
    if found.then_type != found.now_type:
        return f"{found.then_type} was recorded, and {found.now_type} would be."
    return f"{found.field} of {found.then_type} was {found.then}, and would be {found.now}."


def _both(then: Json, now: Json) -> tuple[str, str]:
    """Return two values as JSON on one line, cut; of long texts, from a little before they differ."""
    if isinstance(then, str) and isinstance(now, str):
        same = next((at for at, (a, b) in enumerate(zip(then, now, strict=False)) if a != b), min(len(then), len(now)))
        if same > 2 * _SAME_BEFORE:
            begin = same - _SAME_BEFORE
            then, now = f"…{then[begin:]}", f"…{now[begin:]}"
    return _shown(then), _shown(now)


def _shown(value: Json) -> str:
    return cut_end(visible_label(dumps(value)), MOST_SHOWN)


def _next(record: Record, same: int) -> Event | None:
    return record.events[same] if same < len(record.events) else None


def _index(events: Sequence[Event], event: Event) -> int:
    return next(index for index, each in enumerate(events) if each.position == event.position)


def turn_of(record: Record, task_id: TaskId | None) -> int | None:
    """Return the number of the turn that an event belongs to, also one of a delegated task; None if it is of none."""
    parents = parents_of(record.events)
    while task_id is not None and task_id in parents:
        task_id = parents[task_id]
    numbers = {turn.task_id: turn.number for turn in record.turns if turn.row is not None}
    return None if task_id is None else numbers.get(task_id)


def cause_of(found: Divergence, changes: Changes) -> Cause:
    """Return which change explains a difference, which there is not without the changes that are tried. What was not
    tried is as it was then, so that all else is the code's."""
    difference, event = found.difference, found.event
    field = "" if difference is None else difference.field
    if changes.prompt is not None and (field == "prompt" or field.startswith("request_blob.messages[0]")):
        return "prompt"
    if changes.policy is not None:
        return "rules"
    if changes.skills:
        return "skill"
    if changes.prompt is not None:
        return "prompt"
    then, now = None if event is None else event.body, None if found.now is None else found.now.body
    if isinstance(then, ToolsetInjected) and isinstance(now, ToolsetInjected):
        changed = {tool.tool_id for tool in {*then.tools} ^ {*now.tools}}
        return "skill" if changed and all(tool_id.startswith(SKILLS) for tool_id in changed) else "tools"
    if field == "config":
        return "configuration"
    return "tools" if field in ("version", "tool_id") else "code"
