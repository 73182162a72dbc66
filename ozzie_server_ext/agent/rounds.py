"""One answer of the model within a conversation, and what came of the calls that it asked for."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from ozzie_server_ext.agent.limits import MAX_CALLS_A_ROUND
from ozzie_server_ext.domain.events import Finish, ToolUse
from ozzie_server_ext.domain.ids import ReplyId, TaskId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.models.driver import ChatMessage
from ozzie_server_ext.policy.reading import UNREAD, Reading
from ozzie_server_ext.tools.permissions import Earlier

_STOPPED = '{"error":"The turn was stopped."}'


@dataclass(slots=True)
class Round:
    """One answer of the model: its text, the calls that it asked for, and what came of them (by the model's ids).
    `guessed`: its begin was erased, and its `number` is one more than the last one's until a call of it tells.
    `problem` says in what it does not have the wanted shape; then it comes anew. By the model's ids: `unknown`, the
    tools of its calls that may or may not have happened; `earlier`, what a person was asked for calls of it; `begun`,
    the effects of those that were begun: where one is made again, a crash cut it off; `in_doubt`, what is told of
    those that may have happened, and that are to be made again with their key; `failures`, why they gave nothing.
    `is_given`: no model asked for its one call, the task was created with it. `reading` is what the answer, and so its
    calls, are made from: what stood in the conversation when the model was asked."""

    task_id: TaskId | None
    number: int
    reply_id: ReplyId | None = None
    text: str = ""
    uses: tuple[ToolUse, ...] = ()
    outcomes: dict[str, str] = field(default_factory=dict[str, str])
    finish: Finish = "stop"
    whole: bool = False
    placed: bool = False
    guessed: bool = False
    problem: str = ""
    unknown: dict[str, str] = field(default_factory=dict[str, str])
    earlier: dict[str, Earlier] = field(default_factory=dict[str, Earlier])
    begun: dict[str, JsonObject | None] = field(default_factory=dict[str, JsonObject | None])
    in_doubt: dict[str, str] = field(default_factory=dict[str, str])
    failures: dict[str, str] = field(default_factory=dict[str, str])
    is_given: bool = False
    reading: Reading = UNREAD

    def open_uses(self) -> tuple[tuple[int, ToolUse], ...]:
        """The calls without an outcome, each with its index."""
        return tuple((index, use) for index, use in enumerate(self.uses) if use.call_id not in self.outcomes)

    def messages(self) -> Iterator[ChatMessage]:
        """The answer as a model reads it, and what came of each call."""
        if not self.text.strip() and not self.uses:  # some providers refuse a blank one
            return
        # A round that asked for more than is carried out was refused whole: nothing of it is owed.
        uses = self.uses if len(self.uses) <= MAX_CALLS_A_ROUND else ()
        yield ChatMessage(role="assistant", content=self.text, tool_uses=uses)
        for use in uses:
            # A provider refuses a call without a result, so one that was cut off gets one here.
            content = self.outcomes.get(use.call_id) or self.in_doubt.get(use.call_id, _STOPPED)
            yield ChatMessage(role="tool", content=content, tool_call_id=use.call_id, name=use.name)
