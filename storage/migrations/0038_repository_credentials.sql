-- Deploy keys and passwords of repositories, and parts of their sources that are packed by wish.
CREATE TABLE repository_credentials (
    repository_id INTEGER PRIMARY KEY REFERENCES repositories (id) ON DELETE CASCADE,
    username TEXT,
    public_key TEXT,
    host_key TEXT,
    secret BLOB NOT NULL,
    CHECK ((username IS NULL) = (public_key IS NOT NULL) AND (public_key IS NULL) = (host_key IS NULL))
) STRICT;

ALTER TABLE repositories ADD COLUMN submodules INTEGER NOT NULL DEFAULT 0;
ALTER TABLE repositories ADD COLUMN lfs INTEGER NOT NULL DEFAULT 0;
