-- A build may have to wait before its jobs may: for an approval, or for its turn in its concurrency group.
ALTER TABLE pipelines ADD COLUMN concurrency_group TEXT CHECK (concurrency_group <> '');
ALTER TABLE pipelines ADD COLUMN concurrency_limit INTEGER NOT NULL DEFAULT 1 CHECK (concurrency_limit > 0);

ALTER TABLE builds ADD COLUMN waits_for TEXT CHECK (waits_for IN ('approval', 'turn'));
ALTER TABLE builds ADD COLUMN concurrency_group TEXT;
ALTER TABLE builds ADD COLUMN untrusted_origin TEXT;
ALTER TABLE builds ADD COLUMN approval_reason TEXT;
ALTER TABLE builds ADD COLUMN approved_by TEXT;
ALTER TABLE builds ADD COLUMN approved_at INTEGER CHECK ((approved_at IS NULL) = (approved_by IS NULL));
CREATE INDEX builds_in_group ON builds (concurrency_group, id)
WHERE concurrency_group IS NOT NULL AND finished_at IS NULL;
