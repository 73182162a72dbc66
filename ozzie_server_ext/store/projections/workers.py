"""The child processes of the planes, as far as their end was recorded."""

from ozzie_server_ext.domain.events import Event, WorkerLost, WorkerStarted
from ozzie_server_ext.store.codec import time_text
from ozzie_server_ext.store.tables import Rows, Table, integer, text

WORKERS = Table(
    "workers",
    (
        *text("plane"),
        *integer("pid"),
        *text("started", "boot", "status", "reason", "started_at"),
        *text("ended_at", nullable=True),
    ),
    key=("plane", "pid"),
    indexes=(("status",),),
)
"""`status` is running or lost; one shown as running may have ended with its gateway. A reused pid replaces the earlier
row: that process can't run any more."""

TABLES = (WORKERS,)

HANDLES = (WorkerStarted, WorkerLost)


def apply(event: Event, rows: Rows) -> None:
    """Fold one event. The end of an unknown worker leaves no row."""
    match event.body:
        case WorkerStarted() as fact:
            row = WORKERS.row(
                plane=fact.plane,
                pid=fact.pid,
                started=fact.started,
                boot=fact.boot,
                status="running",
                started_at=time_text(event.ts),
            )
            rows.put(WORKERS, row)
        case WorkerLost(plane=plane, pid=pid, reason=reason):
            if (known := rows.get(WORKERS, (plane, pid))) is not None:
                rows.put(WORKERS, {**known, "status": "lost", "reason": reason, "ended_at": time_text(event.ts)})
        case _:
            return
