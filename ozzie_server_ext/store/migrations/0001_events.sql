-- Envelopes of events: the chain. Bodies lie apart, so that content can be erased and the chain still verifies.
CREATE TABLE events (
    position INTEGER PRIMARY KEY,
    event_id TEXT NOT NULL UNIQUE,
    stream TEXT NOT NULL,
    version INTEGER NOT NULL,
    ts TEXT NOT NULL,
    type TEXT NOT NULL,
    schema INTEGER NOT NULL,
    actor TEXT NOT NULL,
    source TEXT NOT NULL,
    session_id TEXT,
    task_id TEXT,
    trace_id TEXT NOT NULL,
    span_id TEXT NOT NULL,
    causation_id TEXT,
    idempotency_key TEXT,
    labels TEXT NOT NULL,
    sources TEXT NOT NULL,
    commitment TEXT NOT NULL,
    prev_hash TEXT NOT NULL,
    hash TEXT NOT NULL,
    UNIQUE (stream, version)
) STRICT;

CREATE UNIQUE INDEX events_by_key ON events (stream, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX events_by_session ON events (session_id) WHERE session_id IS NOT NULL;
CREATE INDEX events_by_task ON events (task_id) WHERE task_id IS NOT NULL;

CREATE TABLE bodies (
    position INTEGER PRIMARY KEY REFERENCES events (position),
    body BLOB NOT NULL,
    salt BLOB NOT NULL
) STRICT;

-- Which folds the projections' tables were made by; with other ones they are made anew.
CREATE TABLE projections (
    fingerprint TEXT NOT NULL
) STRICT;
-- Who may write: each gateway that opens the log raises the number, and one that finds another than its own was replaced.
CREATE TABLE owner (
    epoch INTEGER NOT NULL
) STRICT;

INSERT INTO owner (epoch) VALUES (0);
