"""What was said in a session, folded from its events: the next request to a model, and what a turn still owes.

A turn has no other memory than this. So it goes on after a crash from exactly what the log says was done.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeAlias, TypeVar
from weakref import WeakValueDictionary

from ozzie_server_ext.agent.provenance import Readings
from ozzie_server_ext.agent.rounds import GO_ON, MAX_CALLS_A_ROUND, Outcomes, Round
from ozzie_server_ext.agent.structured_output import complaint
from ozzie_server_ext.agent.toolsets import Toolsets
from ozzie_server_ext.domain.approvals import AuthStrength
from ozzie_server_ext.domain.content import Content
from ozzie_server_ext.domain.events import (
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRequested,
    Event,
    GivenCall,
    LabelsCleared,
    MessageCompleted,
    MessageReceived,
    MessageRejected,
    ModelCallCompleted,
    ModelCallStarted,
    PromptAnswered,
    PromptRequested,
    TaskCreated,
    TaskModelChosen,
    TaskQueued,
    TaskRetried,
    TaskStalled,
    TaskStarted,
    TaskUpdated,
    ToolCallCancelled,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallRequested,
    ToolCallResolved,
    ToolCallStarted,
    ToolCallUncertain,
    ToolsetInjected,
    ToolUse,
)
from ozzie_server_ext.domain.ids import ApprovalId, BlobRef, CallId, ReplyId, SessionId, TaskId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.messages import MAX_PICTURES, MAX_SHOWN_BYTES, Picture
from ozzie_server_ext.models.driver import ChatMessage
from ozzie_server_ext.protocol.jsontext import dumps
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.tools.permissions import Earlier, Grant

ABSENT = "does not exist"
NOT_SHOWN = "belongs to this message, and is not shown"
BEFORE = "was shown with this message, and is not shown again"
AGAIN = "belongs to this message, too, and is shown below"
UNSEEN = "belongs to this message; you can't see it"


def with_notes(text: str, paths: Sequence[str], what: str) -> str:
    """A message's text, with a line for each picture that is not beside it: a model that is not told takes it for
    seen, or guesses."""
    return "\n\n".join([text, "\n".join(f"[The picture {path} {what}.]" for path in paths)]) if paths else text


def with_latest_pictures(messages: Sequence[ChatMessage], *, sees: bool) -> tuple[ChatMessage, ...]:
    """The messages with the latest pictures, up to the first that does not fit any more; each content once."""
    room, places = MAX_SHOWN_BYTES, MAX_PICTURES if sees else 0
    shown: set[BlobRef] = set()
    found: list[ChatMessage] = []
    for message in reversed(messages):
        kept: list[Picture] = []
        notes: list[tuple[str, str]] = []
        for picture in reversed(message.pictures):
            if picture.ref in shown:
                notes.append((picture.path, AGAIN))
            elif places and picture.size <= room:
                room, places = room - picture.size, places - 1
                shown.add(picture.ref)
                kept.append(picture)
            else:
                places = 0
                notes.append((picture.path, BEFORE if sees else UNSEEN))
        for path, what in reversed(notes):
            message = replace(message, content=with_notes(message.content, [path], what))
        found.append(replace(message, pictures=tuple(reversed(kept))) if message.pictures else message)
    return tuple(reversed(found))


T = TypeVar("T")


class Updates(Generic[T]):
    """The fold, of as many tasks as there are."""

    def __init__(self) -> None:
        self._pending: dict[TaskId | None, list[T]] = {}
        self._heard: Counter[TaskId | None] = Counter()

    def add(self, task_id: TaskId | None, said: T) -> None:
        self._pending.setdefault(task_id, []).append(said)

    def heard(self, task_id: TaskId | None, count: int) -> list[T]:
        """What of it has its place now that the model was asked with the first `count`."""
        pending = self._pending.get(task_id, [])
        fresh = pending[: max(count - self._heard[task_id], 0)]
        del pending[: len(fresh)]
        self._heard[task_id] += len(fresh)
        return fresh

    def pending(self, task_id: TaskId | None) -> tuple[T, ...]:
        """What the model of the task has not been asked with."""
        return tuple(self._pending.get(task_id, ()))

    def count(self, task_id: TaskId | None) -> int:
        return self._heard[task_id] + len(self._pending.get(task_id, ()))


def say_more(found: list[ChatMessage], words: str) -> None:
    """The user's words, within their last message where no answer stands between: some refuse two in a row."""
    last = found[-1] if found else None
    if last is not None and last.role == "user":
        found[-1] = replace(last, content=f"{last.content}\n\n{words}")
    else:
        found.append(ChatMessage(role="user", content=words))


