-- What an organization deploys to. Approvers are addresses and roles, as a JSON array; without any, gates open by themselves.
CREATE TABLE environments (
    id INTEGER PRIMARY KEY,
    organization_id INTEGER NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    name TEXT NOT NULL CHECK (name <> ''),
    url TEXT,
    approvers TEXT NOT NULL,
    not_author INTEGER NOT NULL CHECK (not_author IN (0, 1)),
    gate_seconds INTEGER NOT NULL CHECK (gate_seconds > 0),
    created_at INTEGER NOT NULL,
    UNIQUE (organization_id, name)
) STRICT;
CREATE INDEX environments_organization ON environments (organization_id, id);

-- The environment whose gate is before a job. The gate's row is there once the job is ready for all else.
ALTER TABLE jobs ADD COLUMN environment TEXT CHECK (environment <> '');
CREATE INDEX jobs_at_gates ON jobs (build_id) WHERE environment IS NOT NULL AND state = 'pending';
CREATE INDEX jobs_environment ON jobs (organization_id, environment, id) WHERE environment IS NOT NULL;
CREATE INDEX jobs_deployed ON jobs (organization_id, environment, finished_at)
WHERE environment IS NOT NULL AND state = 'passed';
CREATE INDEX jobs_to_deploy ON jobs (organization_id, environment, id) WHERE environment IS NOT NULL AND finished_at IS NULL;
CREATE TABLE gates (
    job_id INTEGER PRIMARY KEY REFERENCES jobs (id),
    state TEXT NOT NULL CHECK (state IN ('waiting', 'approved', 'rejected', 'expired')),
    asked_at INTEGER NOT NULL,
    seconds INTEGER NOT NULL CHECK (seconds > 0),
    decided_at INTEGER,
    decided_by TEXT,
    reason TEXT,
    CHECK ((state = 'waiting') = (decided_at IS NULL))
) STRICT;
