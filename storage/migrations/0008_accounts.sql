ALTER TABLE users ADD COLUMN closed_at INTEGER;
ALTER TABLE organizations ADD COLUMN closed_at INTEGER;

ALTER TABLE tokens ADD COLUMN revoked_at INTEGER;
CREATE INDEX tokens_over ON tokens (coalesce(revoked_at, expires_at));

CREATE TABLE handoffs (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('nonce', 'code')),
    hash BLOB NOT NULL CHECK (length(hash) = 32),
    user_id INTEGER NOT NULL REFERENCES users (id),
    expires_at INTEGER NOT NULL,
    UNIQUE (kind, hash)
) STRICT;
CREATE INDEX handoffs_user ON handoffs (user_id);
CREATE INDEX handoffs_over ON handoffs (expires_at);
