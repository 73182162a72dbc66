"""The parts of a request are its canonical JSON, byte for byte: its hash is its name in the log."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ozzie_server_ext.domain.events import ToolUse
from ozzie_server_ext.domain.ids import CallId
from ozzie_server_ext.domain.messages import Picture
from ozzie_server_ext.domain.toolmeta import ToolSpec
from ozzie_server_ext.models.driver import ChatMessage, ModelChoice, ModelRequest
from ozzie_server_ext.protocol.jsontext import InvalidJson, canonical_bytes

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
VALUES = st.one_of(TEXT, st.integers(), st.booleans(), st.lists(TEXT, max_size=2))
PARAMETERS = st.dictionaries(TEXT, VALUES, max_size=3)
TOOLS = st.lists(st.builds(ToolSpec, name=TEXT, description=TEXT, parameters=PARAMETERS), max_size=3)
USES = st.lists(st.builds(ToolUse, call_id=TEXT, name=TEXT, arguments=TEXT), max_size=2).map(tuple)
PICTURES = st.lists(st.builds(Picture, path=TEXT, ref=TEXT, media_type=TEXT, size=st.integers(0, 9)), max_size=2)
MESSAGES = st.lists(
    st.builds(
        ChatMessage,
        role=st.sampled_from(["system", "user", "assistant", "tool"]),
        content=TEXT,
        tool_uses=USES,
        tool_call_id=TEXT,
        name=TEXT,
        pictures=PICTURES.map(tuple),
    ),
    min_size=1,
    max_size=3,
)


@given(MESSAGES, TOOLS, st.none() | PARAMETERS, TEXT, st.none() | st.integers(1, 9))
def test_the_parts_are_the_whole(
    messages: list[ChatMessage], tools: list[ToolSpec], schema: dict[str, Any] | None, name: str, most: int | None
) -> None:
    choice = ModelChoice(alias=name, provider="p", driver="d", model=name, max_tokens=most)
    request = ModelRequest(
        call_id=CallId("c"), choice=choice, messages=tuple(messages), tools=tuple(tools), schema=schema
    )

    for _ in range(2):  # the second time, the tools are known
        first, *middle, end, offered = request.to_parts()
        assert b"".join([first, *middle, end, offered]) == canonical_bytes(request.to_json())
        assert len(middle) == len(messages)


def test_half_a_character_is_refused_in_words() -> None:
    choice = ModelChoice(alias="a", provider="p", driver="d", model="m")
    request = ModelRequest(call_id=CallId("c"), choice=choice, messages=(ChatMessage(role="user", content="\ud800"),))
    with pytest.raises(InvalidJson, match="surrogates"):
        request.to_parts()
