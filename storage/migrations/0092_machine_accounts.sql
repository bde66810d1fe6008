-- An account without a person belongs to an organization, which has any number of them: of a machine the personal
-- organization is the one that it belongs to. To say so, the table is made anew.
CREATE TABLE users_remade (
    id INTEGER PRIMARY KEY,
    uuid TEXT NOT NULL UNIQUE,
    email TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    personal_organization_id INTEGER NOT NULL REFERENCES organizations (id),
    created_at INTEGER NOT NULL,
    closed_at INTEGER,
    machine INTEGER NOT NULL DEFAULT 0 CHECK (machine IN (0, 1))
) STRICT;
INSERT INTO users_remade (id, uuid, email, name, personal_organization_id, created_at, closed_at)
SELECT id, uuid, email, name, personal_organization_id, created_at, closed_at FROM users;
DROP TABLE users;
ALTER TABLE users_remade RENAME TO users;
CREATE UNIQUE INDEX users_personal_organization ON users (personal_organization_id) WHERE machine = 0;
CREATE INDEX users_machines ON users (personal_organization_id) WHERE machine = 1;
-- Whatever asks for one, it never signs in, and a key of it is for its organization alone.
CREATE TRIGGER tokens_of_machine_accounts BEFORE INSERT ON tokens
WHEN EXISTS (
    SELECT 1 FROM users
    WHERE id = NEW.user_id AND machine = 1
    AND (NEW.kind = 'session' OR NEW.organization_id IS NOT personal_organization_id)
)
BEGIN
    SELECT RAISE(ABORT, 'a machine account has no sessions, and keys for its organization alone');
END;
