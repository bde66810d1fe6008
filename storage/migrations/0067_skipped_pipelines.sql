-- Pipelines that are not built for a commit, of which its host is told; report_at is null once it is, or given up.
CREATE TABLE skipped_pipelines (
    id INTEGER PRIMARY KEY,
    repository_id INTEGER NOT NULL REFERENCES repositories (id) ON DELETE CASCADE,
    pipeline_id INTEGER NOT NULL REFERENCES pipelines (id),
    commit_sha TEXT NOT NULL,
    reason TEXT NOT NULL,
    recorded_at INTEGER NOT NULL,
    report_at INTEGER,
    report_failures INTEGER NOT NULL DEFAULT 0,
    report_error TEXT,
    UNIQUE (pipeline_id, commit_sha)
) STRICT;
CREATE INDEX skipped_pipelines_repository ON skipped_pipelines (repository_id);
CREATE INDEX skipped_pipelines_report ON skipped_pipelines (report_at) WHERE report_at IS NOT NULL;
CREATE INDEX skipped_pipelines_recorded ON skipped_pipelines (recorded_at);
