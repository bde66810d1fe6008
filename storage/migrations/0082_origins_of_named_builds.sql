-- A build may be of what somebody named, for whose commit the host is told, too. To say so, the table is made anew.
CREATE TABLE build_origins_remade (
    build_id INTEGER PRIMARY KEY REFERENCES builds (id) ON DELETE CASCADE,
    repository_id INTEGER REFERENCES repositories (id) ON DELETE SET NULL,
    event TEXT NOT NULL CHECK (event IN ('push', 'tag', 'pull_request', 'manual')),
    ref TEXT NOT NULL CHECK (ref <> ''),
    pull_request INTEGER,
    target_branch TEXT,
    actor TEXT,
    author_name TEXT,
    author_email TEXT,
    report_id TEXT,
    report_at INTEGER,
    report_failures INTEGER NOT NULL DEFAULT 0,
    report_error TEXT,
    reported TEXT
    CHECK (reported IN ('scheduled', 'running', 'failing', 'passed', 'failed', 'canceling', 'canceled'))
) STRICT;
INSERT INTO build_origins_remade (
    build_id, repository_id, event, ref, pull_request, target_branch, actor, author_name, author_email, report_id,
    report_at, report_failures, report_error, reported
)
SELECT
    build_id, repository_id, event, ref, pull_request, target_branch, actor, author_name, author_email, report_id,
    report_at, report_failures, report_error, reported
FROM build_origins;
DROP TABLE build_origins;
ALTER TABLE build_origins_remade RENAME TO build_origins;
CREATE INDEX build_origins_repository ON build_origins (repository_id);
CREATE INDEX build_origins_report ON build_origins (report_at) WHERE report_at IS NOT NULL;
