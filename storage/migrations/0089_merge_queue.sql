-- Branches and pull requests that are merged one after the other, each built on top of those before it.
-- An entry that has not ended has no ended_at. base_commit and merge_commit are of the merge that is built of it.
CREATE TABLE merge_queue (
    id INTEGER PRIMARY KEY,
    uuid TEXT NOT NULL UNIQUE,
    repository_id INTEGER NOT NULL REFERENCES repositories (id) ON DELETE CASCADE,
    pull_request INTEGER,
    branch TEXT CHECK (branch <> ''),
    target TEXT CHECK (target <> ''),
    head TEXT CHECK (head <> ''),
    state TEXT NOT NULL CHECK (state IN ('queued', 'building', 'landed', 'thrown_out', 'left')),
    reason TEXT NOT NULL,
    base_commit TEXT,
    merge_commit TEXT,
    added_by TEXT NOT NULL,
    added_at INTEGER NOT NULL,
    ended_at INTEGER,
    CHECK (pull_request IS NOT NULL OR branch IS NOT NULL),
    CHECK ((ended_at IS NULL) = (state IN ('queued', 'building')))
) STRICT;
CREATE INDEX merge_queue_repository ON merge_queue (repository_id, ended_at);
CREATE INDEX merge_queue_open ON merge_queue (ended_at);
CREATE INDEX builds_merge ON builds (merge_commit) WHERE merge_commit IS NOT NULL;
