"""A model's question to the user: the event that puts it, and the call's result from the answer."""

from ozzie_server_ext.domain.approvals import SKIP
from ozzie_server_ext.domain.events import PromptOption, PromptRequested, ToolCallCompleted
from ozzie_server_ext.domain.ids import CallId, PromptId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.render.text import cut_end, visible_label, visible_prose
from ozzie_server_ext.tools.base import ModelQuestion

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
