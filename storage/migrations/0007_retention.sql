-- log_bytes is what a finished build's logs take: null until they are measured, and again when they are gone.
ALTER TABLE builds ADD COLUMN log_bytes INTEGER CHECK (log_bytes >= 0);
ALTER TABLE builds ADD COLUMN logs_expired_at INTEGER;
CREATE INDEX builds_to_measure ON builds (id)
WHERE finished_at IS NOT NULL AND log_bytes IS NULL AND logs_expired_at IS NULL;
CREATE INDEX builds_with_logs ON builds (finished_at, id, log_bytes, logs_expired_at)
WHERE log_bytes IS NOT NULL AND logs_expired_at IS NULL;
CREATE INDEX builds_with_expired_logs ON builds (id) WHERE log_bytes IS NOT NULL AND logs_expired_at IS NOT NULL;
