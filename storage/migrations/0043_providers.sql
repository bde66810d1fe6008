-- A disk can be used only by VMs of the provider that keeps it.
CREATE TABLE new_cache_entries (
    id INTEGER PRIMARY KEY,
    pipeline_id INTEGER NOT NULL REFERENCES pipelines (id),
    image TEXT NOT NULL,
    key TEXT NOT NULL,
    provider TEXT NOT NULL,
    snapshot TEXT NOT NULL REFERENCES snapshots (name) ON DELETE CASCADE,
    created_at INTEGER NOT NULL,
    last_used_at INTEGER NOT NULL,
    hits INTEGER NOT NULL,
    UNIQUE (pipeline_id, key, image, provider)
) STRICT;
INSERT INTO new_cache_entries
SELECT entry.id, pipeline_id, image, key, provider, snapshot, entry.created_at, last_used_at, hits
FROM cache_entries AS entry JOIN snapshots ON snapshots.name = entry.snapshot;
DROP TABLE cache_entries;
ALTER TABLE new_cache_entries RENAME TO cache_entries;
CREATE INDEX cache_entries_snapshot ON cache_entries (snapshot);
