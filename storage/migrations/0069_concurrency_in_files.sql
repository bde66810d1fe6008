-- A pipeline's file may say the limit of its build's concurrency group; without it the pipeline's setting applies.
ALTER TABLE builds ADD COLUMN concurrency_limit INTEGER CHECK (concurrency_limit > 0);
-- The lock of a job, which so many jobs of the organization have at a time. A scheduled job that awaits its lock is in no
-- queue for a VM; one that does not, and has not ended, has the lock.
ALTER TABLE jobs ADD COLUMN lock TEXT CHECK (lock <> '');
ALTER TABLE jobs ADD COLUMN lock_limit INTEGER NOT NULL DEFAULT 1 CHECK (lock_limit > 0);
ALTER TABLE jobs ADD COLUMN awaits_lock INTEGER NOT NULL DEFAULT 0 CHECK (awaits_lock IN (0, 1));

-- The newest condition stands first: SQLite takes the index as covering only then.
DROP INDEX jobs_queued;
CREATE INDEX jobs_queued
ON jobs (organization_id, scheduled_at, position, id, build_id, not_before, awaited_image, awaits_lock)
WHERE awaits_lock = 0 AND awaited_image IS NULL AND not_before IS NULL AND state = 'scheduled';
DROP INDEX jobs_queued_since;
CREATE INDEX jobs_queued_since ON jobs (queued_at)
WHERE state = 'scheduled' AND not_before IS NULL AND awaited_image IS NULL AND awaits_lock = 0;
DROP INDEX jobs_queued_images;
CREATE INDEX jobs_queued_images ON jobs (image)
WHERE state = 'scheduled' AND not_before IS NULL AND awaited_image IS NULL AND awaits_lock = 0;
CREATE INDEX jobs_awaiting_locks ON jobs (scheduled_at, position, id) WHERE state = 'scheduled' AND awaits_lock = 1;
CREATE INDEX jobs_with_locks ON jobs (organization_id, lock) WHERE lock IS NOT NULL AND awaits_lock = 0 AND finished_at IS NULL;
