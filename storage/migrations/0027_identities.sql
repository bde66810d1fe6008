-- Who a user is at an identity provider. The provider is its name or its issuer's URL: a subject means nothing without.
CREATE TABLE identities (
    id INTEGER PRIMARY KEY,
    uuid TEXT NOT NULL UNIQUE,
    user_id INTEGER NOT NULL REFERENCES users (id),
    provider TEXT NOT NULL CHECK (provider <> ''),
    subject TEXT NOT NULL CHECK (subject <> ''),
    email TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    last_used_at INTEGER NOT NULL,
    UNIQUE (provider, subject)
) STRICT;
CREATE INDEX identities_user ON identities (user_id);
