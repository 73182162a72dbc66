"""Tools made from functions: the signature is the schema, and arguments are checked against it."""

from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from ozzie_server_ext.domain.errors import Bug
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.toolmeta import Idempotency, RiskLevel, SideEffect, ToolMeta, ToolResult
from ozzie_server_ext.observability.clock import FakeClock
from ozzie_server_ext.tools.base import FunctionTool, InvalidArguments, Tool, ToolContext
from ozzie_server_ext.tools.builtin import builtin_tools


async def greet(
    context: ToolContext,
    *,
    name: Annotated[str, Field(description="Who is greeted.", max_length=10)],
    times: Annotated[int, Field(ge=1)] = 1,
) -> ToolResult:
    """Greet somebody,
    kindly.

    This paragraph is for developers.
    """
    return ToolResult(ok=True, data=f"hello {name} " * times)


def tool(function: Any = greet, **changed: Any) -> FunctionTool:
    settings: dict[str, Any] = {
        "tool_id": "test.greet",
        "name": "greet",
        "side_effect": SideEffect.NONE,
        "risk_level": RiskLevel.LOW,
        "timeout_s": 1,
        "idempotency": Idempotency.SUPPORTED,
    }
    return FunctionTool(function, ToolMeta(**(settings | changed)))


async def carried_out(tool: Tool, args: JsonObject, context: ToolContext) -> ToolResult:
    """A call as the broker makes it, of a tool that may run."""
    plan = await tool.plan(tool.check(args), context)
    return plan.nothing or await tool.run(plan, context)


def test_the_model_is_told_what_the_signature_says() -> None:
    spec = tool().spec

    assert (spec.name, spec.description) == ("greet", "Greet somebody, kindly.")
    assert spec.parameters == {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "Who is greeted.", "maxLength": 10},
            "times": {"type": "integer", "minimum": 1, "default": 1},
        },
        "required": ["name"],
        "additionalProperties": False,
    }


def test_defaults_are_filled_in() -> None:
    assert tool().check({"name": "Ann"}) == {"name": "Ann", "times": 1}


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ({}, "name: field required"),
        ({"name": "Ann", "colour": "red"}, "colour: extra inputs are not permitted"),
        ({"name": 1}, "name: input should be a valid string"),
        ({"name": None}, "name: input should be a valid string"),
        ({"name": "Ann", "times": 0}, "times: input should be greater than or equal to 1"),
        ({"name": "Ann", "times": "many"}, "times: input should be a valid integer"),
        ({"name": "far too long a name"}, "name: string should have at most 10"),
        ({"context": "x", "name": "Ann"}, "context: extra inputs are not permitted"),
        ({"nam": "Ann"}, "name: field required; nam: extra inputs are not permitted"),
    ],
)
def test_wrong_arguments_are_refused_in_words_that_a_model_can_act_on(args: JsonObject, says: str) -> None:
    with pytest.raises(InvalidArguments) as refused:
        tool().check(args)

    assert str(refused.value).startswith("The arguments of greet do not fit: ")
    assert says in str(refused.value)


async def test_the_checked_arguments_reach_the_function() -> None:
    greeting = tool()

    result = await carried_out(greeting, {"name": "Ann", "times": 2}, ToolContext(Path("/"), FakeClock()))

    assert result.data == "hello Ann hello Ann "


def test_the_version_is_that_of_the_contract_and_not_of_the_code() -> None:
    async def same(
        context: ToolContext,
        *,
        name: Annotated[str, Field(description="Who is greeted.", max_length=10)],
        times: Annotated[int, Field(ge=1)] = 1,
    ) -> ToolResult:
        """Greet somebody, kindly."""
        return ToolResult(ok=True, data="other code")

    async def other(context: ToolContext, *, name: str) -> ToolResult:
        """Greet somebody, kindly."""
        return ToolResult(ok=True)

    version = tool().meta.version

    assert tool(same).meta.version == version
    assert tool(other).meta.version != version
    assert tool(name="welcome").meta.version != version


class Leaf(BaseModel):
    """One of a list."""

    colour: Annotated[str, Field(max_length=9)]


class Tree(BaseModel):
    """What has more of its kind in it."""

    branches: list["Tree"]


def test_what_a_schema_refers_to_stands_in_its_place_with_what_is_said_beside() -> None:
    async def rake(
        context: ToolContext,
        *,
        leaf: Annotated[Leaf, Field(description="The first one.")],
        more: tuple[Leaf, ...] = (),
    ) -> ToolResult:
        """Rake leaves."""
        return ToolResult(ok=True)

    parameters: Any = tool(rake).spec.parameters
    assert "$ref" not in str(parameters)
    leaf = parameters["properties"]["leaf"]
    assert (leaf["description"], leaf["required"]) == ("The first one.", ["colour"])
    assert parameters["properties"]["more"]["items"]["properties"]["colour"]["maxLength"] == 9


def test_a_schema_without_an_end_is_refused() -> None:
    async def climb(context: ToolContext, *, tree: Tree) -> ToolResult:
        """Climb."""
        return ToolResult(ok=True)

    with pytest.raises(Bug, match="Tree refers to itself"):
        tool(climb)


def test_a_tool_keeps_its_version_when_contracts_can_say_more() -> None:
    """It stands in logs, and a yes is bound to it. These are those of the Ozzie before there were tags, examples and
    currencies."""
    before = {
        "calc.eval": "7e96edab2407",
        "fs.read": "bef76d1ddc30",
        "fs.write": "248571426904",
        "web.fetch": "80e7d2815dda",
        "host.run": "e9ba4c2a78d1",
    }
    assert tool().meta.version == "700d4cc964a1"
    assert {each.meta.tool_id: each.meta.version for each in builtin_tools() if each.meta.tool_id in before} == before


def test_tags_and_examples_are_part_of_the_contract() -> None:
    assert len({tool().meta.version, tool(tags=("a",)).meta.version, tool(examples=("a",)).meta.version}) == 3
    assert tool(tags=("a",)).spec == tool().spec, "no model reads them"


def greet_at_once(context: ToolContext, *, name: str) -> ToolResult:
    """Greet somebody."""
    return ToolResult(ok=True, data=f"hello {name}")


async def test_a_plain_function_is_a_tool_that_waits_for_nothing(context: ToolContext) -> None:
    plain = tool(greet_at_once)

    assert (plain.waits, tool().waits) == (False, True)
    assert (plain.plan_waits, tool().plan_waits) == (False, False)
    assert (await carried_out(plain, {"name": "Ann"}, context)).data == "hello Ann"


def test_whether_a_tool_waits_is_no_part_of_its_contract() -> None:
    async def greet_at_once(context: ToolContext, *, name: str) -> ToolResult:
        """Greet somebody."""
        return ToolResult(ok=True)

    assert tool(greet_at_once).meta.version == tool(globals()["greet_at_once"]).meta.version
