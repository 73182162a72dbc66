"""One name for each event here, and the names that the specification documents have for it."""

from typing import get_args, get_type_hints

import pytest

from ozzie_server_ext.domain.events import EVENT_CLASSES, Transient
from ozzie_server_ext.protocol.frames import NAMES, Names, wire_name

CATALOGUE = {
    "session": "created renamed resumed compacted forked archived closed erased",
    "message": "received completed sent",
    "task": "created queued started updated waiting_approval waiting_input paused resumed retried succeeded failed "
    "cancelled",
    "model.call": "started completed failed",
    "budget": "reserved settled exceeded",
    "tool.call": "requested decided started progressed completed failed cancelled uncertain resolved",
    "approval": "requested granted rejected expired",
    "skill": "started completed failed skipped",
    "step": "started completed failed skipped",
    "checkpoint": "saved",
    "artifact": "created superseded erased",
    "memory": "fragment_added proposed committed refused superseded vault_granted",
    "schedule": "triggered misfired changed",
    "channel": "incoming outgoing",
    "plugin": "loaded disabled health_changed",
    "grant": "granted revoked",
    "secret": "changed",
    "incident": "opened closed",
    "config": "changed rolled_back",
    "remote": "connected telemetry",
    "worker": "started lost",
    "prompt": "requested answered",
    "agent": "delegated thinking",
    "toolset": "injected",
    "reply": "delta reset",
    "tool": "output",
    "task ": "progress",
    "status": "heartbeat",
}
"""The design's catalogue, family by family; the last rows are its transient events."""

ADDED = {
    "approval.refused",
    "budget.raised",
    "labels.cleared",
    "message.confirmed",
    "message.erased",
    "message.rejected",
    "session.model_chosen",
    "session.moved",
    "session.pinned",
    "session.unpinned",
    "task.model_chosen",
    "task.pausing",
    "task.stalled",
    "task.stopping",
    "tool.call.summarized",
    "task.told",
}
"""What the catalogue does not have (docs/adr)."""

ALL = {f"{family.strip()}.{name}" for family, names in CATALOGUE.items() for name in names.split()} | ADDED

S0 = (
    "assistant.stream",
    "user.message",
    "session.created",
    "session.closed",
    "assistant.message",
    "agent.delegation",
    "agent.thinking",
    "tool.call.requested",
    "tool.call.confirmation",
    "tool.call.result",
    "incoming.message",
    "outgoing.message",
    "schedule.trigger",
)
S1 = (
    "incoming.message",
    "outgoing.message",
    "user.message",
    "assistant.stream",
    "assistant.message",
    "tool.call",
    "tool.call.confirmation",
    "prompt.request",
    "prompt.response",
    "internal.llm.call",
    "session.created",
    "session.closed",
    "skill.started",
    "skill.completed",
    "skill.step.started",
    "skill.step.completed",
    "schedule.trigger",
)
S4 = (
    "TASK_CREATED",
    "USER_MESSAGE",
    "MODEL_CALL",
    "TOOL_CALL",
    "TOOL_RESULT",
    "STATE_TRANSITION",
    "ARTIFACT_CREATED",
    "APPROVAL_REQUESTED",
    "APPROVED",
    "REJECTED",
    "ERROR",
    "HEARTBEAT",
    "CHECKPOINT_SAVED",
)
FAZAI = ("token", "action", "exec_log", "observe", "ask", "done", "error")


def test_the_table_has_rows_for_events_of_the_catalogue_only_and_none_that_says_nothing() -> None:
    assert set(NAMES) <= ALL
    assert Names() not in NAMES.values()


def test_everything_that_can_be_recorded_or_shown_is_in_the_catalogue() -> None:
    transient = set(get_args(get_type_hints(Transient)["type"]))

    assert {kind.type for kind in EVENT_CLASSES} | transient <= ALL


def s4_name(canonical: str) -> str:
    return NAMES.get(canonical, Names()).s4 or canonical.replace(".", "_").upper()


def test_no_two_classes_have_the_same_name() -> None:
    assert len({kind.type for kind in EVENT_CLASSES}) == len(EVENT_CLASSES)


@pytest.mark.parametrize(("column", "name"), [(c, n) for c, ns in (("s0", S0), ("s1", S1)) for n in ns])
def test_every_name_of_s0_and_s1_stands_for_an_event_here(column: str, name: str) -> None:
    assert [canonical for canonical, names in NAMES.items() if getattr(names, column) == name]


@pytest.mark.parametrize("name", S4)
def test_every_event_type_of_s4_stands_for_an_event_here(name: str) -> None:
    assert [canonical for canonical in ALL if s4_name(canonical) == name]


@pytest.mark.parametrize("name", FAZAI)
def test_every_sse_event_that_a_turn_gives_in_fazai_stands_for_an_event_here(name: str) -> None:
    assert [canonical for canonical, names in NAMES.items() if names.sse == name]


def test_no_column_has_a_name_that_its_document_lacks() -> None:
    for names in NAMES.values():
        assert names.s0 in ("", *S0)
        assert names.s1 in ("", *S1)
        assert names.s4 in ("", *S4)
        assert names.sse in ("", *FAZAI)


@pytest.mark.parametrize(
    ("canonical", "wire"),
    [
        ("reply.delta", "assistant.stream"),
        ("tool.call.completed", "tool.call.result"),
        ("skill.started", "skill.started"),
        ("model.call.completed", "internal.llm.call"),
        ("task.succeeded", "task.succeeded"),
    ],
)
def test_a_frame_is_called_as_in_s0_else_as_in_s1_else_as_here(canonical: str, wire: str) -> None:
    assert wire_name(canonical) == wire


def test_s4s_names_without_a_row_are_ours_in_upper_snake_case() -> None:
    assert s4_name("tool.call.started") == "TOOL_CALL_STARTED"
    assert s4_name("approval.granted") == "APPROVED"
