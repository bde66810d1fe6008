-- The service makes a cached disk's name of all that can change what its job's command does; the key of the pipeline is
-- one part of it. Disks under the names of earlier releases do not tell what ran in them: they go.
DROP TABLE cache_entries;
CREATE TABLE cache_entries (
    id INTEGER PRIMARY KEY,
    pipeline_id INTEGER NOT NULL REFERENCES pipelines (id),
    name TEXT NOT NULL UNIQUE,
    key TEXT NOT NULL,
    image TEXT NOT NULL,
    snapshot TEXT NOT NULL REFERENCES snapshots (name) ON DELETE CASCADE,
    created_at INTEGER NOT NULL,
    last_used_at INTEGER NOT NULL,
    hits INTEGER NOT NULL
) STRICT;
CREATE INDEX cache_entries_key ON cache_entries (pipeline_id, key);
CREATE INDEX cache_entries_snapshot ON cache_entries (snapshot);

-- The name is made as the command starts, of what it starts with; the disk that it leaves has it whether it is cached or
-- not, because the names of disks based on it are made of it.
ALTER TABLE attempts ADD COLUMN cache_name TEXT;
ALTER TABLE snapshots ADD COLUMN cache_name TEXT;
