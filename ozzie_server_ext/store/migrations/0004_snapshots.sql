-- What long conversations were, beside the log (docs/adr/0061-snapshots.md): may be emptied at any time. `content` is
-- compressed JSON, in the form `format`, and `mac` is made with the key of the log's anchor.
CREATE TABLE snapshots (
    session_id TEXT NOT NULL,
    position INTEGER NOT NULL REFERENCES events (position),
    format TEXT NOT NULL,
    content BLOB NOT NULL,
    mac BLOB NOT NULL,
    PRIMARY KEY (session_id, position)
) STRICT;

CREATE INDEX events_of_erasures ON events (position) WHERE type IN ('message.erased', 'session.erased');
