"""`user.ask`: what a model may ask a person, how it is put, and what an answer comes to."""

from typing import Any

import pytest

from ozzie_server_ext.domain.events import PromptRequested, ToolCallDecided, ToolCallFailed, ToolUse
from ozzie_server_ext.domain.ids import CallId, PromptId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.policy.decision import Caller
from ozzie_server_ext.tools.base import InvalidArguments, ModelQuestion, ToolContext, ToolFailed
from ozzie_server_ext.tools.broker import CallPosition
from ozzie_server_ext.tools.builtin import user
from ozzie_server_ext.tools.questions import outcome_of, prompt_of
from tests.brokers import facts_of
from tests.unit.tools.test_broker import Bench

ASK, _ = user.TOOLS
WHICH: JsonObject = {
    "question": "Which year?",
    "options": [{"label": "2025", "help": "The last full one."}, {"label": " 2026 "}],
}


async def put(context: ToolContext, args: JsonObject) -> PromptRequested:
    """The question as a person sees it."""
    question = (await ASK.plan(ASK.check(args), context)).question
    assert question is not None
    return prompt_of(question, PromptId("p"), CallId("c"))


def test_a_model_reads_what_an_option_is_where_it_stands() -> None:
    """Not every provider follows a `$ref`."""
    parameters: Any = ASK.spec.parameters
    options = parameters["properties"]["options"]

    assert options["items"]["required"] == ["label"]
    assert set(options["items"]["properties"]) == {"label", "help"}
    assert "$ref" not in str(ASK.spec.parameters)


async def test_options_are_called_by_their_numbers_and_other_words_are_taken_too(context: ToolContext) -> None:
    prompt = await put(context, WHICH)

    assert (prompt.kind, prompt.question, prompt.call_id) == ("question", "Which year?", "c")
    told = [(each.name, each.label, each.help, each.takes_text) for each in prompt.options]
    assert told == [
        ("1", "2025", "The last full one.", False),
        ("2", "2026", "", False),
        ("text", "Something else…", "", True),
        ("skip", "Skip", "", False),
    ]


@pytest.mark.parametrize(
    ("args", "names"),
    [
        ({**WHICH, "only_options": True}, ["1", "2", "skip"]),
        ({"question": "Who are you?"}, ["text", "skip"]),
        ({"question": "Who are you?", "only_options": True}, ["text", "skip"]),
    ],
)
async def test_there_is_always_some_way_to_answer_and_one_to_skip(
    context: ToolContext, args: JsonObject, names: list[str]
) -> None:
    assert [each.name for each in (await put(context, args)).options] == names


@pytest.mark.parametrize(
    "args",
    [
        {},
        {"question": ""},
        {"question": "x" * 2001},
        {"question": "Which?", "options": [{"label": str(number)} for number in range(7)]},
        {"question": "Which?", "options": ["a", "b"]},
        {"question": "Which?", "options": [{"label": ""}]},
        {"question": "Which?", "options": [{"label": "a", "help": "x" * 201}]},
        {"question": "Which?", "options": [{"label": "a", "colour": "red"}]},
    ],
)
def test_what_a_person_could_not_read_is_refused(args: JsonObject) -> None:
    with pytest.raises(InvalidArguments):
        ASK.check(args)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ({"question": "Which?", "options": [{"label": "a"}, {"label": " a"}]}, "label of its own"),
        ({"question": "Which?", "options": [{"label": "a b"}, {"label": "a  b"}]}, "label of its own"),
        ({"question": "Which?", "options": [{"label": " "}]}, "label of its own"),
        ({"question": " \n "}, "empty"),
    ],
)
async def test_what_could_not_be_told_apart_is_refused(context: ToolContext, args: JsonObject, says: str) -> None:
    with pytest.raises(ToolFailed, match=says):
        await ASK.plan(ASK.check(args), context)


async def test_nothing_invisible_is_in_what_a_person_reads(context: ToolContext) -> None:
    args: JsonObject = {
        "question": "Delete\u202e it\u200b?\nReally?",
        "options": [{"label": "y\u202ees", "help": "a\nb"}],
    }
    prompt = await put(context, args)

    assert "\u202e" not in repr(prompt)
    assert "\u200b" not in repr(prompt)
    assert prompt.question.count("\n") == 1, "lines of a question stay"
    assert "\n" not in prompt.options[0].help


@pytest.mark.parametrize(
    ("name", "text", "data", "summary"),
    [
        ("1", "", {"answer": "2025"}, "2025"),
        ("text", "the one\nbefore", {"answer": "the one\nbefore"}, "the one before"),
        ("text", "x" * 99, {"answer": "x" * 99}, "x" * 39 + "…"),
        ("skip", "", {"answer": None, "note": "The user skipped the question."}, "skipped"),
    ],
)
async def test_the_answer_is_the_result_of_the_call(
    context: ToolContext, name: str, text: str, data: JsonObject, summary: str
) -> None:
    prompt = await put(context, WHICH)
    option = next(each for each in prompt.options if each.name == name)

    outcome = outcome_of(CallId("c"), option, text, 1500.0)

    assert (outcome.ok, outcome.data, outcome.summary, outcome.duration_ms) == (True, data, summary, 1500.0)


class Asking(Bench):
    """One call of `ask_user`, in a cell or where nobody is."""

    async def asked(self, *, attended: bool) -> tuple[Any, ...]:
        self.context = ToolContext(self.context.project, self.clock, caller=Caller(project="/p", attended=attended))
        broker = self.broker(ASK)
        use = ToolUse(call_id=CallId("u"), name="ask_user", arguments='{"question": "Which year?"}')
        return facts_of(await broker.call(use, CallPosition(1, 0), self.context, self.recorder))


async def test_the_broker_puts_it_and_records_nothing_before_the_turn_is_let_go_of(context: ToolContext) -> None:
    bench = Asking(context)

    requested, decided, prompt = await bench.asked(attended=True)

    assert await bench.recorded() == ()
    assert isinstance(decided, ToolCallDecided)
    assert decided.decision == "ALLOW"
    assert isinstance(prompt, PromptRequested)
    assert prompt.call_id == requested.call_id


async def test_where_nobody_is_there_it_is_said_and_not_waited_for(context: ToolContext) -> None:
    bench = Asking(context)

    assert await bench.asked(attended=False) == ()

    *_, failed = await bench.recorded()
    assert isinstance(failed, ToolCallFailed)
    assert (failed.code, failed.message) == ("policy.unattended", "Not done: nobody was there to ask (ask_user).")


def test_a_question_without_choices_is_free() -> None:
    assert [each.name for each in prompt_of(ModelQuestion(text="?"), PromptId("p"), CallId("c")).options] == [
        "text",
        "skip",
    ]
