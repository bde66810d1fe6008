-- When a build's end was written, which may be long after the end; builds are followed in the order of writing.
ALTER TABLE builds ADD COLUMN recorded_at INTEGER;
UPDATE builds SET recorded_at = finished_at;

DROP INDEX builds_ended;
CREATE INDEX builds_ended ON builds (recorded_at) WHERE recorded_at IS NOT NULL;
