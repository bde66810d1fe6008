-- The number of the build, of the same pipeline, that this one repeats.
ALTER TABLE builds ADD COLUMN rebuild_of INTEGER;

-- source_bytes is what a finished build's source archive takes: null until it is measured, and again when it is gone.
-- Builds that finished before this have none: what was left of it goes with the next expiry.
ALTER TABLE builds ADD COLUMN source_bytes INTEGER CHECK (source_bytes >= 0);
ALTER TABLE builds ADD COLUMN source_expired_at INTEGER;
UPDATE builds SET source_bytes = 0, source_expired_at = finished_at WHERE has_source = 1 AND finished_at IS NOT NULL;
CREATE INDEX builds_with_source ON builds (uuid, has_source, source_expired_at)
WHERE has_source = 1 AND source_expired_at IS NULL;
CREATE INDEX builds_with_unmeasured_source ON builds (id)
WHERE has_source = 1 AND finished_at IS NOT NULL AND source_bytes IS NULL AND source_expired_at IS NULL;
CREATE INDEX builds_with_measured_source ON builds (finished_at, id, source_bytes, source_expired_at)
WHERE source_bytes IS NOT NULL AND source_expired_at IS NULL;
CREATE INDEX builds_with_expired_source ON builds (id)
WHERE source_bytes IS NOT NULL AND source_expired_at IS NOT NULL;
