-- Deploy keys and passwords of repositories.
CREATE TABLE repository_credentials (
    repository_id INTEGER PRIMARY KEY REFERENCES repositories (id) ON DELETE CASCADE,
    username TEXT,
    public_key TEXT,
    host_key TEXT,
    secret BLOB NOT NULL,
    CHECK ((username IS NULL) = (public_key IS NOT NULL) AND (public_key IS NULL) = (host_key IS NULL))
) STRICT;
