-- Microseconds for which a job lets others of its organization go first, by what its build is for; and its turn, which is
-- scheduled_at and that. It is a column because an index on the sum covers no query.
ALTER TABLE jobs ADD COLUMN yields INTEGER NOT NULL DEFAULT 0 CHECK (yields >= 0);
ALTER TABLE jobs ADD COLUMN turn_at INTEGER;
UPDATE jobs SET turn_at = scheduled_at WHERE state = 'scheduled';
DROP INDEX jobs_queued;
CREATE INDEX jobs_queued
ON jobs (organization_id, turn_at, position, id, build_id, not_before, awaited_image, awaits_lock)
WHERE awaits_lock = 0 AND awaited_image IS NULL AND not_before IS NULL AND state = 'scheduled';
