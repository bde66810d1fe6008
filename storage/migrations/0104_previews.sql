-- The preview that a job has once it passed, in JSON: the port, the command, for whom and for how long. Empty for none.
ALTER TABLE jobs ADD COLUMN preview TEXT NOT NULL DEFAULT '{}';

-- The disks of passed jobs that serve a port on a host of their own. The VM of one that is awake is that of its hold.
CREATE TABLE previews (
    id INTEGER PRIMARY KEY,
    uuid TEXT NOT NULL UNIQUE,
    organization_id INTEGER NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    pipeline_id INTEGER NOT NULL REFERENCES pipelines (id) ON DELETE CASCADE,
    job_id INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    disk TEXT NOT NULL,
    public INTEGER NOT NULL CHECK (public IN (0, 1)),
    created_at INTEGER NOT NULL,
    until INTEGER NOT NULL,
    hold_id INTEGER REFERENCES holds (id) ON DELETE SET NULL,
    answers INTEGER NOT NULL DEFAULT 0 CHECK (answers IN (0, 1)),
    looked_at INTEGER,
    failure TEXT,
    ended_at INTEGER,
    why_ended TEXT,
    CHECK ((ended_at IS NULL) = (why_ended IS NULL))
) STRICT;
CREATE INDEX previews_there ON previews (until) WHERE ended_at IS NULL;
CREATE INDEX previews_disks ON previews (disk) WHERE ended_at IS NULL;
CREATE INDEX previews_of_job ON previews (job_id);
CREATE INDEX previews_of_pipeline ON previews (pipeline_id);
CREATE INDEX previews_of_organization ON previews (organization_id);
CREATE INDEX previews_hold ON previews (hold_id) WHERE hold_id IS NOT NULL;
