-- The state of all pipelines of a commit as its host was told last; report_at is null once it is, or given up.
CREATE TABLE commit_checks (
    id INTEGER PRIMARY KEY,
    repository_id INTEGER NOT NULL REFERENCES repositories (id) ON DELETE CASCADE,
    commit_sha TEXT NOT NULL,
    recorded_at INTEGER NOT NULL,
    report_at INTEGER,
    report_failures INTEGER NOT NULL DEFAULT 0,
    report_error TEXT,
    state TEXT CHECK (state IN ('waiting', 'running', 'passed', 'failed', 'canceled')),
    description TEXT NOT NULL DEFAULT '',
    report_id TEXT,
    UNIQUE (repository_id, commit_sha)
) STRICT;
CREATE INDEX commit_checks_report ON commit_checks (report_at) WHERE report_at IS NOT NULL;
CREATE INDEX commit_checks_repository ON commit_checks (repository_id, report_at) WHERE report_at IS NOT NULL;
CREATE INDEX commit_checks_recorded ON commit_checks (recorded_at);
