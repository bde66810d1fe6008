-- Sessions of the host's owner in the console. Until it is opened, a row is the link that was printed on the host.
CREATE TABLE owner_sessions (
    id INTEGER PRIMARY KEY,
    uuid TEXT NOT NULL UNIQUE,
    operator TEXT NOT NULL,
    hash BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
    opened_at INTEGER,
    expires_at INTEGER NOT NULL
) STRICT;
CREATE INDEX owner_sessions_over ON owner_sessions (expires_at);
