"""AGENTS.md names every program, handler, driver, provider and tool that there is, and no other."""

import re
from pathlib import Path
from typing import cast

import pytest

from ozzie_server_ext.config.settings import ProviderSettings
from ozzie_server_ext.gateway.routes import handlers
from ozzie_server_ext.models.credentials import KEY_VARIABLES
from ozzie_server_ext.protocol.worker import DEFAULT_SOCKET
from ozzie_server_ext.tools.builtin import builtin_tools

ROOT = Path(__file__).resolve().parents[2]
AGENTS = (ROOT / "AGENTS.md").read_text()
APPROVALS = (ROOT / "docs" / "approvals.md").read_text()


def rows(heading: str) -> dict[str, list[list[str]]]:
    """The rows of the table below this heading by their first name: the names in code of each other cell."""
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", AGENTS, re.MULTILINE | re.DOTALL)
    assert found is not None, heading
    lines = [line.strip("|").split("|") for line in found[1].splitlines() if line.startswith("| `")]
    return {cells[0].strip().strip("`"): [re.findall(r"`([^`]+)`", cell) for cell in cells[1:]] for cells in lines}


def test_every_program_is_named_and_no_other() -> None:
    files = [path for package in ("ozzie_server_ext", "ozzie_kernel") for path in (ROOT / package).rglob("*.py")]
    runs = {str(path.relative_to(ROOT)) for path in files if 'if __name__ == "__main__":' in path.read_text()}
    table = rows("Programs")

    assert set(table) == runs | {"ozzie_kernel/__main__.py"}
    assert DEFAULT_SOCKET in table["ozzie_server_ext/programs/worker.py"][2]


def test_every_handler_is_named_and_no_other() -> None:
    assert set(rows("Handlers of the gateway")) == {handler.__name__ for _, handler, *_ in handlers()}


def test_every_driver_is_named_and_no_other() -> None:
    text = "\n".join(path.read_text() for path in (ROOT / "ozzie_server_ext" / "models").glob("*.py"))

    assert set(rows("Drivers of models")) == set(re.findall(r"^class (\w+Driver)\b(?!\(Protocol)", text, re.MULTILINE))


def test_every_provider_is_named_with_its_keys_and_no_other() -> None:
    table = rows("Providers")
    drivers = ProviderSettings.model_json_schema()["properties"]["driver"]["enum"]

    assert set(table) == set(drivers)
    assert {name: cells[1] for name, cells in table.items() if cells[1]} == {
        name: list(variables) for name, variables in KEY_VARIABLES.items()
    }


def test_every_tool_is_named_with_its_arguments_and_no_other() -> None:
    there = {
        tool.meta.tool_id: (
            [tool.meta.name, *tool.meta.further_names],
            list(cast("dict[str, object]", tool.spec.parameters["properties"])),
        )
        for tool in builtin_tools()
    }

    assert {name: (cells[0], cells[2]) for name, cells in rows("Tools").items()} == there


@pytest.mark.parametrize("tool", builtin_tools(), ids=lambda tool: tool.meta.tool_id)
def test_every_tool_is_named_for_its_users(tool: object) -> None:
    assert f"`{tool.meta.name}`" in APPROVALS  # pyright: ignore[reportAttributeAccessIssue]
