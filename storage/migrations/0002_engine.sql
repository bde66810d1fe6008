-- not_before is when a job that waits for another attempt may have one: null is now.
ALTER TABLE jobs ADD COLUMN not_before INTEGER;

ALTER TABLE organizations ADD COLUMN fail_fast INTEGER NOT NULL DEFAULT 0 CHECK (fail_fast IN (0, 1));
ALTER TABLE organizations ADD COLUMN weight INTEGER NOT NULL DEFAULT 1 CHECK (weight > 0);

CREATE INDEX builds_to_cancel ON builds (id)
WHERE cancel_requested = 1 AND finished_at IS NULL AND state <> 'canceling';

CREATE TABLE audit_entries (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid TEXT NOT NULL UNIQUE,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    subject TEXT NOT NULL,
    note TEXT NOT NULL
) STRICT;
CREATE TRIGGER audit_entries_refuse_replace BEFORE INSERT ON audit_entries
WHEN EXISTS (SELECT 1 FROM audit_entries WHERE id = NEW.id OR uuid = NEW.uuid)
BEGIN
    SELECT raise(ABORT, 'the audit is append-only: an entry is never replaced');
END;
CREATE TRIGGER audit_entries_refuse_update BEFORE UPDATE ON audit_entries
BEGIN
    SELECT raise(ABORT, 'the audit is append-only: an entry is never changed');
END;
CREATE TRIGGER audit_entries_refuse_delete BEFORE DELETE ON audit_entries
BEGIN
    SELECT raise(ABORT, 'the audit is append-only: an entry is never deleted');
END;
