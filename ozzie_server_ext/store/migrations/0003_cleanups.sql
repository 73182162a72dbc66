-- Erasures (docs/log-format.md) whose traces in files and free pages are still to be removed: the position of the event
-- that records each, and as JSON the blobs that nobody needs any more.
CREATE TABLE cleanups (
    position INTEGER PRIMARY KEY REFERENCES events (position),
    blobs TEXT NOT NULL
) STRICT;
