"""A call whose result is what a person answers: how it is put, and what an answer comes to (TL-7, UX §2.5)."""

from ozzie_server_ext.domain.answers import SKIP
from ozzie_server_ext.domain.events import PromptOption, PromptRequested, ToolCallCompleted
from ozzie_server_ext.domain.ids import CallId, PromptId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.render.text import cut_end, visible_label, visible_prose
from ozzie_server_ext.tools.base import Question

TEXT = "text"
"""The answer that is words of one's own. A choice is called by its number, from 1."""

MOST_TEXT = 20_000
"""In characters, of an answer in one's own words: as it is typed, and not a document."""

_SUMMARY = 40


def prompt_of(question: Question, prompt_id: PromptId, call_id: CallId) -> PromptRequested:
    """The question as it is put. What the model wrote is shown as text, with nothing invisible in it (THREATS 14)."""
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
    """What the model reads as the call's result. `waited_ms` is how long the question stood."""
    answer = text if option.takes_text else option.label
    data: JsonObject = {"answer": answer}
    if option.name == SKIP:
        data = {"answer": None, "note": "The user skipped the question."}
    summary = "skipped" if option.name == SKIP else cut_end(visible_label(answer), _SUMMARY)
    return ToolCallCompleted(call_id=call_id, ok=True, data=data, summary=summary, duration_ms=waited_ms)
