-- The audit by action, and by action of an actor or in an organization, in the order of its list.
CREATE INDEX audit_entries_organization_action ON audit_entries (organization, action) WHERE organization IS NOT NULL;
CREATE INDEX audit_entries_actor_action ON audit_entries (actor, action);
CREATE INDEX audit_entries_action ON audit_entries (action);

-- The audit by time. Entries are in the order of their ids, and that of their instants differs from it by what the clock was set
-- back at most, which is noted: so an instant bounds the ids.
CREATE INDEX audit_entries_at ON audit_entries (at);
CREATE TABLE audit_set_back (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    largest INTEGER NOT NULL
) STRICT;
INSERT INTO audit_set_back
SELECT 1, coalesce(max(latest - at), 0) FROM (SELECT at, max(at) OVER (ORDER BY id) AS latest FROM audit_entries);
CREATE TRIGGER audit_entries_set_back AFTER INSERT ON audit_entries
WHEN NEW.at < (SELECT max(at) FROM audit_entries)
BEGIN
    UPDATE audit_set_back SET largest = max(largest, (SELECT max(at) FROM audit_entries) - NEW.at);
END;
