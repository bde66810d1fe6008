-- The deploy keys of organizations, sealed, and the repositories that are fetched with them: of these a credential has the key of
-- the server alone.
CREATE TABLE organization_keys (
    organization_id INTEGER PRIMARY KEY REFERENCES organizations (id),
    public_key TEXT NOT NULL,
    secret BLOB NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;
ALTER TABLE repository_credentials ADD COLUMN of_organization INTEGER NOT NULL DEFAULT 0 CHECK (of_organization IN (0, 1));
