"""Plain async functions as tools: what is taken for one, and what is refused in words."""

from typing import Any

import pytest

from ozzie_server_ext.domain.errors import Bug, Conflict, InputError
from ozzie_server_ext.domain.toolmeta import ToolResult
from ozzie_server_ext.embedding import ToolContext, open_gate
from ozzie_server_ext.tools.builtin import builtin_tools

READS: Any = {"side_effect": "none", "risk_level": "low"}


async def greet(name: str, times: int = 1) -> str:
    """Greet somebody,
    kindly.

    This is for developers.
    """
    return f"hello {name} " * times


async def test_the_signature_is_the_schema_and_the_docstring_the_description() -> None:
    async with open_gate() as gate:
        tool = gate.register(greet, tool_id="test.greet", targets={"name": "path"}, **READS)

    assert (tool.spec.name, tool.spec.description) == ("greet", "Greet somebody, kindly.")
    assert tool.spec.parameters["required"] == ["name"]
    assert tool.spec.parameters["properties"] == {
        "name": {"type": "string"},
        "times": {"type": "integer", "default": 1},
    }
    assert [(target.argument, target.kind) for target in tool.meta.targets] == [("name", "path")]
    assert len(tool.meta.version) == 12


async def test_annotations_that_are_written_as_text_are_read() -> None:
    async def later(count: "int") -> "int":
        """Count."""
        return count + 1

    async with open_gate() as gate:
        gate.register(later, tool_id="test.later", **READS)
        assert (await gate.call("later", {"count": 1})).data == 2
        assert (await gate.call("later", {"count": "one"})).code == "tool.arguments"


async def test_a_function_that_asks_for_the_context_gets_it() -> None:
    async def who(context: ToolContext, name: str) -> ToolResult:
        """Say for whom."""
        return ToolResult(ok=True, data=[name, context.caller.user, bool(context.key)])

    async with open_gate() as gate:
        gate.register(who, tool_id="test.who", **READS)
        assert (await gate.call("test.who", {"name": "ana"})).data == ["ana", "", True]


async def _undocumented(name: str) -> str:
    return name


async def _untyped(name) -> str:
    """Say it."""
    return name


async def _many(*names: str) -> str:
    """Say them."""
    return " ".join(names)


def _waiting(name: str) -> str:
    """Say it, and let everybody wait."""
    return name


@pytest.mark.parametrize("function", [_undocumented, _untyped, _many, _waiting])
async def test_what_can_not_be_a_tool_is_refused_in_words(function: Any) -> None:
    async with open_gate() as gate:
        with pytest.raises(InputError, match=function.__name__) as refused:
            gate.register(function, tool_id="test.odd", **READS)
        assert refused.value.code == "tool.function"
        assert gate.registry.all() == ()


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"side_effect": "harmless"}, ValueError),
        ({"risk_level": "tiny"}, ValueError),
        ({"categories": ["fun"]}, ValueError),
        ({"targets": {"name": "somebody"}}, ValueError),
        ({"targets": {"name": "amount"}}, Bug),
        ({"targets": {"name": "amount euros"}}, Bug),
        ({"targets": {"name": "person EUR"}}, Bug),
        ({"targets": {"nobody": "path"}}, Bug),
        ({"tool_id": "greet"}, Bug),
    ],
)
async def test_a_contract_that_can_not_hold_is_refused(changed: dict[str, Any], error: type[Exception]) -> None:
    async with open_gate() as gate:
        with pytest.raises(error):
            gate.register(greet, **{"tool_id": "test.greet", **READS, **changed})


async def test_no_tool_takes_the_name_of_another() -> None:
    async def calculator(expr: str) -> str:
        """Say that all is nought."""
        return "0"

    async with open_gate() as gate:
        gate.add(*builtin_tools())
        with pytest.raises(Conflict):
            gate.register(calculator, tool_id="test.calculator", **READS)
        assert (await gate.call("calculator", {"expr": "6*7"})).data == {"value": "42"}


async def test_what_is_no_json_is_no_result() -> None:
    async def odd() -> Any:
        """Give what nobody can write down."""
        return object()

    async with open_gate() as gate:
        gate.register(odd, tool_id="test.odd", **READS)
        outcome = await gate.call("odd")

    assert (outcome.status, outcome.code) == ("failed", "input.json")
