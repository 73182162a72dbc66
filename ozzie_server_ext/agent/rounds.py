"""Rounds: one answer of the model with the outcomes of its tool calls, and the limits on repeating that."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec.structs import replace

from ozzie_server_ext.domain.calls import CallRecord, Calls
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.events import (
    ApprovalRequested,
    EventBody,
    Finish,
    GivenCall,
    Limits,
    ToolCallCancelled,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallRequested,
    ToolCallSummarized,
    ToolCallUncertain,
    ToolUse,
)
from ozzie_server_ext.domain.ids import ArtifactId, CallId, EventId, ReplyId, TaskId
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.domain.toolmeta import Reached
from ozzie_server_ext.models.driver import ChatMessage
from ozzie_server_ext.policy.decision import UNREAD, Reading
from ozzie_server_ext.protocol.jsontext import dumps
from ozzie_server_ext.tools.outcome import summarized
from ozzie_server_ext.tools.permissions import EarlierRequest

MAX_REPEATS = 3
MAX_CALLS_A_ROUND = 50


class LimitExceeded(OzzieError):
    """The turn reached one of its limits."""

    code = "limit.exceeded"


class OutOfTime(Exception):
    """A task has worked for all of its `limit_s`."""

    def __init__(self, limit_s: float) -> None:
        super().__init__(f"{limit_s:g} s")
        self.limit_s = limit_s


class LimitGuard:
    """Enforces the limits of a turn, from where it is taken up until it ends or waits."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._last: tuple[tuple[str, str], ...] = ()
        self._repeats = 0

    def expect_round(self, number: int) -> None:
        """Raise LimitExceeded if a turn may not ask the model so often. Called before each model call."""
        if number > self._limits.max_rounds:
            raise LimitExceeded(
                f"This turn asked the model {self._limits.max_rounds} times without coming to an end.",
                hint="Ask for a smaller step, or raise agent.max_rounds in the configuration.",
                code="limit.rounds",
            )

    def expect_uses(self, uses: tuple[ToolUse, ...]) -> None:
        """Raise LimitExceeded for too many calls in one answer, or the third time in a row that they are the same."""
        if len(uses) > MAX_CALLS_A_ROUND:
            raise LimitExceeded(
                f"The model asked for {len(uses)} tool calls at once; at most {MAX_CALLS_A_ROUND} are carried out.",
                hint="Ask for a smaller step, or choose another model with %model.",
                code="limit.calls",
            )
        calls = tuple((use.name, use.arguments) for use in uses)
        self._repeats = self._repeats + 1 if calls == self._last else 1
        self._last = calls
        if self._repeats >= MAX_REPEATS:
            raise LimitExceeded(
                f"The model asked for the same call of {calls[0][0][:64]} {MAX_REPEATS} times in a row.",
                hint="Say it differently, or choose another model with %model.",
                code="limit.loop",
            )


def result_text(*, data: Json = None, error: JsonObject | None = None, artifacts: Sequence[ArtifactId] = ()) -> str:
    """Return the result of a call as every model reads it; without an `error`, it is ok."""
    refs: list[Json] = [*artifacts]
    return dumps({"ok": error is None, "data": data, "error": error, "artifact_refs": refs})


_STOPPED = result_text(error={"code": "tool.stopped", "message": "The turn was stopped."})
_LEFT = result_text(error={"code": "tool.left", "message": "This session was forked before the call had a result."})


class ShortenedResult(msgspec.Struct, frozen=True):
    """A result of which the conversation has only a part; the artifact has the whole."""

    call_id: CallId
    artifact_id: ArtifactId


