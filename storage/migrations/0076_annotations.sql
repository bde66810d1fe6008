-- What the last command of a job says of places in the repository, by $CI_ANNOTATIONS or in lines of its log that a matcher knows,
-- without the job's secrets. They go with the logs.
CREATE TABLE annotations (
    id INTEGER PRIMARY KEY,
    job_id INTEGER NOT NULL REFERENCES jobs (id),
    build_id INTEGER NOT NULL REFERENCES builds (id),
    level TEXT NOT NULL CHECK (level IN ('error', 'warning', 'notice')),
    path TEXT CHECK (path <> ''),
    line INTEGER CHECK (line IS NULL OR (line > 0 AND path IS NOT NULL)),
    "column" INTEGER CHECK ("column" IS NULL OR ("column" > 0 AND line IS NOT NULL)),
    title TEXT CHECK (title <> ''),
    message TEXT NOT NULL,
    matcher TEXT CHECK (matcher <> ''),
    log_line INTEGER CHECK (log_line > 0)
) STRICT;
CREATE INDEX annotations_job ON annotations (job_id);
CREATE INDEX annotations_build ON annotations (build_id, id);
