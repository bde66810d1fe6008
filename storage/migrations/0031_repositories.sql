-- Connected repositories, whose pushes are built, and the commit of each branch and tag that was looked at last.
CREATE TABLE repositories (
    id INTEGER PRIMARY KEY,
    uuid TEXT NOT NULL UNIQUE,
    organization_id INTEGER NOT NULL REFERENCES organizations (id),
    url TEXT NOT NULL CHECK (url <> ''),
    repo_name TEXT NOT NULL CHECK (repo_name <> ''),
    poll_seconds INTEGER NOT NULL CHECK (poll_seconds > 0),
    default_branch TEXT,
    created_at INTEGER NOT NULL,
    next_check_at INTEGER NOT NULL,
    checked_at INTEGER,
    failures INTEGER NOT NULL DEFAULT 0,
    last_error TEXT,
    UNIQUE (organization_id, url)
) STRICT;
CREATE INDEX repositories_due ON repositories (next_check_at);

CREATE TABLE repository_heads (
    repository_id INTEGER NOT NULL REFERENCES repositories (id) ON DELETE CASCADE,
    ref TEXT NOT NULL,
    commit_sha TEXT NOT NULL,
    PRIMARY KEY (repository_id, ref)
) STRICT, WITHOUT ROWID;
