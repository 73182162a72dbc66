"""The approvals: each request and its answer."""

from ozzie_server_ext.domain.events import (
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRejected,
    ApprovalRequested,
    Event,
    TaskCancelled,
    TaskFailed,
    TaskSucceeded,
)
from ozzie_server_ext.protocol.codec import encode
from ozzie_server_ext.protocol.jsontext import canonical_bytes
from ozzie_server_ext.store.codec import time_text
from ozzie_server_ext.store.tables import Row, Rows, Table, integer, text

APPROVALS = Table(
    "approvals",
    (
        *text("approval_id"),
        *text("session_id", "task_id", nullable=True),
        *text(
            "call_id",
            "status",
            "requested_at",
            "expires_at",
            "sentence",
            "tool_id",
            "name",
            "needs",
            "request",
            "extent",
            "by",
            "way",
            "comment",
            "why",
        ),
        *text("answered_at", nullable=True),
        *integer("position"),
    ),
    key=("approval_id",),
    indexes=(("session_id", "approval_id"), ("task_id",), ("status",)),
)
"""`status` is pending, granted, rejected or expired; then `why` says whether its time was up, the call changed or the
task ended. A granted approval that became void has a `why` too. `request` is the `approval.requested` as JSON."""

TASK_APPROVALS = Table("task_approvals", (*text("task_id", "approval_ids"),), key=("task_id",))
"""The pending approvals of each task, as ids separated by spaces."""

TABLES = (APPROVALS, TASK_APPROVALS)

HANDLES = (
    ApprovalRequested,
    ApprovalGranted,
    ApprovalRejected,
    ApprovalExpired,
    TaskSucceeded,
    TaskFailed,
    TaskCancelled,
)


def apply(event: Event, rows: Rows) -> None:
    """Fold one event. The first answer counts; the end of the task expires pending approvals."""
    match event.body:
        case ApprovalRequested() as fact:
            rows.put(APPROVALS, _begin(event, fact))
            _note(event, rows, add=fact.approval_id)
        case ApprovalGranted(approval_id=approval_id, extent=extent, by=by, way=way):
            _end(event, rows, approval_id, {"status": "granted", "extent": extent, "by": by, "way": way.value})
        case ApprovalRejected(approval_id=approval_id, comment=comment, by=by, way=way):
            _end(event, rows, approval_id, {"status": "rejected", "comment": comment, "by": by, "way": way.value})
        case ApprovalExpired(approval_id=approval_id, why=why):
            _end(event, rows, approval_id, {"status": "expired", "why": why})
        case TaskSucceeded() | TaskFailed() | TaskCancelled():
            for approval_id in _pending(event, rows):
                _end(event, rows, approval_id, {"status": "expired", "why": "task"})
        case _:
            return


def _begin(event: Event, fact: ApprovalRequested) -> Row:
    return APPROVALS.row(
        approval_id=fact.approval_id,
        session_id=event.session_id,
        task_id=event.task_id,
        call_id=fact.call_id,
        status="pending",
        requested_at=time_text(event.ts),
        expires_at=fact.expires_at,
        sentence=fact.sentence,
        tool_id=fact.tool_id,
        name=fact.name,
        needs=fact.needs.value,
        request=canonical_bytes(encode(fact)).decode(),
        position=event.position,
    )


def _end(event: Event, rows: Rows, approval_id: str, changes: Row) -> None:
    row = rows.get(APPROVALS, (approval_id,))
    if row is None:  # the request was erased
        return
    if row["status"] != "pending":
        if row["status"] == "granted" and changes["status"] == "expired":  # granted, but void
            rows.put(APPROVALS, {**row, "why": changes["why"]})
        return
    rows.put(APPROVALS, {**row, **changes, "answered_at": time_text(event.ts)})
    _note(event, rows, remove=approval_id)


def _pending(event: Event, rows: Rows) -> list[str]:
    row = rows.get(TASK_APPROVALS, (event.task_id or "",))
    return [] if row is None else str(row["approval_ids"]).split()


def _note(event: Event, rows: Rows, *, add: str = "", remove: str = "") -> None:
    kept = [approval_id for approval_id in _pending(event, rows) if approval_id != remove]
    kept += [add] if add else []
    rows.put(TASK_APPROVALS, {"task_id": event.task_id or "", "approval_ids": " ".join(kept)})
