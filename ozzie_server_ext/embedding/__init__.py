"""The gate as a library: register tools, set a policy, call, answer approvals, read events.

For programs and test suites that need the path to a tool without a gateway: docs/embedding.md.
"""

from ozzie_server_ext.domain.approvals import AuthStrength
from ozzie_server_ext.domain.content import Content, Label
from ozzie_server_ext.domain.toolmeta import ToolResult
from ozzie_server_ext.embedding.gate import Gate, Outcome, open_gate
from ozzie_server_ext.policy.decision import Caller
from ozzie_server_ext.tasks.approvals import Answerer
from ozzie_server_ext.tools.base import ToolContext, ToolFailed, Unsettled
from ozzie_server_ext.tools.cards import Card

Way = AuthStrength
"""The public name of `AuthStrength`."""

__all__ = [
    "Answerer",
    "Caller",
    "Card",
    "Content",
    "Gate",
    "Label",
    "Outcome",
    "ToolContext",
    "ToolFailed",
    "ToolResult",
    "Unsettled",
    "Way",
    "open_gate",
]