EVENT_TYPES = frozenset(
    {
        MessageReceived.type,
        MessageCompleted.type,
        MessageRejected.type,
        ModelCallStarted.type,
        ModelCallCompleted.type,
        ToolCallRequested.type,
        ToolCallStarted.type,
        ToolCallCompleted.type,
        ToolCallFailed.type,
        ToolCallUncertain.type,
        ToolCallCancelled.type,
        ToolCallResolved.type,
        ApprovalRequested.type,
        ApprovalGranted.type,
        ApprovalExpired.type,
        PromptAnswered.type,
        PromptRequested.type,
        TaskCreated.type,
        TaskQueued.type,
        TaskRetried.type,
        TaskStarted.type,
        TaskModelChosen.type,
        TaskUpdated.type,
        LabelsCleared.type,
        ToolsetInjected.type,
    }
)
"""The events that the fold looks at; all others may be left out.

`tool.call.cancelled` gives a call no outcome. A turn that a gateway's end cut off makes it again; where a person
stopped the turn, the model is told so in the place of a result. Neither does `tool.call.uncertain` of what is made
again with its key: where it is not, the model is told that it may have happened. A rejected call failed, as its own
event says.
"""


@dataclass(frozen=True, slots=True)
class _Said:
    """A message of the user's; `is_more` of one that came while its turn went on."""

    task_id: TaskId | None
    text: str
    pictures: tuple[Picture, ...] = ()
    is_more: bool = False


GIVEN = CallId("given")
"""What stands for a model's own id of a call that no model asked for."""


