-- value is sealed, and opens only in its own place: under this organization, pipeline and name. Without a pipeline a
-- secret is for all of the organization's.
CREATE TABLE secrets (
    id INTEGER PRIMARY KEY,
    organization_id INTEGER NOT NULL REFERENCES organizations (id),
    pipeline_id INTEGER REFERENCES pipelines (id),
    name TEXT NOT NULL,
    value BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX secrets_by_name ON secrets (organization_id, coalesce(pipeline_id, 0), name);
CREATE INDEX secrets_of_pipeline ON secrets (pipeline_id) WHERE pipeline_id IS NOT NULL;

-- secrets holds, sealed, what an attempt that is not over was given: its log is masked by that, whatever changes meanwhile.
ALTER TABLE attempts ADD COLUMN secrets BLOB;
