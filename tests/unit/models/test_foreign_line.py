"""What a line of a foreign worker says, and how a conversation becomes one text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ozzie_server_ext.domain.events import ToolUse
from ozzie_server_ext.domain.ids import CallId
from ozzie_server_ext.models.driver import ChatMessage
from ozzie_server_ext.models.foreign import fold_prompt, read_line
from ozzie_server_ext.protocol.worker import Error, Stop


@pytest.mark.parametrize(
    "line",
    [
        "",
        "plain",
        "  indented\t",
        "42",
        '"x"',
        '{"a":1}',
        "[1]",
        "null",
        '{"type":"token"}',
        '{"type":"token","text":7}',
        '{"type":["token"]}',
        '{"type":"dance"}',
        '{"ok":true}',
        '{"ok":false}',
        '{"ok":"false","error":"x"}',
        '{"type":"token","text":"twice","text":"x"}',
        "[" * 200,
    ],
)
def test_what_is_no_event_is_text_as_it_stands(line: str) -> None:
    assert read_line(line.encode(), is_first=False) == f"{line}\n"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"type":"token","text":"Hel"}', "Hel"),
        ('{"type":"token","text":""}', ""),
        ('{"type":"token","text":"a\\ud800"}', "a\ufffd"),
        ('{"type":"token","text":"x","id":"7","more":1}', "x"),
        ('{"type":"stop"}', Stop()),
        ('{"type":"stop","usage":3}', Stop()),
        ('{"type":"error","message":"No."}', Error(message="No.")),
        ('{"type":"error"}', Error(message="")),
        ('{"ok":false,"error":"No."}', Error(message="No.")),
    ],
)
def test_an_event_is_one_wherever_it_stands(line: str, said: object) -> None:
    assert read_line(line.encode(), is_first=False) == said
    assert read_line(line.encode(), is_first=True) == said


def test_an_acknowledgement_is_none_of_the_text_at_the_begin_only() -> None:
    assert read_line(b'{"ok":true,"session_id":"s"}', is_first=True) is None
    assert read_line(b'{"ok":true}', is_first=False) == '{"ok":true}\n'


def test_the_last_line_has_no_end_that_it_had_not() -> None:
    assert read_line(b"and th", is_first=False, has_end=False) == "and th"


@given(st.binary(max_size=200).filter(lambda line: b"\n" not in line))
def test_no_line_breaks_the_reader(line: bytes) -> None:
    said = read_line(line, is_first=True)

    assert said is None or isinstance(said, str | Stop | Error)


# --- one text -----------------------------------------------------------------------------------------


def user(text: str) -> ChatMessage:
    return ChatMessage(role="user", content=text)


def test_a_single_message_stands_alone_below_the_instructions() -> None:
    assert fold_prompt([user("hello")]) == "hello"
    assert fold_prompt([ChatMessage(role="system", content="Be brief."), user("hello")]) == "Be brief.\n\nhello"


def test_what_tools_gave_in_an_earlier_turn_is_told_without_their_calls() -> None:
    use = ToolUse(call_id=CallId("1"), name="calculator", arguments="{}")
    said = [
        user("what is 6*7?"),
        ChatMessage(role="assistant", content="", tool_uses=(use,)),
        ChatMessage(role="tool", content='{"value":42}', tool_call_id="1", name="calculator"),
        ChatMessage(role="assistant", content="42"),
        user("and 7*7?"),
    ]

    assert fold_prompt(said) == (
        'User: what is 6*7?\n\nResult of calculator: {"value":42}\n\nAssistant: 42\n\nUser: and 7*7?\n\nAssistant:'
    )