class Conversation:
    """The fold. Feed it a session's events in order with `apply`; those whose content was erased are not among them,
    and what is left is told as if nothing else had been said. What was delegated has a conversation of its own, which
    is fed with the events of that task alone, and is no part of the session's."""

    def __init__(self, events: Iterable[Event] = (), *, of: TaskId | None = None) -> None:
        """`of` is the delegated task whose conversation it is."""
        self.position = 0
        self._of = of
        self._delegated: set[TaskId] = set()
        self._entries: list[_Said | Round] = []
        self._received: dict[TaskId | None, _Said] = {}
        self._pictures: dict[TaskId | None, tuple[Picture, ...]] = {}
        self._schemas: dict[TaskId | None, JsonObject] = {}
        self._turns = 0
        self._last: dict[TaskId | None, Round] = {}
        self._rounds: dict[ReplyId, Round] = {}
        self._replies: dict[CallId, ReplyId] = {}
        self._beginless: dict[TaskId | None, Round] = {}
        self._outcomes = Outcomes()
        self._asked: dict[ApprovalId, tuple[Round, str]] = {}
        self._asks: Counter[TaskId | None] = Counter()
        self._checks: set[CallId] = set()
        self._doubts: dict[TaskId | None, dict[str, str]] = {}
        self._updates: Updates[_Said] = Updates()
        self.degraded: set[TaskId | None] = set()
        self._retried: set[TaskId | None] = set()
        self._readings = Readings()
        self.toolsets = Toolsets()
        for event in events:
            self.apply(event)

    def apply(self, event: Event) -> None:
        """Take in one event; those that were taken in already are passed over."""
        if event.position <= self.position:
            return
        self.position = event.position
        if self._is_elsewhere(event):
            return
        self._readings.apply(event)
        self._outcomes.apply(event.body, self.last_round(event.task_id))
        self.toolsets.apply(event)
        match event.body:
            case MessageReceived(text=text, pictures=pictures, absent=absent):
                self._received[event.task_id] = _Said(event.task_id, with_notes(text, absent, ABSENT), pictures)
                if pictures:
                    self._pictures[event.task_id] = pictures
            case TaskUpdated(text=text):
                self._updates.add(event.task_id, _Said(event.task_id, text, is_more=True))
            case ModelCallStarted(call_id=call_id, purpose="check"):
                self._checks.add(call_id)
            case ModelCallStarted(call_id=call_id, reply_id=reply_id, round=number, updates=updates):
                self._begin_turn(event.task_id)
                self._entries += self._updates.heard(event.task_id, updates)
                self._replies[call_id] = reply_id
                self._rounds[reply_id] = Round(event.task_id, number, reply_id, reading=self._readings.now)
                self._beginless.pop(event.task_id, None)
            case ModelCallCompleted(call_id=call_id, tool_uses=uses, finish=finish) if call_id not in self._checks:
                finished = self._entry(self._replies.get(call_id), event.task_id)
                # The last call of an answer that was cut may be half a call.
                finished.uses = () if finish == "length" else uses
                finished.finish = finish
                finished.whole = True
                self._last[event.task_id] = finished
            case MessageCompleted(reply_id=reply_id, text=text):
                self._entry(reply_id, event.task_id).text = text
            case MessageRejected(reply_id=reply_id, problem=problem):
                self._entry(reply_id, event.task_id).problem = problem
            case TaskCreated(call=call) if call is not None:
                self._give(event.task_id, call)
            case TaskCreated(answer_schema=schema) if schema is not None:
                self._schemas[event.task_id] = schema
            case ApprovalRequested(call_id=call_id, approval_id=approval_id) as asked if found := self._outcomes.find(
                call_id
            ):
                asking, use_id = found
                asking.earlier[use_id] = Earlier(asked=asked)
                self._asked[approval_id] = asking, use_id
                if asked.needs is not AuthStrength.MODEL:  # else no person was
                    self._asks[event.task_id] += 1
                if asked.checked:
                    self._doubts.setdefault(event.task_id, {})[asked.binds] = asked.checked
            case ApprovalGranted(approval_id=approval_id, way=way):
                self._answered(approval_id, Grant(way=way, at=event.ts))
            case ApprovalExpired(approval_id=approval_id):
                self._answered(approval_id, None)
            case PromptRequested(kind="question"):
                self._asks[event.task_id] += 1
            case PromptAnswered(option=option) if option == GO_ON:
                self._asks.pop(event.task_id, None)
            case TaskQueued(reason="recovered" | "answered" | "resumed"):
                # What was half said when the gateway went, or time was up, is said anew; with its task, what a person
                # stopped stays.
                self._entries = [entry for entry in self._entries if not _is_half(entry, event.task_id)]
                self._drop_short(event.task_id)
            case TaskRetried():
                # It is a new beginning: what ended it counts no more, and neither does a yes from before its end.
                self._drop(event.task_id, _is_refused)
                self._forget_answers(event.task_id)
                self._retried.add(event.task_id)
            case TaskStarted() if event.task_id in self._retried:
                self._retried.discard(event.task_id)
                self._begin_again(event.task_id)
            case TaskModelChosen(reason=reason):
                self._drop_short(event.task_id)
                if reason == TaskStalled.type:
                    self.degraded.add(event.task_id)
            case _:
                pass

    @property
    def content(self) -> Content:
        """Where from outside that came that stands in it."""
        return self._readings.now.content

    def goes_on(self, task_id: TaskId | None) -> bool:
        """Whether there were turns before the one of this task."""
        return self._turns > (task_id not in self._received)

    def last_round(self, task_id: TaskId | None) -> Round | None:
        """The latest answer of the model within a task that came whole."""
        return self._last.get(task_id)

    def pictures(self, task_id: TaskId | None) -> tuple[Picture, ...]:
        """Those of the message that the task answers."""
        return self._pictures.get(task_id, ())

    def schema(self, task_id: TaskId | None) -> JsonObject | None:
        """What the answer of the task has to fit."""
        return self._schemas.get(task_id)

    def rejected(self, task_id: TaskId | None) -> int:
        """How many answers of the task did not fit it."""
        rounds = (entry for entry in self._entries if isinstance(entry, Round))
        return sum(1 for entry in rounds if entry.task_id == task_id and entry.problem)

    def updates(self, task_id: TaskId | None) -> int:
        """How often more was said to the task, all of which stands in its `messages`."""
        return self._updates.count(task_id)

    def has_news(self, task_id: TaskId | None) -> bool:
        """Whether something of that has no answer behind it."""
        own = (entry for entry in reversed(self._entries) if entry.task_id == task_id)
        last = next((entry for entry in own if isinstance(entry, _Said) or entry.whole), None)
        return bool(self._updates.pending(task_id)) or (isinstance(last, _Said) and last.is_more)

    def asks(self, task_id: TaskId | None) -> int:
        """How often a person was asked something for the task, since they were told that it asks a lot."""
        return self._asks[task_id]

    def doubts(self, task_id: TaskId | None) -> dict[str, str]:
        """Why a second model did not say yes to calls of the task, by what each was bound to."""
        return self._doubts.get(task_id, {})

    def message(self, task_id: TaskId | None) -> str:
        """What the user said that the task answers; empty where that was erased."""
        said = [*self._received.values(), *(entry for entry in self._entries if isinstance(entry, _Said))]
        return next((each.text for each in said if each.task_id == task_id), "")

    def used_tools(self, task_id: TaskId | None) -> bool:
        """Whether the model asked for any within the task."""
        return any(each.uses for each in self._entries if isinstance(each, Round) and each.task_id == task_id)

    def messages(self, max_history: int, task_id: TaskId | None = None) -> tuple[ChatMessage, ...]:
        """The conversation as the model of this task reads it: at most `max_history` messages, beginning with one of
        the user's. Messages of other tasks that have not begun are left out."""
        found: list[ChatMessage] = []
        begins: list[int] = []  # where the user says something, which a complaint is not
        own = [self._received[task_id]] if task_id in self._received else []
        for entry in [*self._entries, *own, *self._updates.pending(task_id)]:
            if isinstance(entry, _Said) and entry.is_more:
                say_more(found, entry.text)
            elif isinstance(entry, _Said):
                begins.append(len(found))
                found.append(self._message(entry, task_id))
            elif not entry.problem:
                found.extend(entry.messages())
            elif entry.task_id == task_id:  # it came anew, and was of no interest but to its own turn
                found.extend(entry.messages())
                say_more(found, complaint(entry.problem))
        # Where one turn alone is longer than the window, all of that turn is kept.
        whole = [begin for begin in begins if begin >= len(found) - max_history]
        return tuple(found[min(whole) if whole else max(begins, default=0) :])

    def _message(self, said: _Said, task_id: TaskId | None) -> ChatMessage:
        """With its pictures, unless nobody has answered it: one that a provider refuses would end all turns to come."""
        if said.task_id == task_id or said.task_id in self._last:
            return ChatMessage(role="user", content=said.text, pictures=said.pictures)
        names = [picture.path for picture in said.pictures]
        return ChatMessage(role="user", content=with_notes(said.text, names, NOT_SHOWN))

    def _is_elsewhere(self, event: Event) -> bool:
        """Whether the event is part of what was delegated from here. Its beginning is the first that tells."""
        if self._of is None and isinstance(event.body, TaskCreated) and event.body.parent is not None:
            assert event.task_id is not None, "a task that began has an id"
            self._delegated.add(event.task_id)
        return event.task_id in self._delegated

    def _give(self, task_id: TaskId | None, call: GivenCall) -> None:
        """A round that no model was asked for. The arguments may be made from anything that was read before, in other
        conversations: no address in them counts as given by anybody."""
        use = ToolUse(call_id=GIVEN, name=call.tool, arguments=dumps(call.args))
        reading = replace(self._readings.now, has_read=True, has_own=True)
        given = Round(task_id, 1, uses=(use,), whole=True, placed=True, is_given=True, reading=reading)
        self._entries.append(given)
        self._last[task_id] = given

    def _begin_turn(self, task_id: TaskId | None) -> None:
        """A message stands where its turn begins: one that waits is no part of the turn before it, and one that was
        stopped while it waited is no part of any."""
        if task_id in self._received:
            self._entries.append(self._received.pop(task_id))
            self._turns += 1

    def _begin_again(self, task_id: TaskId | None) -> None:
        """What was said in a task that is tried again stands behind what others said meanwhile: it goes on now."""
        own = [entry for entry in self._entries if entry.task_id == task_id]
        self._entries = [entry for entry in self._entries if entry.task_id != task_id] + own

    def _entry(self, reply_id: ReplyId | None, task_id: TaskId | None) -> Round:
        """The answer of that reply, in its place."""
        found = self._rounds.get(reply_id) if reply_id else None
        found = found or self._without_begin(reply_id, task_id)
        if not found.placed:
            self._begin_turn(task_id)
            found.placed = True
            self._entries.append(found)
        return found

    def _without_begin(self, reply_id: ReplyId | None, task_id: TaskId | None) -> Round:
        """An answer whose begin was erased is put together from its end, which names no reply, and the text behind."""
        found = self._beginless.pop(task_id, None) if reply_id else None
        if found is None:
            last = self._last.get(task_id)
            found = Round(task_id, last.number + 1 if last else 1, guessed=True, reading=self._readings.now)
        if reply_id:
            found.reply_id = reply_id
            self._rounds[reply_id] = found
        else:
            self._beginless[task_id] = found
        return found

    def _drop_short(self, task_id: TaskId | None) -> None:
        """An answer that a budget bounded, and that broke off for it, comes anew once there is room, or from a cheaper
        model. One whose gateway ended before that could be said is not told from it: it is asked for once more."""
        last = self._last.get(task_id)
        if last is not None and last.finish == "length":
            self._drop(task_id, lambda entry: entry is last)

    def _drop(self, task_id: TaskId | None, unwanted: Callable[[Round], object]) -> None:
        """Forget rounds of the task. What is behind them comes after the round that is the last then."""
        self._entries = [
            entry
            for entry in self._entries
            if not (isinstance(entry, Round) and entry.task_id == task_id and unwanted(entry))
        ]
        rounds = [entry for entry in self._entries if isinstance(entry, Round) and entry.task_id == task_id]
        whole = [entry for entry in rounds if entry.whole]
        if whole:
            self._last[task_id] = whole[-1]
        else:
            self._last.pop(task_id, None)

    def _answered(self, approval_id: ApprovalId, grant: Grant | None) -> None:
        if approval_id in self._asked:
            asking, use_id = self._asked[approval_id]
            earlier = asking.earlier.get(use_id)
            if earlier is not None and earlier.asked.approval_id == approval_id:
                asking.earlier[use_id] = replace(earlier, grant=grant, is_open=False)

    def _forget_answers(self, task_id: TaskId | None) -> None:
        last = self._last.get(task_id)
        if last is not None:
            void = {use_id: replace(each, grant=None, is_open=False) for use_id, each in last.earlier.items()}
            last.earlier.update(void)


