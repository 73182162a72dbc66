"""Tools and callers to decide upon, and rules as somebody would write them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.toolmeta import (
    Category,
    Idempotency,
    RiskLevel,
    SideEffect,
    Target,
    TargetKind,
    ToolMeta,
    ToolSpec,
)
from ozzie_server_ext.policy.decision import Action, Caller
from ozzie_server_ext.policy.files import read
from ozzie_server_ext.policy.rules import KnownTool, Rule


def meta(tool_id: str, **changed: Any) -> ToolMeta:
    settings: dict[str, Any] = {
        "tool_id": tool_id,
        "name": tool_id.replace(".", "_"),
        "side_effect": SideEffect.NONE,
        "risk_level": RiskLevel.LOW,
        "timeout_s": 1.0,
        "idempotency": Idempotency.SUPPORTED,
    }
    return ToolMeta(**(settings | changed))


READ = meta("fs.read", name="read_file", further_names=("file_read",), targets=(Target("path", TargetKind.PATH),))
WRITE = meta(
    "fs.write",
    name="write_file",
    side_effect=SideEffect.REVERSIBLE,
    risk_level=RiskLevel.MEDIUM,
    targets=(Target("path", TargetKind.PATH),),
)
NOTE = meta("note.add", side_effect=SideEffect.REVERSIBLE)
FETCH = meta("web.fetch", name="fetch_url", targets=(Target("url", TargetKind.URL),))
SEND = meta(
    "mail.send",
    side_effect=SideEffect.IRREVERSIBLE,
    categories=frozenset({Category.EXTERNAL_SEND}),
    targets=(Target("hosts", TargetKind.URL),),
)
MAIL = meta(
    "mail.send",
    side_effect=SideEffect.IRREVERSIBLE,
    categories=frozenset({Category.EXTERNAL_SEND}),
    targets=(Target("to", TargetKind.RECIPIENT), Target("cc", TargetKind.RECIPIENT)),
)
ERASE = meta("fs.erase", side_effect=SideEffect.IRREVERSIBLE, risk_level=RiskLevel.HIGH)
COMMAND = meta(
    "host.run",
    side_effect=SideEffect.IRREVERSIBLE,
    risk_level=RiskLevel.HIGH,
    categories=frozenset({Category.HOST_COMMAND}),
    targets=(Target("argv", TargetKind.COMMAND),),
)
KERNEL = meta("kernel.run", side_effect=SideEffect.NONE, categories=frozenset({Category.LIVE_KERNEL}))
JOB = meta("job.run", side_effect=SideEffect.REVERSIBLE, targets=(Target("argv", TargetKind.COMMAND),))
TOOLS = (READ, WRITE, NOTE, FETCH, SEND, ERASE, COMMAND, KERNEL, JOB)


@dataclass(frozen=True)
class Known:
    """A tool that takes nothing but what it names."""

    meta: ToolMeta

    @property
    def spec(self) -> ToolSpec:
        properties: JsonObject = {target.argument: {} for target in self.meta.targets}
        return ToolSpec(name=self.meta.name, description="", parameters={"properties": properties})


def find(name: str) -> KnownTool | None:
    found = next((tool for tool in TOOLS if name in (tool.tool_id, tool.name, *tool.further_names)), None)
    return Known(found) if found else None


def action(tool: ToolMeta, caller: Caller | None = None, **args: Any) -> Action:
    return Action.of(tool, args, caller or Caller(project="/home/ana/work", channel="notebook", user="ana"))


def projects_rule(decision: str, when: dict[str, Any]) -> Rule:
    """One that stands in the file of a project."""
    return rule(decision, when, of_project=True)


def rule(
    decision: str,
    when: dict[str, Any],
    rule_id: str = "r",
    reason: str = "Because I say so.",
    *,
    needs: str | None = None,
    of_project: bool = False,
    examples: JsonObject | None = None,
    contacts: JsonObject | None = None,
) -> Rule:
    """A rule that stands in a file with these contacts, with an example of a tool that is not here."""
    text: JsonObject = {"id": rule_id, "decision": decision, "reason": reason, "when": when, "needs": needs}
    text["examples"] = examples or {"match": [{"tool": "a.stranger"}]}
    file: JsonObject = {"rules": [text], **({} if contacts is None else {"contacts": contacts})}
    (found,) = read(Path("/rules.jsonc"), json.dumps(file).encode(), find, tightens_only=of_project).rules
    return found
