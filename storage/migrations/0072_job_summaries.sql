-- What the last command of a job has written to $CI_SUMMARY, in Markdown, without the job's secrets. It goes with the logs.
CREATE TABLE job_summaries (
    job_id INTEGER PRIMARY KEY REFERENCES jobs (id),
    build_id INTEGER NOT NULL REFERENCES builds (id),
    text TEXT NOT NULL,
    is_cut INTEGER NOT NULL CHECK (is_cut IN (0, 1))
) STRICT;
CREATE INDEX job_summaries_build ON job_summaries (build_id, job_id);
