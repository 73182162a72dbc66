"""What came of the calls that rounds asked for, folded from their events into those rounds."""

from dataclasses import replace
from typing import Literal

from ozzie_server_ext.agent.rounds import Round
from ozzie_server_ext.domain.events import (
    EventBody,
    ToolCallCancelled,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallRequested,
    ToolCallResolved,
    ToolCallStarted,
    ToolCallUncertain,
)
from ozzie_server_ext.domain.ids import CallId
from ozzie_server_ext.protocol.jsontext import dumps


class Outcomes:
    """The calls without an end, and those of which nobody knows whether they were had."""

    def __init__(self) -> None:
        self._open: dict[CallId, tuple[Round, str]] = {}
        self._uncertain: dict[CallId, tuple[Round, str]] = {}

    def find(self, call_id: CallId) -> tuple[Round, str] | None:
        """The round that asked for a call without an end, and the model's own id of it."""
        return self._open.get(call_id)

    def apply(self, body: EventBody, last: Round | None) -> None:
        """Take in one fact; `last` is the latest round of its task."""
        match body:
            case ToolCallRequested(call_id=call_id, use_id=use_id, round=number):
                if last is not None and (last.guessed or last.number == number):
                    last.number, last.guessed = number, False
                    self._open[call_id] = (last, use_id)
            case ToolCallStarted(call_id=call_id, effect=effect) if call_id in self._open:
                asking, use_id = self._open[call_id]
                asking.begun[use_id] = effect
            case ToolCallCompleted(call_id=call_id, ok=ok, data=data):
                self._end(call_id, dumps(data if ok else {"error": data}))
            case ToolCallFailed(call_id=call_id, message=message):
                self._end(call_id, dumps({"error": message}), failure=message)
            case ToolCallUncertain(call_id=call_id, reason=reason, again=again):
                self._doubt(call_id, dumps({"error": f"It may or may not have happened. {reason}"}), again)
            case ToolCallResolved(call_id=call_id, outcome=outcome) if call_id in self._uncertain:
                _resolve(*self._uncertain[call_id], outcome)
                if outcome != "left":  # else somebody may say more of it, once its task is tried again
                    del self._uncertain[call_id]
            case ToolCallCancelled(call_id=call_id) if call_id in self._open:
                _made_anew(*self._open[call_id])
            case _:
                pass

    def _end(self, call_id: CallId, content: str, failure: str = "") -> None:
        if call_id in self._open:
            asking, use_id = self._open.pop(call_id)
            asking.outcomes[use_id] = content
            if failure:
                asking.failures[use_id] = failure

    def _doubt(self, call_id: CallId, content: str, again: bool) -> None:
        """A yes to what may have been done already is none to doing it again, unless that has no further effect."""
        if again and call_id in self._open:
            asking, use_id = self._open[call_id]
            asking.in_doubt[use_id] = content
            _made_anew(asking, use_id)
        elif call_id in self._open:
            asking, use_id = self._uncertain[call_id] = self._open.pop(call_id)
            asking.outcomes[use_id] = content
            asking.unknown[use_id] = next((use.name for use in asking.uses if use.call_id == use_id), "")
            asking.earlier.pop(use_id, None)
            asking.begun.pop(use_id, None)
            asking.in_doubt.pop(use_id, None)


def _resolve(asking: Round, use_id: str, outcome: Literal["done", "again", "left"]) -> None:
    if outcome == "left":
        return
    asking.unknown.pop(use_id, None)
    if outcome == "again":
        asking.outcomes.pop(use_id, None)
    else:
        asking.outcomes[use_id] = dumps({"done": True, "note": "A person looked, and says that it was done."})


def _made_anew(asking: Round, use_id: str) -> None:
    """The call came to an end, and one that is made in its place is another one."""
    if (earlier := asking.earlier.get(use_id)) is not None:
        asking.earlier[use_id] = replace(earlier, has_ended=True)
