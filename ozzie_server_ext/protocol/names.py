"""One canonical name for each event, and what the specification documents call it (EV-1, DESIGN §4).

The table is total: every canonical name has a row. A column is empty where that document has no such event. S4's
names without a row of their own are the canonical ones in upper snake case (GW-4).
"""

from typing import NamedTuple


class Names(NamedTuple):
    """`s0` and `s1` are those documents' WebSocket names; `s4` is OctoAgent's; `sse` FazAI's event type (S2 §2)."""

    s0: str = ""
    s1: str = ""
    s4: str = ""
    sse: str = ""


NAMES: dict[str, Names] = {
    "session.created": Names("session.created", "session.created"),
    "session.renamed": Names(),
    "session.model_chosen": Names(),
    "session.resumed": Names(),
    "session.moved": Names(),
    "session.compacted": Names(),
    "session.forked": Names(),
    "session.archived": Names(),
    "session.closed": Names("session.closed", "session.closed"),
    "session.erased": Names(),
    "labels.cleared": Names(),
    "message.received": Names("user.message", "user.message", "USER_MESSAGE"),
    "message.completed": Names("assistant.message", "assistant.message", "", "observe"),
    "message.rejected": Names(),
    "message.sent": Names(),
    "task.created": Names(s4="TASK_CREATED"),
    "task.queued": Names(s4="STATE_TRANSITION"),
    "task.started": Names(s4="STATE_TRANSITION"),
    "task.stopping": Names(),
    "task.updated": Names(),
    "task.waiting_approval": Names(s4="STATE_TRANSITION"),
    "task.waiting_input": Names(s4="STATE_TRANSITION", sse="ask"),
    "task.pausing": Names(),
    "task.paused": Names(s4="STATE_TRANSITION"),
    "task.resumed": Names(s4="STATE_TRANSITION"),
    "task.retried": Names(s4="STATE_TRANSITION"),
    "task.stalled": Names(),
    "task.told": Names(),
    "task.model_chosen": Names(),
    "task.succeeded": Names(s4="STATE_TRANSITION", sse="done"),
    "task.failed": Names(s4="ERROR", sse="error"),
    "task.cancelled": Names(s4="STATE_TRANSITION", sse="error"),
    "model.call.started": Names(),
    "model.call.completed": Names("", "internal.llm.call", "MODEL_CALL"),
    "model.call.failed": Names(s4="ERROR"),
    "budget.reserved": Names(),
    "budget.settled": Names(),
    "budget.exceeded": Names(),
    "budget.raised": Names(),
    "tool.call.requested": Names("tool.call.requested", "tool.call", "TOOL_CALL", "action"),
    "tool.call.decided": Names(),
    "tool.call.started": Names(),
    "tool.call.progressed": Names(),
    "tool.call.completed": Names("tool.call.result", "", "TOOL_RESULT", "observe"),
    "tool.call.failed": Names("tool.call.result", "", "TOOL_RESULT", "observe"),
    "tool.call.cancelled": Names("tool.call.result", "", "TOOL_RESULT", "observe"),
    "tool.call.uncertain": Names(),
    "tool.call.resolved": Names(),
    "approval.requested": Names("tool.call.confirmation", "tool.call.confirmation", "APPROVAL_REQUESTED", "ask"),
    "approval.granted": Names(s4="APPROVED"),
    "approval.rejected": Names(s4="REJECTED"),
    "approval.expired": Names(),
    "approval.refused": Names(),
    "skill.started": Names("", "skill.started"),
    "skill.completed": Names("", "skill.completed"),
    "skill.failed": Names(),
    "skill.skipped": Names(),
    "step.started": Names("", "skill.step.started"),
    "step.completed": Names("", "skill.step.completed"),
    "step.failed": Names(),
    "step.skipped": Names(),
    "checkpoint.saved": Names(s4="CHECKPOINT_SAVED"),
    "artifact.created": Names(s4="ARTIFACT_CREATED"),
    "artifact.superseded": Names(),
    "artifact.erased": Names(),
    "memory.fragment_added": Names(),
    "memory.proposed": Names(),
    "memory.committed": Names(),
    "memory.refused": Names(),
    "memory.superseded": Names(),
    "memory.vault_granted": Names(),
    "schedule.triggered": Names("schedule.trigger", "schedule.trigger"),
    "schedule.misfired": Names(),
    "schedule.changed": Names(),
    "channel.incoming": Names("incoming.message", "incoming.message"),
    "channel.outgoing": Names("outgoing.message", "outgoing.message"),
    "plugin.loaded": Names(),
    "plugin.disabled": Names(),
    "plugin.health_changed": Names(),
    "grant.granted": Names(),
    "grant.revoked": Names(),
    "secret.changed": Names(),
    "incident.opened": Names(),
    "incident.closed": Names(),
    "config.changed": Names(),
    "config.rolled_back": Names(),
    "remote.connected": Names(),
    "remote.telemetry": Names(),
    "worker.started": Names(),
    "worker.lost": Names(),
    "prompt.requested": Names("", "prompt.request"),
    "prompt.answered": Names("", "prompt.response"),
    "agent.delegated": Names("agent.delegation"),
    "toolset.injected": Names(),
    # Transient: through the feed, never in the log.
    "reply.delta": Names("assistant.stream", "assistant.stream", "", "token"),
    "reply.reset": Names(),
    "agent.thinking": Names("agent.thinking", "", "", "observe"),
    "tool.output": Names(sse="exec_log"),
    "task.progress": Names(),
    "status.heartbeat": Names(s4="HEARTBEAT"),
}


def wire_name(canonical: str) -> str:
    """What a WebSocket frame calls an event: the S0 or S1 name where one exists, else the canonical one (GW-2)."""
    names = NAMES[canonical]
    return names.s0 or names.s1 or canonical


def s4_name(canonical: str) -> str:
    """What S4's endpoints call an event (GW-4)."""
    return NAMES[canonical].s4 or canonical.replace(".", "_").upper()
