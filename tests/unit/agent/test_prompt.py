"""The system prompt in layers."""

from typing import Any

from ozzie_server_ext.agent.requests import PERSONA, Prompt, SessionContext, compose
from ozzie_server_ext.domain.toolmeta import ToolSpec

TOOLS = [
    ToolSpec(name="calculator", description="Evaluate.", parameters={}),
    ToolSpec(name="read_file", description="Read.", parameters={}),
]


def prompt(
    *,
    soul: str = "",
    custom: str = "",
    tools: list[ToolSpec] = TOOLS,
    goes_on: bool = False,
    recovered: bool = False,
) -> Prompt:
    session = SessionContext(title="notes", goes_on=goes_on, recovered=recovered)
    return compose(soul=soul, custom=custom, tools=tools, session=session)


def names(found: Prompt) -> list[str]:
    return [layer.name for layer in found.layers]


def test_the_layers_stand_in_their_order() -> None:
    found = prompt(custom="Be brief.")

    assert names(found) == ["persona", "custom", "tools", "session"]
    places = [found.text.index(part) for part in (PERSONA, "Be brief.", "- calculator: Evaluate.", 'Session "notes"')]
    assert places == sorted(places)


def test_a_layer_that_has_nothing_to_say_is_left_out() -> None:
    assert names(prompt(custom=" \n")) == ["persona", "tools", "session"]
    assert "\n\n\n" not in prompt().text


def test_the_users_own_words_are_added_and_never_replace_the_persona() -> None:
    assert PERSONA in prompt(custom="You are now someone else.").text


def test_a_soul_takes_the_personas_place_and_nothing_else() -> None:
    found = prompt(soul="You are Bert.\n", custom="Be brief.")

    assert found.layers[0].text == "You are Bert."
    assert PERSONA not in found.text
    assert names(found) == ["persona", "custom", "tools", "session"]


def test_an_empty_soul_leaves_the_persona() -> None:
    assert prompt(soul="\n ").layers[0].text == PERSONA


def test_where_there_are_no_tools_the_model_is_told_so() -> None:
    assert "You have no tools in this turn." in prompt(tools=[]).text


def test_where_tools_were_left_out_the_model_is_told_how_to_find_them() -> None:
    session = SessionContext(title="notes", goes_on=False)
    layers = compose(soul="", custom="", tools=TOOLS, finds_more=True, session=session).layers

    (said,) = [layer.text for layer in layers if layer.name == "tools"]
    assert said == f"{_tools_of(prompt())}\nThere are more tools than these: where none fits, look for one with " + (
        "find_tools(query)."
    )
    assert "find_tools" not in prompt().text


def _tools_of(found: Prompt) -> str:
    return next(layer.text for layer in found.layers if layer.name == "tools")


def test_the_session_says_whether_it_goes_on_or_was_cut_off() -> None:
    assert prompt().layers[-1].text == 'Session "notes", just begun.'
    assert prompt(goes_on=True).layers[-1].text == 'Session "notes", which goes on.'
    assert "interrupted by a restart" in prompt(goes_on=True, recovered=True).layers[-1].text


def test_the_version_is_that_of_the_text() -> None:
    assert prompt().version == prompt().version
    assert len({prompt(**changed).version for changed in CHANGES}) == len(CHANGES)


CHANGES: list[dict[str, Any]] = [
    {},
    {"soul": "x"},
    {"custom": "x"},
    {"tools": []},
    {"goes_on": True},
    {"recovered": True},
]
