-- The disks of failed jobs that are kept for some days, so that people can look into them and run steps again.
CREATE TABLE kept_disks (
    snapshot TEXT PRIMARY KEY REFERENCES snapshots (name) ON DELETE CASCADE,
    organization_id INTEGER NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    pipeline_id INTEGER NOT NULL REFERENCES pipelines (id) ON DELETE CASCADE,
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX kept_disks_by_age ON kept_disks (created_at, snapshot);
CREATE INDEX kept_disks_of_organization ON kept_disks (organization_id);
CREATE INDEX kept_disks_of_pipeline ON kept_disks (pipeline_id);

-- Who has opened a fork of a job's disk, whose VM this hold is about; null if it is the VM of the job itself.
ALTER TABLE holds ADD COLUMN opened_by TEXT;
