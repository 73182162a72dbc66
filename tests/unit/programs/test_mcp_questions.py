"""What is read from the schema of a server's question (elicitation)."""

import pytest
from mcp_types import ElicitRequestFormParams

from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.programs.mcp_questions import NotAskable, question_of


def asked(names: Json) -> ElicitRequestFormParams:
    field = {"type": "string", "enum": ["a", "b"], "enumNames": names}
    return ElicitRequestFormParams.model_validate(
        {"message": "Which?", "requestedSchema": {"type": "object", "properties": {"x": field}}}
    )


def test_choices_have_their_servers_names_as_far_as_it_gives_some() -> None:
    (field,) = question_of("1", asked(["Ann"])).fields

    assert [(choice.value, choice.title) for choice in field.choices] == [("a", "Ann"), ("b", "")]


@pytest.mark.parametrize("names", [{"a": "Ann", "b": "Bea"}, 2, True, "Ann"])
def test_names_of_choices_that_are_no_list_are_nothing_to_ask(names: Json) -> None:
    with pytest.raises(NotAskable, match="can't be read"):
        question_of("1", asked(names))
