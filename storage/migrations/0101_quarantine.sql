-- Tests whose failure alone does not fail a build, until expires_at or ended_at. An empty step_key stands for every step.
CREATE TABLE quarantined_tests (
    id INTEGER PRIMARY KEY,
    uuid TEXT NOT NULL UNIQUE,
    pipeline_id INTEGER NOT NULL REFERENCES pipelines (id) ON DELETE CASCADE,
    suite TEXT NOT NULL,
    name TEXT NOT NULL CHECK (name <> ''),
    step_key TEXT NOT NULL,
    owner TEXT NOT NULL,
    reason TEXT NOT NULL,
    created_by TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL CHECK (expires_at > created_at),
    ended_at INTEGER,
    ended_by TEXT,
    CHECK ((ended_at IS NULL) = (ended_by IS NULL))
) STRICT;
CREATE INDEX quarantined_tests_pipeline ON quarantined_tests (pipeline_id, id);
CREATE INDEX quarantined_tests_in_force ON quarantined_tests (pipeline_id, id) WHERE ended_at IS NULL;

-- The tests of a job that failed in quarantine, so that the job is a soft failure; build_id repeats the job's.
CREATE TABLE excused_tests (
    id INTEGER PRIMARY KEY,
    job_id INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    build_id INTEGER NOT NULL REFERENCES builds (id) ON DELETE CASCADE,
    suite TEXT NOT NULL,
    name TEXT NOT NULL,
    until INTEGER NOT NULL
) STRICT;
CREATE INDEX excused_tests_job ON excused_tests (job_id);
CREATE INDEX excused_tests_build ON excused_tests (build_id);
