"""docs/embedding.md: its programs run, print what it says, and are as short as it says."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from ozzie_server_ext.embedding import Answerer, Caller, Gate, Outcome, ToolFailed, Way, open_gate
from ozzie_server_ext.tools.builtin import builtin_tools

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "embedding.md").read_text()
PROGRAM, SUITE = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
(PRINTED,) = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)


def run(folder: Path, *command: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, *command], cwd=folder, capture_output=True, text=True, timeout=50)


def test_the_program_prints_what_the_page_says(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)

    done = run(tmp_path, "program.py")

    assert (done.stdout, done.stderr) == (PRINTED, "")


def test_the_program_has_twenty_lines() -> None:
    assert len([line for line in PROGRAM.splitlines() if line.strip()]) <= 20


def test_the_suite_passes(tmp_path: Path) -> None:
    (tmp_path / "test_pay.py").write_text(SUITE)
    written = SUITE.count("async def test_")

    done = run(tmp_path, "-m", "pytest", "-q", "--rootdir", str(tmp_path), "test_pay.py")

    assert written == 2
    assert f"{written} passed" in done.stdout, done.stdout


async def _odd(how: str) -> Any:
    """Fail in that way."""
    if how == "failed":
        raise ToolFailed("It can't.")
    if how == "broken":
        raise ZeroDivisionError
    if how == "large":
        return "x" * (5 << 20)
    return object() if how == "json" else await asyncio.Event().wait()


async def failing(gate: Gate) -> dict[str, Outcome]:
    """A call that fails for each reason that the page tells of."""
    reads: Any = {"side_effect": "none", "risk_level": "low", "timeout_s": 0.05}
    gate.register(_odd, tool_id="test.odd", **reads)
    gate.add(*builtin_tools())
    found = {
        "tool.unknown": await gate.call("nobody"),
        "tool.arguments": await gate.call("_odd", {}),
        "tool.failed": await gate.call("_odd", {"how": "failed"}),
        "tool.broken": await gate.call("_odd", {"how": "broken"}),
        "tool.timed_out": await gate.call("_odd", {"how": "waits"}),
        "tool.too_large": await gate.call("_odd", {"how": "large"}),
        "input.json": await gate.call("_odd", {"how": "json"}),
    }
    note = {"path": "a.md", "text": "hello"}
    asked = await gate.call("write_file", note)
    await gate.approvals.reject(asked.approval_id, Answerer(name="Ana", way=Way.CLI))
    found["approval.rejected"] = await gate.call("write_file", note, again=asked.approval_id)
    gate.set_policy(
        '{"rules": [{"id": "no", "decision": "deny", "reason": "Not today.", "when": {"tools": ["fs.*"]}, '
        '"examples": {"match": [{"tool": "fs.read"}]}}]}'
    )
    found["policy.denied"] = await gate.call("read_file", {"path": "a.md"})
    return found


async def test_every_code_of_what_fails_is_told_and_no_other(tmp_path: Path) -> None:
    told = re.findall(r"^\| `([a-z]+(?:\.[a-z_]+)?)`", PAGE.split("| `code` of a failure")[1].split("\n\n")[0], re.M)

    async with open_gate(project=tmp_path) as gate:
        found = await failing(gate)
    async with open_gate(project=tmp_path, caller=Caller(attended=False)) as gate:
        gate.add(*builtin_tools())
        found["policy.unattended"] = await gate.call("write_file", {"path": "a.md", "text": "hello"})

    assert {code: outcome.code for code, outcome in found.items()} == {code: code for code in found}
    assert {outcome.status for outcome in found.values()} == {"failed"}
    assert set(told) == {*found, "cancelled"}
