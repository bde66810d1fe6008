-- Logins of organizations at registries of images; the password is sealed, and opens only in its own place. uuid names, in the store of
-- images, what was pulled with the login; another username is another login.
CREATE TABLE registry_logins (
    id INTEGER PRIMARY KEY,
    uuid TEXT NOT NULL UNIQUE,
    organization_id INTEGER NOT NULL REFERENCES organizations (id),
    host TEXT NOT NULL,
    username TEXT NOT NULL,
    password BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    UNIQUE (organization_id, host)
) STRICT;
CREATE INDEX registry_logins_host ON registry_logins (host);

-- The registries whose logins of the organization a job gets, as a JSON array of hosts.
ALTER TABLE jobs ADD COLUMN registries TEXT NOT NULL DEFAULT '[]';
