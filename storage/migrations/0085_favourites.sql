-- A build that broke a branch is the first that failed since the last that passed: one look-up each.
CREATE INDEX builds_by_outcome ON builds (pipeline_id, branch, state, number) WHERE refused = 0;

DROP INDEX builds_failed;

-- The pipelines that somebody has first in lists.
CREATE TABLE favourites (
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    pipeline_id INTEGER NOT NULL REFERENCES pipelines (id) ON DELETE CASCADE,
    PRIMARY KEY (user_id, pipeline_id)
) STRICT, WITHOUT ROWID;
