-- queued_at is when a waiting job could have a VM for the first time since it last became scheduled.
ALTER TABLE jobs ADD COLUMN queued_at INTEGER;
UPDATE jobs SET queued_at = scheduled_at WHERE state = 'scheduled';

DROP INDEX jobs_queued;
CREATE INDEX jobs_queued ON jobs (organization_id, scheduled_at, position, id, build_id, not_before)
WHERE state = 'scheduled' AND not_before IS NULL;
CREATE INDEX jobs_queued_since ON jobs (queued_at) WHERE state = 'scheduled' AND not_before IS NULL;
CREATE INDEX jobs_backing_off ON jobs (not_before) WHERE state = 'scheduled' AND not_before IS NOT NULL;

CREATE INDEX leases_used ON leases (finished_at, organization_id, cpu, started_at)
WHERE started_at IS NOT NULL AND finished_at IS NOT NULL;

-- A switch that is on has a row.
CREATE TABLE switches (
    name TEXT PRIMARY KEY,
    turned_on_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
