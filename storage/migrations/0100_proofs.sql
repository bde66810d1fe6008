-- Proofs: tests of a job, or the whole job, that are run again and again from the disk before its command.
-- Without a command the job's own runs. finished_at is that of the last run, or of the end before it.
CREATE TABLE proofs (
    id INTEGER PRIMARY KEY,
    uuid TEXT NOT NULL UNIQUE,
    organization_id INTEGER NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    pipeline_id INTEGER NOT NULL REFERENCES pipelines (id) ON DELETE CASCADE,
    build_id INTEGER NOT NULL REFERENCES builds (id) ON DELETE CASCADE,
    job_id INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    times INTEGER NOT NULL CHECK (times BETWEEN 1 AND 100),
    seconds INTEGER NOT NULL CHECK (seconds > 0),
    max_cents INTEGER CHECK (max_cents > 0),
    command TEXT,
    exit_counts INTEGER NOT NULL CHECK (exit_counts IN (0, 1)),
    state TEXT NOT NULL CHECK (state IN ('running', 'finished', 'stopped', 'canceled')),
    reason TEXT,
    opened_by TEXT NOT NULL,
    budget_id INTEGER REFERENCES tokens (id) ON DELETE SET NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    finished_at INTEGER,
    CHECK ((finished_at IS NULL) = (state = 'running'))
) STRICT;
CREATE INDEX proofs_open ON proofs (id) WHERE finished_at IS NULL;
CREATE INDEX proofs_job ON proofs (job_id);
CREATE INDEX proofs_build ON proofs (build_id, id);
CREATE INDEX proofs_pipeline ON proofs (pipeline_id);
CREATE INDEX proofs_organization ON proofs (organization_id);
CREATE INDEX proofs_budget ON proofs (budget_id) WHERE budget_id IS NOT NULL;

-- The tests of a proof and how often they passed and failed; one without a name is the whole job.
CREATE TABLE proved_tests (
    id INTEGER PRIMARY KEY,
    proof_id INTEGER NOT NULL REFERENCES proofs (id) ON DELETE CASCADE,
    suite TEXT NOT NULL,
    name TEXT NOT NULL,
    passed INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX proved_tests_proof ON proved_tests (proof_id);
CREATE INDEX proved_tests_name ON proved_tests (name);

-- The runs of a proof that have ended; trouble says why one tells nothing.
CREATE TABLE proof_runs (
    id INTEGER PRIMARY KEY,
    proof_id INTEGER NOT NULL REFERENCES proofs (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    exit_code INTEGER,
    milliseconds INTEGER NOT NULL CHECK (milliseconds >= 0),
    trouble TEXT,
    UNIQUE (proof_id, number)
) STRICT;
