-- The artifacts of other pipelines that a job takes: mappings of lists of globs by the keys of their jobs, by the pipeline and perhaps
-- its branch, as a JSON object. For each of these a build takes one build, whose artifacts all its jobs and their retries get.
ALTER TABLE jobs ADD COLUMN files_of TEXT NOT NULL DEFAULT '{}';
CREATE TABLE taken_builds (
    build_id INTEGER NOT NULL REFERENCES builds (id),
    source TEXT NOT NULL,
    taken_id INTEGER NOT NULL REFERENCES builds (id),
    PRIMARY KEY (build_id, source)
) STRICT, WITHOUT ROWID;
