CREATE TABLE artifacts (
    id INTEGER PRIMARY KEY,
    uuid TEXT NOT NULL UNIQUE,
    build_id INTEGER NOT NULL REFERENCES builds (id),
    job_id INTEGER NOT NULL REFERENCES jobs (id),
    path TEXT NOT NULL,
    mime_type TEXT NOT NULL,
    file_size INTEGER NOT NULL CHECK (file_size >= 0),
    sha256 TEXT NOT NULL CHECK (length(sha256) = 64),
    created_at INTEGER NOT NULL,
    UNIQUE (job_id, path)
) STRICT;
CREATE INDEX artifacts_build ON artifacts (build_id);
CREATE INDEX artifacts_job ON artifacts (job_id);

-- collected_at is when an attempt's artifacts were stored, were it none: what comes after a crash need not look again.
ALTER TABLE attempts ADD COLUMN collected_at INTEGER;

-- artifact_bytes is what a build's artifacts take: null where it never had any, and again when they are gone.
ALTER TABLE builds ADD COLUMN artifact_bytes INTEGER CHECK (artifact_bytes >= 0);
ALTER TABLE builds ADD COLUMN artifacts_expired_at INTEGER;
CREATE INDEX builds_with_artifacts ON builds (finished_at, id, artifact_bytes, artifacts_expired_at)
WHERE artifact_bytes IS NOT NULL AND artifacts_expired_at IS NULL;
CREATE INDEX builds_with_expired_artifacts ON builds (id)
WHERE artifact_bytes IS NOT NULL AND artifacts_expired_at IS NOT NULL;
