-- What the last command of a job has given by $CI_OUTPUT: variables of the jobs that need it, as a JSON object. The error says why
-- some of it is not among them. Those of a build whose logs have expired stay while a disk of the job is in the cache.
CREATE TABLE job_outputs (
    job_id INTEGER PRIMARY KEY REFERENCES jobs (id),
    build_id INTEGER NOT NULL REFERENCES builds (id),
    variables TEXT NOT NULL,
    error TEXT CHECK (error <> ''),
    expired INTEGER NOT NULL DEFAULT 0 CHECK (expired IN (0, 1))
) STRICT;
CREATE INDEX job_outputs_build ON job_outputs (build_id);
CREATE INDEX job_outputs_expired ON job_outputs (job_id) WHERE expired = 1;