def _is_refused(entry: Round) -> bool:
    """Whether the answer is none that a retry goes on from: half of one, or one that ended its turn in words."""
    is_cut = not entry.whole or entry.finish in ("length", "content_filter")
    is_refused = bool(entry.problem) or len(entry.uses) > MAX_CALLS_A_ROUND
    return is_cut or is_refused or not (entry.text or entry.uses)


def _is_half(entry: _Said | Round, task_id: TaskId | None) -> bool:
    """Whether the entry is an answer in this task that did not come whole."""
    return isinstance(entry, Round) and entry.task_id == task_id and not entry.whole


Thread: TypeAlias = SessionId | TaskId

MAX_KEPT = 64
_PAGE = 1000


class Conversations:
    """A cache and nothing more: any of it can be folded again from the log."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._kept: OrderedDict[Thread, Conversation] = OrderedDict()
        # A turn in progress holds its conversation longer than the cache may: it has to go on growing.
        self._in_use: WeakValueDictionary[Thread, Conversation] = WeakValueDictionary()
        self._arriving: dict[Thread, list[Event]] = {}
        log.on_commit(self._follow)

    async def get(self, session_id: SessionId, delegated: TaskId | None = None) -> Conversation:
        """The session's conversation, or that of a task that was delegated in it, which goes on growing as facts are
        committed."""
        thread = delegated or session_id
        found = self._in_use.get(thread)
        if found is None:
            loaded = await self._load(thread, session_id, delegated)
            # Somebody else may have loaded it meanwhile: then that one is the one that grows.
            found = self._in_use.setdefault(thread, loaded)
        self._kept[thread] = found
        self._kept.move_to_end(thread)
        while len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)
        return found

    async def _load(self, thread: Thread, session_id: SessionId, delegated: TaskId | None) -> Conversation:
        # What is committed during the reading is kept aside and applied last: no gap, and `apply` drops doubles.
        arriving = self._arriving.setdefault(thread, [])
        conversation = Conversation(of=delegated)
        lineage = [(session_id, None)] if delegated else await self._lineage(session_id)
        for ancestor, end in lineage:
            after = 0
            while page := await self._log.read(
                after=after, before=end, limit=_PAGE, types=EVENT_TYPES, session_id=ancestor, task_id=delegated
            ):
                for event in page:
                    conversation.apply(event)
                after = page[-1].position
        for event in arriving:
            conversation.apply(event)
        self._arriving.pop(thread, None)
        return conversation

    async def _lineage(self, session_id: SessionId) -> list[tuple[SessionId, int | None]]:
        """The sessions that this one was forked from, the first of all before the others, and at last itself; each
        with the position before which it was left, None for itself."""
        found: list[tuple[SessionId, int | None]] = []
        end: int | None = None
        while session_id:
            found.append((session_id, end))
            rows = await self._log.rows("sessions", where={"session_id": session_id}, limit=1)
            if not rows:
                break
            end = int(str(rows[0]["forked_at"])) + 1
            session_id = SessionId(str(rows[0]["parent"]))
        return found[::-1]

    def _follow(self, events: tuple[Event, ...]) -> None:
        for event in events:
            if event.session_id is None or event.type not in EVENT_TYPES:
                continue
            for thread in (event.session_id, event.task_id):
                if thread is None:
                    continue
                if (conversation := self._in_use.get(thread)) is not None:
                    conversation.apply(event)
                if (arriving := self._arriving.get(thread)) is not None:
                    arriving.append(event)
