-- Where an act came from, and whose organization it was about; entries from before say neither.
ALTER TABLE audit_entries ADD COLUMN origin TEXT;
ALTER TABLE audit_entries ADD COLUMN organization TEXT;

-- Entries expire. Only the oldest may go, so that none can be taken out of the middle.
DROP TRIGGER audit_entries_refuse_delete;
CREATE TRIGGER audit_entries_refuse_delete BEFORE DELETE ON audit_entries
WHEN EXISTS (SELECT 1 FROM audit_entries WHERE id < OLD.id)
BEGIN
    SELECT raise(ABORT, 'the audit is append-only: only its oldest entry is ever deleted');
END;
