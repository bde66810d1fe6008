-- Reports of pushes by the hosts of repositories, kept as they came, and the token with which a host reports.
ALTER TABLE repositories ADD COLUMN token_hash BLOB;
CREATE UNIQUE INDEX repositories_token ON repositories (token_hash) WHERE token_hash IS NOT NULL;

CREATE TABLE deliveries (
    id INTEGER PRIMARY KEY,
    uuid TEXT NOT NULL UNIQUE,
    provider TEXT NOT NULL CHECK (provider <> ''),
    delivery_id TEXT NOT NULL CHECK (delivery_id <> ''),
    repository_id INTEGER NOT NULL REFERENCES repositories (id) ON DELETE CASCADE,
    body BLOB NOT NULL,
    received_at INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    processed_at INTEGER,
    last_error TEXT,
    UNIQUE (provider, delivery_id)
) STRICT;
CREATE INDEX deliveries_pending ON deliveries (repository_id, id) WHERE processed_at IS NULL;
CREATE INDEX deliveries_repository ON deliveries (repository_id);
CREATE INDEX deliveries_received ON deliveries (received_at);
