-- Who may write: each gateway that opens the log raises the number, and one that finds another than its own was replaced.
CREATE TABLE owner (
    epoch INTEGER NOT NULL
) STRICT;

INSERT INTO owner (epoch) VALUES (0);
