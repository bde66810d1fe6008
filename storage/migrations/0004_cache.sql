-- disk names the snapshot that holds a job's disk as its command left it: one of its own, or one that it found in the
-- cache.
ALTER TABLE jobs ADD COLUMN disk TEXT;
CREATE INDEX jobs_with_disk ON jobs (build_id, disk) WHERE disk IS NOT NULL;
UPDATE jobs SET disk = (SELECT name FROM snapshots WHERE job_id = jobs.id ORDER BY id DESC LIMIT 1)
WHERE id IN (SELECT job_id FROM snapshots);

-- base names the snapshot that another one stands on, null where that is an image; bytes is what one takes beyond its
-- base, null until it is measured.
ALTER TABLE snapshots ADD COLUMN base TEXT;
ALTER TABLE snapshots ADD COLUMN bytes INTEGER CHECK (bytes >= 0);

CREATE TABLE cache_entries (
    id INTEGER PRIMARY KEY,
    pipeline_id INTEGER NOT NULL REFERENCES pipelines (id),
    image TEXT NOT NULL,
    key TEXT NOT NULL,
    snapshot TEXT NOT NULL REFERENCES snapshots (name) ON DELETE CASCADE,
    created_at INTEGER NOT NULL,
    last_used_at INTEGER NOT NULL,
    hits INTEGER NOT NULL,
    UNIQUE (pipeline_id, key, image)
) STRICT;
CREATE INDEX cache_entries_snapshot ON cache_entries (snapshot);
