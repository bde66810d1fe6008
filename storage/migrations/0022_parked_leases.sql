-- VMs wait for a job without a disk: state `parked` takes the place of `warm`, whose VMs have one and are destroyed.
CREATE TABLE new_leases (
    id INTEGER PRIMARY KEY,
    uuid TEXT NOT NULL UNIQUE,
    organization_id INTEGER REFERENCES organizations (id),
    job_id INTEGER REFERENCES jobs (id),
    attempt INTEGER NOT NULL,
    provider TEXT NOT NULL,
    image TEXT,
    cpu INTEGER NOT NULL CHECK (cpu > 0),
    memory_gb INTEGER NOT NULL CHECK (memory_gb > 0),
    disk_gb INTEGER NOT NULL CHECK (disk_gb > 0),
    network INTEGER NOT NULL CHECK (network IN (0, 1)),
    state TEXT NOT NULL CHECK (state IN ('creating', 'parked', 'active', 'ended')),
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    finished_at INTEGER,
    amount_cents INTEGER NOT NULL CHECK (amount_cents >= 0),
    build_id INTEGER REFERENCES builds (id),
    boot TEXT,
    started_uptime INTEGER,
    killed_by TEXT,
    seen_at INTEGER
) STRICT;
INSERT INTO new_leases
SELECT
    id, uuid, organization_id, job_id, attempt, provider, image, cpu, memory_gb, disk_gb, network,
    iif(state = 'warm', 'ended', state), created_at, started_at, iif(state = 'warm', created_at, finished_at),
    amount_cents, build_id, boot, started_uptime, killed_by, seen_at
FROM leases;
DROP TABLE leases;
ALTER TABLE new_leases RENAME TO leases;
CREATE INDEX leases_usage ON leases (organization_id, started_at, finished_at) WHERE started_at IS NOT NULL;
CREATE INDEX leases_live ON leases (id) WHERE state <> 'ended';
CREATE INDEX leases_used ON leases (finished_at, organization_id, cpu, started_at)
WHERE started_at IS NOT NULL AND finished_at IS NOT NULL;
CREATE INDEX leases_job ON leases (job_id, attempt) WHERE job_id IS NOT NULL;
