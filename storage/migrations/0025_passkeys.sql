-- What an account is called in its passkeys; authenticators keep it, so it says nothing about the person.
CREATE TABLE passkey_handles (
    id INTEGER PRIMARY KEY,
    user_id INTEGER NOT NULL UNIQUE REFERENCES users (id),
    handle BLOB NOT NULL UNIQUE CHECK (length(handle) = 16)
) STRICT;

CREATE TABLE passkeys (
    id INTEGER PRIMARY KEY,
    uuid TEXT NOT NULL UNIQUE,
    user_id INTEGER NOT NULL REFERENCES users (id),
    credential_id BLOB NOT NULL UNIQUE CHECK (length(credential_id) BETWEEN 1 AND 1023),
    public_key BLOB NOT NULL,
    sign_count INTEGER NOT NULL CHECK (sign_count >= 0),
    aaguid TEXT NOT NULL,
    transports TEXT NOT NULL,
    nickname TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    last_used_at INTEGER
) STRICT;
CREATE INDEX passkeys_of_user ON passkeys (user_id);

-- Challenges that wait for an authenticator's answer. The owner is the hash of who may give it.
CREATE TABLE passkey_challenges (
    id INTEGER PRIMARY KEY,
    uuid TEXT NOT NULL UNIQUE,
    purpose TEXT NOT NULL CHECK (purpose IN ('sign_up', 'sign_in', 'registration', 'recovery')),
    owner BLOB NOT NULL CHECK (length(owner) = 32),
    challenge BLOB NOT NULL CHECK (length(challenge) = 32),
    handle BLOB CHECK (length(handle) = 16),
    expires_at INTEGER NOT NULL,
    CHECK ((purpose = 'sign_in') = (handle IS NULL))
) STRICT;
CREATE INDEX passkey_challenges_over ON passkey_challenges (expires_at);