class Round(msgspec.Struct):
    """One answer of the model, its tool calls, and their outcomes.

    By the model's ids of the calls:
    - `outcomes`: the results as the model reads them; `reached`: whom or what calls reached beyond their arguments;
      `failures`: the messages of failed calls; `brought`: the outside
      sources of results.
    - `unresolved`: the tools of uncertain calls; `to_repeat`: what the model reads of those to be repeated with their
      key.
    - `shortened`: the results that are there only in part, and have no summary.
    - `earlier`: requests for approval, with the yes if there is one; `asked`: the calls for which there ever was one;
      `begun`: the effects of started calls.

    `guessed`: the start of the model call was erased, and `number` is the last one's plus 1 until a tool call tells it.
    `whole`: its call was completed, though `finish` may say that the answer was cut; `placed`: it has its place in the
    conversation. `problem` says why it does not fit the schema, so that the model is asked again. `is_given`: the task
    was created with this one call, without a model; `goes_on`: or with these calls, after which its model is asked.
    `reading` is the provenance of the answer and its calls: everything in the conversation when the model was called.
    `event_id`: the event that completed the answer, and so led to its calls. `is_left`: the session was forked in the
    middle of its turn, which goes on elsewhere.
    """

    task_id: TaskId | None
    number: int
    reply_id: ReplyId | None = None
    text: str = ""
    uses: tuple[ToolUse, ...] = ()
    outcomes: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    reached: dict[str, tuple[Reached, ...]] = msgspec.field(default_factory=dict[str, tuple[Reached, ...]])
    brought: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict[str, tuple[str, ...]])
    finish: Finish = "stop"
    whole: bool = False
    placed: bool = False
    guessed: bool = False
    problem: str = ""
    unresolved: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    earlier: dict[str, EarlierRequest] = msgspec.field(default_factory=dict[str, EarlierRequest])
    asked: set[str] = msgspec.field(default_factory=set[str])
    begun: dict[str, JsonObject | None] = msgspec.field(default_factory=dict[str, JsonObject | None])
    to_repeat: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    failures: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    shortened: dict[str, ShortenedResult] = msgspec.field(default_factory=dict[str, ShortenedResult])
    is_given: bool = False
    goes_on: bool = False
    reading: Reading = UNREAD
    event_id: EventId | None = None
    is_left: bool = False

    def ask_for(self, use_id: str, asked: ApprovalRequested) -> None:
        self.earlier[use_id] = EarlierRequest(asked=asked)
        self.asked.add(use_id)

    def open_failed(self) -> None:
        """Have the failed calls made again."""
        for use_id in self.failures:
            self.outcomes.pop(use_id, None)
            self.begun.pop(use_id, None)
        self.failures.clear()

    def open_uses(self) -> tuple[tuple[int, ToolUse], ...]:
        """Return the calls without an outcome, each with its index."""
        return tuple((index, use) for index, use in enumerate(self.uses) if use.use_id not in self.outcomes)

    def is_read_by(self, task_id: TaskId | None) -> bool:
        """Whether the model of this task reads the answer: one that was rejected matters to its own turn only."""
        return not self.problem or self.task_id == task_id

    @property
    def is_refused(self) -> bool:
        """Whether a retry can't continue from the answer: it is incomplete, or it ended its turn with an error."""
        is_cut = not self.whole or self.finish in ("length", "content_filter")
        is_wrong = bool(self.problem) or len(self.uses) > MAX_CALLS_A_ROUND
        return is_cut or is_wrong or not (self.text or self.uses)

    @property
    def count(self) -> int:
        """The number of its `messages`."""
        if not self.text.strip() and not self.uses:
            return 0
        return 1 + (len(self.uses) if len(self.uses) <= MAX_CALLS_A_ROUND else 0)

    def messages(self) -> Iterator[ChatMessage]:
        """Yield the answer and the outcomes of its calls as a model reads them."""
        if not self.text.strip() and not self.uses:  # some providers refuse a blank message
            return
        # With too many calls, the whole round was refused.
        uses = self.uses if len(self.uses) <= MAX_CALLS_A_ROUND else ()
        yield ChatMessage(role="assistant", content=self.text, tool_uses=uses)
        for use in uses:
            # Providers refuse a call without a result, so a call that was cut off gets one here.
            cut = _LEFT if self.is_left else _STOPPED
            content = self.outcomes.get(use.use_id) or self.to_repeat.get(use.use_id, cut)
            yield ChatMessage(role="tool", content=content, tool_call_id=use.use_id, name=use.name)


GIVEN = CallId("given")
"""Instead of a model's own id, for a call without a model."""


def only_call(task_id: TaskId | None, call: GivenCall, reading: Reading) -> Round:
    """Return the round of the one call that a task consists of. Its arguments may be made from anything in other
    conversations, so no address in them counts as given by a person."""
    use = ToolUse(call_id=GIVEN, name=call.tool, arguments=dumps(call.args))
    reading = replace(reading, has_read=True, has_own=True)
    return Round(task_id, 1, uses=(use,), whole=True, placed=True, is_given=True, reading=reading)


def first_calls(task_id: TaskId | None, calls: Sequence[GivenCall], reading: Reading) -> Round:
    """Return the round of the calls that a message makes. Providers expect ids that are unique in a conversation."""
    uses = tuple(
        ToolUse(call_id=CallId(f"{task_id}-{at}"), name=call.tool, arguments=dumps(call.args))
        for at, call in enumerate(calls)
    )
    return Round(task_id, 1, uses=uses, whole=True, is_given=True, goes_on=True, reading=reading)


def made_by(rounds: Iterable[Round]) -> frozenset[str]:
    """Return the names of the tools of which a call succeeded, or may have."""
    return frozenset(
        use.name
        for each in rounds
        for use in each.uses
        if use.use_id in each.unresolved or each.outcomes.get(use.use_id, "").startswith(OK)
    )


OK = '{"ok":true'
"""With what the `result_text` of a call that succeeded begins."""


