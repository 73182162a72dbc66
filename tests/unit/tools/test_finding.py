"""`find_tools` tells of the tools that were left out."""

from collections.abc import Sequence

import msgspec

from ozzie_server_ext.domain.content import CLEAN, Content, Label
from ozzie_server_ext.domain.json import JsonObject, objects
from ozzie_server_ext.domain.toolmeta import ToolResult
from ozzie_server_ext.tools.base import Tool, ToolContext
from ozzie_server_ext.tools.builtin.finding import MAX_SENTENCE, TOOLS
from tests.unit.tools.many import made
from tests.unit.tools.test_base import carried_out

(FIND,) = TOOLS
SHOP = Content.of(Label.MCP, ["shop"])


class Box:
    """Has what it is given."""

    def __init__(self, *tools: Tool) -> None:
        self.tools = tools

    def find(self, query: str, limit: int) -> Sequence[Tool]:
        return self.tools[:limit]


async def found(context: ToolContext, *tools: Tool) -> ToolResult:
    asked: JsonObject = {"query": "anything"}
    return await carried_out(FIND, asked, msgspec.structs.replace(context, toolbox=Box(*tools)))


def listed(result: ToolResult) -> list[JsonObject]:
    assert isinstance(result.data, dict)
    return objects(result.data["tools"])


async def test_names_and_first_sentences_are_told(context: ToolContext) -> None:
    result = await found(context, made("a.a", "alpha", "Sell v1.5 of it. Ask first."), made("b.b", "beta", "Buy"))

    assert result.data == {"tools": [{"name": "alpha", "does": "Sell v1.5 of it."}, {"name": "beta", "does": "Buy"}]}
    assert (result.summary, result.content) == ("2 tools", CLEAN)


async def test_what_somebody_outside_said_of_a_tool_is_told_with_its_label(context: ToolContext) -> None:
    assert (await found(context, made("a.a", "alpha", "x"), made("b.b", "beta", "y", told_by=SHOP))).content == SHOP


async def test_a_sentence_without_an_end_is_cut(context: ToolContext) -> None:
    result = await found(context, made("a.a", "alpha", "word " * 5000))

    (told,) = listed(result)
    assert len(str(told["does"])) == MAX_SENTENCE
    assert FIND.meta.max_inline_chars > 10 * (MAX_SENTENCE + 64 + 30), "ten of them are told whole"


async def test_where_nothing_is_left_out_none_is_found(context: ToolContext) -> None:
    result = await carried_out(FIND, {"query": "anything"}, context)

    assert result.data == {"tools": [], "note": "None fits. Try other words."}


async def test_no_more_than_ten_are_told(context: ToolContext) -> None:
    result = await found(context, *(made(f"a.t{number}", f"t{number}", "x") for number in range(30)))

    assert len(listed(result)) == 10
