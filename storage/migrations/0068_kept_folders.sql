-- The folders that a job keeps for later builds, by path, each with the name by which pipelines share it, or an empty one.
ALTER TABLE jobs ADD COLUMN keep TEXT NOT NULL DEFAULT '{}';

-- What jobs have kept: a tar of the folder is in kept/. A scope is a name in the organization, or a path of one pipeline; an origin
-- is that of an untrusted build, empty for others.
CREATE TABLE kept_folders (
    id INTEGER PRIMARY KEY,
    organization_id INTEGER NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    pipeline_id INTEGER NOT NULL REFERENCES pipelines (id) ON DELETE CASCADE,
    scope TEXT NOT NULL,
    branch TEXT NOT NULL,
    origin TEXT NOT NULL,
    left_by TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    uuid TEXT NOT NULL UNIQUE,
    file_size INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    last_used_at INTEGER NOT NULL,
    UNIQUE (organization_id, scope, branch, origin)
) STRICT;
CREATE INDEX kept_folders_by_use ON kept_folders (last_used_at);
CREATE INDEX kept_folders_of_pipeline ON kept_folders (pipeline_id);
