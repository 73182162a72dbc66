"""Questions to the user: a model's, whose answer is the call's result, and a server's, for which its call waits."""

import asyncio
from collections.abc import Iterable
from weakref import WeakValueDictionary

from ozzie_server_ext.domain.approvals import SKIP
from ozzie_server_ext.domain.clock import IdSource
from ozzie_server_ext.domain.content import Content, Label
from ozzie_server_ext.domain.events import (
    Event,
    PromptAnswered,
    PromptOption,
    PromptRequested,
    TaskQueued,
    TaskStarted,
    ToolCallCompleted,
)
from ozzie_server_ext.domain.ids import CallId, PromptId, TaskId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.render.text import cut_end, visible_label, visible_prose
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.store.shielded import shielded
from ozzie_server_ext.tools.base import ModelQuestion, PersonPrompt, PersonSaid

TEXT = "text"
"""The option for a free answer. Choices are numbered from 1."""
MOST_TEXT = 20_000
"""Characters of a free answer: it is typed, not a document."""

_SUMMARY = 40


def prompt_of(question: ModelQuestion, prompt_id: PromptId, call_id: CallId) -> PromptRequested:
    """Return the event that puts the question. The model's words are shown as visible text only."""
    choices = [
        PromptOption(name=str(number), label=visible_label(each.label), help=visible_label(each.help))
        for number, each in enumerate(question.choices, 1)
    ]
    own = PromptOption(name=TEXT, label="Something else…" if choices else "Answer", takes_text=True)
    return PromptRequested(
        prompt_id=prompt_id,
        kind="question",
        question=visible_prose(question.text),
        notes=(),
        options=(*choices, *((own,) if question.is_free else ()), PromptOption(name=SKIP, label="Skip")),
        call_id=call_id,
    )


def outcome_of(call_id: CallId, option: PromptOption, text: str, waited_ms: float) -> ToolCallCompleted:
    """Return the call's result from an answer. `waited_ms` is how long the question was open."""
    answer = text if option.takes_text else option.label
    data: JsonObject = {"answer": answer}
    if option.name == SKIP:
        data = {"answer": None, "note": "The user skipped the question."}
    summary = "skipped" if option.name == SKIP else cut_end(visible_label(answer), _SUMMARY)
    return ToolCallCompleted(call_id=call_id, ok=True, data=data, summary=summary, duration_ms=waited_ms)


# --- a server's -------------------------------------------------------------------------------------------------------

SERVER = "server"
"""The kind of a server's question, and the source of what is recorded of it: a replay takes it from the record."""
ASKING_S = 600.0
"""How long a question of a server waits for a person."""


def server_asks(events: Iterable[Event]) -> bool:
    """Return whether a call of the task with these events waits for an answer to a server."""
    waits = False
    for event in events:
        match event.body:
            case PromptRequested(kind=kind):
                waits = kind == SERVER
            case PromptAnswered() | TaskQueued() | TaskStarted():
                waits = False
            case _:
                pass
    return waits


class Prompts:
    """The questions of servers that wait for an answer. A task has one at a time. `answered` is told of all answers."""

    def __init__(self, ids: IdSource, *, wait_s: float = ASKING_S) -> None:
        self._ids = ids
        self._wait_s = wait_s
        self._open: dict[PromptId, asyncio.Future[PersonSaid]] = {}
        self._asking: WeakValueDictionary[TaskId, asyncio.Lock] = WeakValueDictionary()
        """Each is there as long as a question of its task is."""
        self._waiting: dict[TaskId, int] = {}

    def waits(self, task_id: str) -> bool:
        """Return whether a call of the task waits for an answer."""
        return task_id in self._waiting

    def answered(self, events: Iterable[Event]) -> None:
        """Hand answers over to the calls that wait for them."""
        for event in events:
            match event.body:
                case PromptAnswered(prompt_id=prompt_id, option=option, text=text):
                    if (waiting := self._open.get(prompt_id)) is not None and not waiting.done():
                        waiting.set_result(PersonSaid(option, text))
                case _:
                    pass

    async def ask(self, prompt: PersonPrompt, call_id: CallId, recorder: Recorder) -> PersonSaid | None:
        """Record a question, and return what a person answers; None if nobody does in time, which is recorded too."""
        task_id = recorder.task_id
        one_at_a_time = self._asking.setdefault(task_id, asyncio.Lock())
        async with one_at_a_time:
            prompt_id = PromptId(self._ids.new())
            asked = PromptRequested(
                prompt_id=prompt_id,
                kind=SERVER,
                question=prompt.question,
                notes=prompt.notes,
                options=prompt.options,
                call_id=call_id,
            )
            words = Content.of(Label.MCP, [prompt.server])
            recorder = recorder.made_from(recorder.content | words).from_source(SERVER)
            answer = self._open[prompt_id] = asyncio.get_running_loop().create_future()
            self._waiting[task_id] = 1
            try:
                await recorder.append(asked)
                async with asyncio.timeout(self._wait_s):
                    return await answer
            except TimeoutError:
                return None
            finally:
                del self._open[prompt_id], self._waiting[task_id]
                if answer.cancelled() or not answer.done():
                    await shielded(recorder.append(PromptAnswered(prompt_id=prompt_id, option=SKIP, by="nobody")))
