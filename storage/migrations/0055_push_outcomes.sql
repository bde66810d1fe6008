-- The outcome of each push and pull request that was looked at: builds, or the reason why there are none.
CREATE TABLE push_outcomes (
    id INTEGER PRIMARY KEY,
    repository_id INTEGER NOT NULL REFERENCES repositories (id) ON DELETE CASCADE,
    ref TEXT NOT NULL CHECK (ref <> ''),
    pull_request INTEGER,
    commit_sha TEXT NOT NULL,
    outcome TEXT NOT NULL,
    pages TEXT NOT NULL,
    recorded_at INTEGER NOT NULL
) STRICT;
CREATE INDEX push_outcomes_ref ON push_outcomes (repository_id, ref, id);
CREATE INDEX push_outcomes_repository ON push_outcomes (repository_id, id);
CREATE INDEX push_outcomes_recorded ON push_outcomes (recorded_at);
ALTER TABLE deliveries ADD COLUMN outcome TEXT;
