-- The image that a scheduled job waits for, and without which it is in no queue for a VM; null where it needs no waiting.
ALTER TABLE jobs ADD COLUMN awaited_image TEXT;

-- The newest condition stands first: SQLite takes the index as covering only then.
DROP INDEX jobs_queued;
CREATE INDEX jobs_queued ON jobs (organization_id, scheduled_at, position, id, build_id, not_before, awaited_image)
WHERE awaited_image IS NULL AND not_before IS NULL AND state = 'scheduled';
DROP INDEX jobs_queued_since;
CREATE INDEX jobs_queued_since ON jobs (queued_at)
WHERE state = 'scheduled' AND not_before IS NULL AND awaited_image IS NULL;
CREATE INDEX jobs_queued_images ON jobs (image)
WHERE state = 'scheduled' AND not_before IS NULL AND awaited_image IS NULL;
CREATE INDEX jobs_awaiting_images ON jobs (awaited_image, scheduled_at)
WHERE state = 'scheduled' AND awaited_image IS NOT NULL;
