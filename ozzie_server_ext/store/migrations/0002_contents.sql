-- What a model was sent and answered (docs/log-format.md), in the transaction of the first event that names it. `hash` is
-- the SHA-256 of the content, which is put together from parts of its session.
CREATE TABLE contents (
    hash BLOB NOT NULL,
    scope INTEGER NOT NULL REFERENCES part_scopes (id),
    parts TEXT NOT NULL,
    extends BLOB,
    PRIMARY KEY (hash, scope)
) STRICT, WITHOUT ROWID;

-- Each part of a session once. `key` is HMAC-SHA256(salt of the session, content).
CREATE TABLE parts (
    id INTEGER PRIMARY KEY,
    scope INTEGER NOT NULL REFERENCES part_scopes (id),
    key BLOB NOT NULL UNIQUE,
    content BLOB NOT NULL
) STRICT;

CREATE TABLE part_scopes (
    id INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL UNIQUE,
    salt BLOB NOT NULL
) STRICT;
