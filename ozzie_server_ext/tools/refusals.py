"""Why the broker does not make a call, in words."""

from difflib import get_close_matches

from ozzie_server_ext.domain.errors import OzzieError, PolicyError
from ozzie_server_ext.domain.toolmeta import ToolMeta
from ozzie_server_ext.policy.action import Caller
from ozzie_server_ext.policy.decision import Decision, Verdict
from ozzie_server_ext.tools.base import InvalidArguments
from ozzie_server_ext.tools.offering import FIND_ID, OFFERED_AT_MOST
from ozzie_server_ext.tools.registry import ToolRegistry


def unknown_tool(name: str, registry: ToolRegistry) -> OzzieError:
    """Names of an outsider's making are not told: nobody may have been offered them (TL-8)."""
    names = [tool.meta.name for tool in registry.all() if not tool.meta.told_by and tool.meta.tool_id != FIND_ID]
    there = "there are"
    if len(names) > OFFERED_AT_MOST:
        names, there = get_close_matches(name[:64], names, n=10, cutoff=0.0), "the nearest are"
    return InvalidArguments(f"There is no tool {name[:64]}; {there}: {', '.join(names)}.", code="tool.unknown")


def asks_anew() -> PolicyError:
    return PolicyError("It was cut off, and you would have to allow it to be made again.")


def has_no_key() -> PolicyError:
    return PolicyError(
        "It was cut off, and its tool does not take the key any more with which it was to be made again."
    )


def refusal(meta: ToolMeta, verdict: Verdict, caller: Caller) -> PolicyError | None:
    """Why the call does not run, whatever anybody says; None where it may, or may once somebody said yes."""
    if verdict.decision is Decision.DENY:
        return PolicyError(verdict.refusal)
    if verdict.decision is Decision.ASK and not caller.attended:
        return unattended(meta)
    return None


def unattended(meta: ToolMeta) -> PolicyError:
    return PolicyError(f"Not done: nobody was there to ask ({meta.name}).", code="policy.unattended")


def not_for_skill(meta: ToolMeta) -> PolicyError:
    return PolicyError(f"Not done: the skill that is run does not have the tool {meta.name}.", code="policy.skill")