class Outcomes:
    """Keeps each round up to date with its calls. A call is forgotten once no event can change it any more."""

    def __init__(self) -> None:
        self._calls = Calls()
        self._requested_in: dict[CallId, tuple[Round, str]] = {}
        """The round that requested each call, and the model's own id of the call."""
        self._shortened: dict[CallId, tuple[Round, str, JsonObject, tuple[ArtifactId, ...]]] = {}
        """The results that are there only in part."""

    def find(self, call_id: CallId) -> tuple[Round, str] | None:
        """Return the round of an open call, and the model's own id of the call."""
        return self._requested_in.get(call_id) if call_id in self._calls and self._calls[call_id].is_open else None

    def apply(self, body: EventBody, last: Round | None) -> None:
        """Take in one event; `last` is the latest round of its task."""
        if isinstance(body, ToolCallSummarized):
            self._replace_part(body)
            return
        call = self._calls.take(body)
        if call is None:
            return
        if isinstance(body, ToolCallRequested) and last is not None and (last.guessed or last.number == body.round):
            last.number, last.guessed = body.round, False
            self._requested_in[call.call_id] = last, body.use_id
        if call.call_id in self._requested_in:
            _update(*self._requested_in[call.call_id], call)
            self._note_part(*self._requested_in[call.call_id], call)
        if call.is_settled:
            self._calls.forget(call.call_id)
            self._requested_in.pop(call.call_id, None)

    def _note_part(self, round_: Round, use_id: str, call: CallRecord) -> None:
        if isinstance(call.outcome, ToolCallCompleted) and call.outcome.ok and call.outcome.cut is not None:
            assert isinstance(call.outcome.data, dict), "an excerpt is an object"
            round_.shortened[use_id] = ShortenedResult(call.call_id, call.outcome.cut)
            self._shortened[call.call_id] = round_, use_id, call.outcome.data, call.outcome.artifacts

    def _replace_part(self, summary: ToolCallSummarized) -> None:
        found = self._shortened.pop(summary.call_id, None)
        if found is not None:  # else the call was erased
            round_, use_id, excerpt, artifacts = found
            cut = round_.shortened.pop(use_id)
            data = summarized(excerpt, cut.artifact_id, summary.text)
            round_.outcomes[use_id] = result_text(data=data, artifacts=artifacts)


def _update(round_: Round, use_id: str, call: CallRecord) -> None:
    if call.decided is not None and call.decided.reaches:
        round_.reached[use_id] = call.decided.reaches
    if call.outcome is not None and (brought := getattr(call.outcome, "brought", ())):
        round_.brought[use_id] = brought
    match call.outcome:
        case None:
            if call.started is not None:
                round_.begun[use_id] = call.started.effect
        case ToolCallCompleted(ok=True, data=data, artifacts=artifacts):
            round_.outcomes[use_id] = result_text(data=data, artifacts=artifacts)
        case ToolCallCompleted(data=data, summary=summary, artifacts=artifacts):
            error: JsonObject = {"code": "tool.failed", "message": summary}
            round_.outcomes[use_id] = result_text(data=data, error=error, artifacts=artifacts)
        case ToolCallFailed(code=code, message=message):
            round_.outcomes[use_id] = result_text(error={"code": code, "message": message})
            round_.failures[use_id] = message
        case ToolCallCancelled():
            _close_approval(round_, use_id)
        case ToolCallUncertain(reason=reason, again=again):
            message = f"It may or may not have happened. {reason}"
            content = result_text(error={"code": "tool.uncertain", "message": message})
            if again:
                round_.to_repeat[use_id] = content
                _close_approval(round_, use_id)
            else:
                _doubt(round_, use_id, call, content)


def _doubt(round_: Round, use_id: str, call: CallRecord, content: str) -> None:
    """Apply an uncertain outcome. An approval of the call is no approval of repeating it."""
    match call.resolved and call.resolved.outcome:
        case "done":
            round_.unresolved.pop(use_id, None)
            done: JsonObject = {"done": True, "note": "A person looked, and says that it was done."}
            round_.outcomes[use_id] = result_text(data=done)
        case "again":
            round_.unresolved.pop(use_id, None)
            round_.outcomes.pop(use_id, None)
        case _:
            round_.outcomes[use_id] = content
            round_.unresolved[use_id] = next((use.name for use in round_.uses if use.use_id == use_id), "")
            round_.earlier.pop(use_id, None)
            round_.begun.pop(use_id, None)
            round_.to_repeat.pop(use_id, None)


def _close_approval(round_: Round, use_id: str) -> None:
    """Mark an earlier approval as ended, since its call has ended."""
    if (earlier := round_.earlier.get(use_id)) is not None:
        round_.earlier[use_id] = replace(earlier, has_ended=True)
