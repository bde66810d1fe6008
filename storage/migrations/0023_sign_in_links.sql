-- Links that prove an e-mail address, or that a person was given on the host; an owner's link names nobody yet.
CREATE TABLE sign_in_links (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('verification', 'magic_link', 'owner')),
    hash BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
    email TEXT,
    name TEXT NOT NULL,
    user_id INTEGER REFERENCES users (id),
    expires_at INTEGER NOT NULL,
    CHECK ((kind = 'owner') = (email IS NULL)),
    CHECK ((kind = 'magic_link') = (user_id IS NOT NULL))
) STRICT;
CREATE INDEX sign_in_links_user ON sign_in_links (user_id) WHERE user_id IS NOT NULL;
CREATE INDEX sign_in_links_over ON sign_in_links (expires_at);
CREATE INDEX invites_of_email ON invites (email) WHERE accepted_at IS NULL AND revoked_at IS NULL;
