-- The keys that sign the identity tokens of jobs. public_key is a JWK; private_key is sealed.
CREATE TABLE issuer_keys (
    id INTEGER PRIMARY KEY,
    uuid TEXT NOT NULL UNIQUE,
    public_key TEXT NOT NULL,
    private_key BLOB NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

-- The service for which a job gets an identity token.
ALTER TABLE jobs ADD COLUMN identity_audience TEXT CHECK (identity_audience <> '');
